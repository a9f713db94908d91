"""The example `turnarounds` on Spark: sessions of aircraft are what the model says, also where a late flight
joins published ones.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.integration.command import here
from tests.integration.stored import StoredTables
from tests.model import brute_force
from tests.model.flights import HOUR_MS, departures_rules, flights, ms
from tests.model.records import Aggregate, Outcome, Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FROM, CUT, MIDNIGHT, TO = "2013-01-29", "2013-01-29T21:30", "2013-01-30", "2013-01-30T12:00"
RESULTS = ("departures", "mean_dep_delay")
JOINED = "N703TW"  # left at 14:09 and at 16:52 UTC, and reported so at 19:49 and at 22:46


@pytest.fixture(scope="module")
def stored(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoredTables]:
    warehouse = tmp_path_factory.mktemp("turnarounds")
    assert (
        here(
            "examples", "load", "turnarounds", "--from", FROM, "--to", "2013-01-31", "--warehouse", warehouse
        )
        == 0
    )
    for start, to in ((FROM, CUT), (CUT, MIDNIGHT), (MIDNIGHT, TO)):
        begin = ("--start", FROM) if start == FROM else ()
        assert here("run", "turnarounds", "--from", start, "--to", to, *begin, "--warehouse", warehouse) == 0
    yield StoredTables(warehouse, "turnarounds")


@pytest.fixture(scope="module")
def model() -> Outcome:
    by_aircraft = [event._replace(key=event.values["tailnum"]) for event in flights(FROM, TO)]
    rules = dataclasses.replace(
        departures_rules(FROM, TO),
        assigner=Session(3 * HOUR_MS),
        allowed_lateness=6 * HOUR_MS,
        aggregates=(Aggregate("departures", "count"), Aggregate("mean_dep_delay", "mean", "dep_delay")),
    )
    return brute_force.replay(by_aircraft, rules)


@pytest.mark.slow
def test_panes_published_and_parked_sessions_are_what_the_model_says(
    stored: StoredTables, model: Outcome
) -> None:
    found = Counter(
        (
            row["tailnum"],
            row["window_start"],
            row["window_end"],
            row["kind"],
            row["firing"],
            *(row[name] for name in RESULTS),
        )
        for row in stored.live("panes")
    )
    assert found == Counter(
        (
            pane.key,
            *pane.window,
            pane.kind,
            pane.firing,
            *((pane.results or {}).get(name) for name in RESULTS),
        )
        for pane in model.panes
    )
    published = Counter(
        (row["tailnum"], row["window_start"], row["window_end"], *(row[name] for name in RESULTS))
        for row in stored.rows("published")
    )
    assert published == Counter(
        (pane.key, *pane.window, *(pane.results[name] for name in RESULTS)) for pane in model.published
    )
    parked = Counter(
        (row["tailnum"], row["window_start"], row["window_end"], row["elements"])
        for row in stored.parked("window_state")
    )
    assert parked == Counter((window.key, *window.window, window.elements) for window in model.open_windows)


def test_sessions_cross_midnight(stored: StoredTables) -> None:
    crossing = [
        row for row in stored.rows("published") if row["window_start"] < ms(MIDNIGHT) < row["window_end"]
    ]
    assert any(row["run_seq"] == 3 for row in crossing)
    assert all(row["last_departure"] + 3 * HOUR_MS == row["window_end"] for row in crossing)


def test_a_flight_that_reports_late_withdraws_the_published_session_that_it_joins(
    stored: StoredTables,
) -> None:
    changes = [row for row in stored.rows("corrections") if row["tailnum"] == JOINED]
    [withdrawn] = [row for row in changes if row["op"] == "withdraw"]
    assert (withdrawn["seq"], withdrawn["cause"], withdrawn["old"]["departures"], withdrawn["new"]) == (
        2,
        "merge",
        1,
        None,
    )
    [joined] = [
        row
        for row in stored.rows("published")
        if row["tailnum"] == JOINED and row["window_start"] <= withdrawn["window_start"]
    ]
    assert joined["departures"] == 2 and joined["window_end"] >= withdrawn["window_end"]
