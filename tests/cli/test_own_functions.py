"""A user's trigger, evictor and process function go through a whole run: expectations, publishing, side
outputs, snapshots.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration import facts_of_own_functions as facts
from tests.integration.command import here
from tests.integration.facts import outcome
from tests.integration.stored import StoredTables
from tests.model.flights import flights as model_flights
from tests.model.flights import ms

FILE = Path(facts.__file__).with_name("own_functions.py")


def run(warehouse: Path, *options: str) -> StoredTables:
    assert here("run", "latest", *options, "--warehouse", warehouse, "--pipelines", FILE) == 0
    return StoredTables(warehouse, "latest")


@pytest.mark.slow
def test_results_are_those_of_the_functions_over_the_models_windows(
    warehouse: Path, without_spark: None
) -> None:
    stored = run(warehouse, "--from", "2013-01-01", "--to", "2013-01-01T17:42")
    run(warehouse, "--from", "2013-01-01T17:42", "--to", "2013-01-02")
    stored = run(warehouse, "--from", "2013-01-02", "--to", "2013-01-03")
    wanted = facts.published("2013-01-03")
    assert facts.published_in(stored) == wanted
    assert len(wanted) > 50
    assert sum(row["windows_open"] for row in stored.ledger()[-1:]) == len(outcome("2013-01-03").open_windows)


def test_side_outputs_are_staged_with_the_run(warehouse: Path, without_spark: None) -> None:
    stored = run(warehouse, "--to", "2013-01-03")
    rows = stored.live("side_records")
    assert rows
    for origin in ("EWR", "JFK", "LGA"):
        records = [
            row["dep_delay"]
            for row in sorted(rows, key=lambda row: row["dep_delay"])
            if row["origin"] == origin
        ]
        assert len(set(records)) == len(records), "each record is worse than the one before"
    panes = {
        (row["origin"], row["window_start"], row["firing"]): row["worst"] for row in stored.live("panes")
    }
    assert all(panes[row["origin"], row["window_start"], row["firing"]] == row["dep_delay"] for row in rows)


def test_the_snapshot_is_readable(warehouse: Path, without_spark: None) -> None:
    stored = run(warehouse, "--to", "2013-01-02")
    windows = [row for row in stored.parked("window_state") if row["contents"] and row["user_state"]]
    assert windows
    for row in windows:
        kept = json.loads(row["contents"])
        assert 1 <= len(kept) <= 7, "five that the evictor left, and those since"
        [[name, fields], timestamp] = [kept[0]["$timestamped"][0]["$record"], kept[0]["$timestamped"][1]]
        assert (name, list(fields)) == ("Element", ["event_time", "dep_delay", "flight", "tailnum"])
        assert row["window_start"] <= timestamp < row["window_end"]
        assert json.loads(row["user_state"])["worst"]["value"]["$record"][0] == "Worst"
        assert json.loads(row["trigger_state"])["seen"] == {"reducing": row["elements"]}
    assert {row["state_name"] for row in stored.parked("keyed_state")} == {"record"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("declared", "changed", "told"),
    [
        ("worst int", "worst string", "output: column 'worst' is string, but the int "),
        ("worst int, ", "", "output: a row has 4 values, ("),
        ("origin string, flights", "flights", "output: a row has 4 values, ("),
        ("yield (key,", "yield ('LGA',", "output: column 'origin' is a key and was emitted as 'LGA', not "),
        (
            'side_outputs={"records"',
            'side_outputs={"others"',
            "a function wrote to the side output 'records' (key '",
        ),
        (
            '"dep_delay": worst.dep_delay, "flight"',
            '"flight"',
            "side output 'records': a row has ['at_time', 'flight'], but the columns are [",
        ),
        ("records=[Worst],", "", "State holds a slackwater_pipelines"),
        (
            "TriggerResult.FIRE if seen",
            "TriggerResult.FIRE_AND_PURGE if seen",
            "answered FIRE_AND_PURGE, but its class does not say `purges = True`",
        ),
    ],
)
def test_what_cannot_be_stored_fails_the_run_and_says_why(
    warehouse: Path,
    without_spark: None,
    tmp_path: Path,
    new_output: Callable[[], str],
    declared: str,
    changed: str,
    told: str,
) -> None:
    file = tmp_path / "changed.py"
    text = FILE.read_text()
    assert declared in text
    file.write_text(text.replace(declared, changed))
    assert here("run", "latest", "--to", "2013-01-02", "--warehouse", warehouse, "--pipelines", file) != 0
    assert told in new_output()
    assert StoredTables(warehouse, "latest").ledger() == []


INGESTION = """
from datetime import timedelta
from dataclasses import replace

from slackwater.examples.departures import departures
from slackwater import DeltaSource, TumblingProcessingTimeWindows, WatermarkStrategy, agg

source = DeltaSource(
    "sources/departures", event_time="arrival_time", arrival_time="arrival_time", order_by="row"
)
ingested = replace(
    departures,
    name="ingested",
    source=source,
    watermarks=WatermarkStrategy.monotonous().with_interval(timedelta(minutes=5)),
    allowed_lateness=timedelta(0),
    select={"flights": agg.count()},
    expect=[],
)
processed = replace(ingested, name="processed", window=TumblingProcessingTimeWindows.of(timedelta(hours=1)))
"""


@pytest.mark.parametrize("name", ["ingested", "processed"])
def test_windows_of_ingestion_and_of_processing_time_are_hours_of_arrival(
    warehouse: Path, without_spark: None, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "times.py"
    file.write_text(INGESTION)
    for to in ("2013-01-01T17:42", "2013-01-03"):
        assert here("run", name, "--to", to, "--warehouse", warehouse, "--pipelines", file) == 0
    hour, end = 3_600_000, ms("2013-01-03")
    arrived = Counter(
        (event.key, event.arrival // hour * hour) for event in model_flights("2013-01-01", "2013-01-03")
    )
    published = {
        (row["origin"], row["window_start"]): row["flights"]
        for row in StoredTables(warehouse, name).rows("published")
    }
    # The last window is open still: by ingestion its watermark, by the clock nothing but its last instant is
    # not yet over.
    over = {window: number for window, number in arrived.items() if window[1] + hour < end}
    assert {window: number for window, number in published.items() if window in over} == over
    assert published.items() <= arrived.items()
    assert len(over) > 50
    assert sum(row["rows_late"] for row in StoredTables(warehouse, name).ledger()) == 0
