"""`slackwater late` lists the rows that were too late, reports the lateness that would have saved them, and
moves their arrivals.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import REPLAYED_TO, Hourly
from tests.integration.command import here
from tests.integration.facts import assert_corrections_make_published
from tests.integration.stored import StoredTables
from tests.model import brute_force
from tests.model.flights import departures_rules, flights
from tests.warehouses.earlier import unpacked

HOUR_MS = 3_600_000


def rows(new_output: Callable[[], str], *verb: object) -> list[dict[str, Any]]:
    new_output()
    assert here(*verb, "--output", "json") == 0
    text = new_output()
    return json.loads(text[: text.rindex("]") + 1])


def test_rows_of_one_key_or_one_run(replayed: StoredTables, new_output: Callable[[], str]) -> None:
    def late(*options: object) -> list[dict[str, Any]]:
        return rows(new_output, "late", "list", "departures", *options, "--warehouse", replayed.warehouse)

    everything = late()
    assert late("--key", "JFK") == [row for row in everything if row["origin"] == "JFK"] != []
    assert late("--run", 2) == [row for row in everything if row["seq"] == 2] != []
    assert late("--run", 99) == []


def test_the_report_says_what_each_lateness_would_have_left_too_late(
    replayed: StoredTables, new_output: Callable[[], str]
) -> None:
    found = rows(new_output, "late", "report", "departures", "--warehouse", replayed.warehouse)
    total = len(replayed.rows("late_events"))
    assert found[0]["rows_saved"] == 0 and found[-1]["rows_saved"] == total and found[-1]["share"] == 1
    assert 0 < found[1]["rows_saved"] < total
    events, rules = flights("2013-01-01", REPLAYED_TO), departures_rules("2013-01-01", REPLAYED_TO)
    for row in found:
        model = brute_force.replay(events, replace(rules, allowed_lateness=row["allowed_lateness_ms"]))
        assert len(model.late) == total - row["rows_saved"], row
    lateness = {"allowed_lateness": 6 * HOUR_MS, "bound": 90 * HOUR_MS // 60}
    options = ("--lateness", "6h", "--bound", "90m", "--warehouse", replayed.warehouse)
    [row] = rows(new_output, "late", "report", "departures", *options)
    model = brute_force.replay(events, replace(rules, **lateness))
    assert len(model.late) == total - row["rows_saved"] < total
    assert here("late", "report", "departures", "--key", "nobody", "--warehouse", replayed.warehouse) == 0
    assert "no row was too late" in new_output()


@pytest.mark.slow
def test_redriven_rows_are_taken_in_by_the_command_that_it_prints(
    hourly: Hourly, without_spark: None, new_output: Callable[[], str]
) -> None:
    hourly.begin("2013-01-04")
    before = hourly.stored.live("late_events")
    mine = [row for row in before if row["origin"] == "JFK"]
    assert 0 < len(mine) < len(before)
    assert here("late", "redrive", "hourly", "--key", "JFK", *hourly.where) == 2
    assert "Missing option '--reason'" in new_output()
    assert (
        here("late", "redrive", "hourly", "--key", "JFK", "--reason", "gateway", "--dry-run", *hourly.where)
        == 0
    )
    assert (
        f"{len(mine)} rows would get a new arrival time, {len(mine)} for the first time" in new_output()
        and hourly.stored.rows("overrides") == []
    )
    assert here("late", "redrive", "hourly", "--key", "JFK", "--reason", "gateway", *hourly.where) == 0
    [command] = [line for line in new_output().splitlines() if "To re-admit: " in line]
    assert {
        (row["reason"], row["arrival_time"] < row["true_arrival"]) for row in hourly.stored.rows("overrides")
    } == {("gateway", True)}
    assert here(*command.split("`slackwater ")[1].split("`")[0].split(), *hourly.where) == 0
    assert {row["row"] for row in hourly.stored.live("late_events")} == {row["row"] for row in before} - {
        row["row"] for row in mine
    }
    assert_corrections_make_published(hourly.stored)


@pytest.mark.parametrize("verb", ["report", "redrive"])
def test_a_pipeline_that_never_ran_is_told_with_the_next_step(
    hourly: Hourly, new_output: Callable[[], str], verb: str
) -> None:
    options = ("--reason", "none") if verb == "redrive" else ()
    assert here("late", verb, "hourly", *options, *hourly.where) == 2
    assert "has never run" in new_output()


def test_the_advice_is_what_a_replay_with_the_other_settings_leaves(
    replayed: StoredTables, new_output: Callable[[], str]
) -> None:
    where = ("--warehouse", replayed.warehouse)
    assert here("late", "advise", "departures", *where, "--output", "json") == 0
    advice = json.loads(new_output())
    events, rules = flights("2013-01-01", REPLAYED_TO), departures_rules("2013-01-01", REPLAYED_TO)
    assert advice["allowed_lateness_ms"] == rules.allowed_lateness and advice["bound_ms"] == rules.bound
    assert {"declared", "suggested"} <= {price["note"] for price in advice["lateness"]}
    for price in advice["lateness"][::3]:
        model = brute_force.replay(events, replace(rules, allowed_lateness=price["lateness_ms"]))
        refires = [(pane.key, pane.window) for pane in model.panes if pane.kind == "late"]
        counts = (len(model.late), len(refires), len(set(refires)))
        assert counts == (price["late_rows"], price["refires"], price["windows_refired"]), price
    for price in advice["bound"][1:6:2]:
        model = brute_force.replay(events, replace(rules, bound=price["bound_ms"]))
        assert len(model.late) == price["late_rows"], price


def test_shorter_bounds_have_a_price_where_the_source_is_read(
    replayed: StoredTables, new_output: Callable[[], str]
) -> None:
    options = ("--elements", "--bound", "25m", "--warehouse", replayed.warehouse, "--output", "json")
    assert here("late", "advise", "departures", *options) == 0
    [price] = [one for one in json.loads(new_output())["bound"] if one["bound_ms"] == 25 * 60_000]
    events, rules = flights("2013-01-01", REPLAYED_TO), departures_rules("2013-01-01", REPLAYED_TO)
    model = brute_force.replay(events, replace(rules, bound=25 * 60_000))
    assert price["late_rows"] == len(model.late) and price["delay_ms"] == -35 * 60_000


def test_the_advice_fits_a_terminal_and_says_what_is_exact(
    replayed: StoredTables, new_output: Callable[[], str]
) -> None:
    assert here("late", "advise", "departures", "--warehouse", replayed.warehouse) == 0
    output = new_output()
    assert "hours instead of 4 hours would have saved" in output and "Rows saved are exact." in output
    assert here("late", "advise", "nowhere", "--warehouse", replayed.warehouse) == 2


def test_late_rows_of_earlier_versions_are_told(tmp_path: Path, new_output: Callable[[], str]) -> None:
    warehouse = unpacked(tmp_path)
    for options in (["list", "--limit", "2"], ["report", "--lateness", "5h", "--bound", "2h"], ["advise"]):
        assert here("late", options[0], "peaks", *options[1:], "--warehouse", warehouse) == 0, new_output()
    assert "would have saved" in new_output()
    assert here("late", "advise", "totals", "--warehouse", warehouse) == 2
    assert "has no windows" in new_output()
