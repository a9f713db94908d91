"""The rows of a KeyedProcessFunction are staged, validated, published, parked and inspected as those of any
other pipeline.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.command import here
from tests.integration.stored import Row, StoredTables
from tests.model.flights import HOUR_MS, flights, ms

FILE = """
from dataclasses import replace
from datetime import timedelta

from slackwater.examples.departures import departures
from slackwater.pipelines import Pipeline, expect
from slackwater.windowing import KeyedProcessFunction, ReducingStateDescriptor, ValueStateDescriptor


def add(a, b):
    return a + b


class Carriers(KeyedProcessFunction):
    states = (
        ReducingStateDescriptor("taken_off", add, sql_type="long"),
        ValueStateDescriptor("hour", sql_type="long"),
    )

    def open(self, runtime_context):
        self.taken_off = runtime_context.get_reducing_state(self.states[0])
        self.hour = runtime_context.get_state(self.states[1])

    def process_element(self, value, context):
        if value.dest == {unwanted!r}:
            self.taken_off.add(1000)
            raise ValueError("no flights to there")
        self.taken_off.add(1)
        if self.hour.value() is None:
            self.hour.update(context.timestamp - context.timestamp % 3_600_000 + 3_600_000)
            context.timer_service.register_event_time_timer(self.hour.value())

    def on_timer(self, timestamp, context):
        yield (self.taken_off.get(),)
        self.taken_off.clear()
        self.hour.clear()


carriers = Pipeline(
    name="carriers",
    source=departures.source,
    watermarks=departures.watermarks,
    key_by="carrier",
    process=Carriers(),
    output="taken_off long",
    on_error="{on_error}",
    expect=[expect.between("taken_off", min=1, max=999)],
    start=departures.start,
)
at_once = replace(carriers, name="at_once", slice=timedelta(days=3))
"""
TO = "2013-01-04"


@pytest.fixture
def where(warehouse: Path, tmp_path: Path, without_spark: None) -> Callable[..., tuple[str, ...]]:
    def declare(unwanted: str = "", on_error: str = "fail") -> tuple[str, ...]:
        (tmp_path / "pipelines.py").write_text(FILE.format(unwanted=unwanted, on_error=on_error))
        return ("--warehouse", str(warehouse), "--pipelines", str(tmp_path / "pipelines.py"))

    return declare


def taken_off(rows: list[Row], keyed: list[Row]) -> Counter[str]:
    """Flights of each carrier, in the rows or still parked."""
    counted: Counter[str] = Counter()
    for row in rows:
        counted[row["carrier"]] += row["taken_off"]
    for row in keyed:
        counted[row["carrier"]] += row["taken_off__value"] or 0
    return counted


def parked(stored: StoredTables) -> list[Row]:
    return [row for row in stored.rows("keyed_state") if row["run_id"] == stored.ledger()[-1]["run_id"]]


@pytest.mark.slow
def test_its_rows_are_published_and_its_state_and_timers_are_parked(
    where: Callable[..., tuple[str, ...]], warehouse: Path, new_output: Callable[[], str]
) -> None:
    options = where()
    for pipeline in ("carriers", "at_once"):
        assert here("run", pipeline, "--to", TO, *options) == 0
    printed_counts = [int(count.replace(",", "")) for count in re.findall(r"emitted +([\d,]+)", new_output())]
    stored, once = StoredTables(warehouse, "carriers"), StoredTables(warehouse, "at_once")
    assert [len(item.ledger()) for item in (stored, once)] == [3, 1]
    wanted = Counter(event.source for event in flights("2013-01-01", TO) if event.event_time is not None)
    for item in (stored, once):
        assert taken_off(item.rows("published"), parked(item)) == wanted
    counts = [[row["rows_emitted"] for row in item.ledger()] for item in (stored, once)]
    assert [count for of_pipeline in counts for count in of_pipeline] == printed_counts
    panes = Counter(row["run_id"] for row in stored.rows("panes"))
    assert counts[0] == [panes[row["run_id"]] for row in stored.ledger()] and sum(counts[0]) == sum(counts[1])
    assert {row["kind"] for row in [*stored.rows("panes"), *stored.rows("published")]} == {"emitted"}
    assert here("plan", "carriers", *options) == 0
    forecast = rf"emitted +{sum(counts[0])} rows and 0 rows of side outputs in the runs so far \(3\)"
    assert re.search(forecast, new_output())
    assert here("plan", "carriers", "--from", "2013-01-02", "--to", "2013-01-03", *options) == 0
    assert (
        f"emitted      {counts[0][1]} rows and 0 rows of side outputs in the runs that are restated (1)"
        in new_output()
    )
    timers = [row for row in stored.rows("timers") if row["run_id"] == stored.ledger()[-1]["run_id"]]
    assert {(row["carrier"], row["time"]) for row in timers} == {
        (row["carrier"], row["hour__value"]) for row in parked(stored) if row["state_name"] == "hour"
    }
    assert {(row["domain"], row["purpose"], row["window_start"]) for row in timers} == {
        ("event", "user", None)
    }
    assert all(
        row["timestamp"] % HOUR_MS == 0 and row["window_start"] is None for row in stored.rows("published")
    )
    new_output()
    assert here("diff", "carriers", "at_once", *options) == 0
    assert "have published the same" in new_output()
    assert here("state", "timers", "carriers", *options, "--output", "json") == 0
    assert len(json.loads(new_output())) == len(timers)
    assert here("state", "keyed", "carriers", *options, "--output", "json") == 0
    assert len(json.loads(new_output())) == len(parked(stored))
    assert here("runs", "carriers", *options, "--output", "json") == 0
    dates = {row["window_date"] for row in stored.rows("published")}
    assert {day for row in json.loads(new_output()) for day in row["touched"]} == {
        str(date) for date in dates
    }
    assert here("pipelines", *options[2:]) == 0
    assert "Carriers" in new_output()


@pytest.mark.slow
def test_restating_a_range_whose_rows_have_not_changed_changes_nothing(
    where: Callable[..., tuple[str, ...]], warehouse: Path, new_output: Callable[[], str]
) -> None:
    options = where()
    assert here("run", "carriers", "--to", TO, *options) == 0
    before = StoredTables(warehouse, "carriers").rows("published")
    new_output()
    assert here("backfill", "carriers", "--from", "2013-01-02", "--to", "2013-01-03", *options) == 0
    told, after = new_output(), StoredTables(warehouse, "carriers")
    assert "the branch has converged" in told and "nothing in `published` has changed" in told
    assert Counter(map(repr, after.rows("published"))) == Counter(map(repr, before))
    assert after.ledger()[-2]["kind"] == "publish", "the branch is live now, and was dropped"


@pytest.mark.slow
def test_each_of_its_rows_is_an_insert_that_no_later_run_replaces(
    where: Callable[..., tuple[str, ...]], warehouse: Path
) -> None:
    assert here("run", "carriers", "--to", TO, *where()) == 0
    stored = StoredTables(warehouse, "carriers")
    assert {row["op"] for row in stored.rows("corrections")} == {"insert"}
    published = stored.rows("published")
    assert len(published) == len(stored.rows("panes")) == len(stored.rows("corrections")) > 0
    assert len(
        {(row["carrier"], row["timestamp"], row["run_seq"], row["ordinal"]) for row in published}
    ) == len(published)


@pytest.mark.slow
def test_elements_on_which_it_raises_are_set_aside_and_accounted_for(
    where: Callable[..., tuple[str, ...]], warehouse: Path
) -> None:
    assert here("run", "carriers", "--to", TO, *where(unwanted="LAX", on_error="quarantine")) == 0
    stored = StoredTables(warehouse, "carriers")
    flown = [event for event in flights("2013-01-01", TO) if event.event_time is not None]
    wanted = Counter(event.source for event in flown if event.values["dest"] != "LAX")
    assert taken_off(stored.rows("published"), parked(stored)) == wanted
    told = [row for row in stored.rows("quarantine") if row["reason_code"] == "user_code"]
    gone = [event for event in flown if event.values["dest"] == "LAX"]
    assert Counter(row["arrival_time"] for row in told) == Counter(event.arrival for event in gone)
    assert {json.loads(row["row_json"])["dest"] for row in told} == {"LAX"}
    assert all(
        "ValueError while processing an element: no flights to there [key '" in row["reason"] for row in told
    )
    assert all(row["source_file"] and row["source_version"] is not None for row in told)
    quarantined = sum(row["rows_quarantined"] for row in stored.ledger())
    assert quarantined == len(stored.rows("quarantine"))
    assert ms("2013-01-01") <= min(row["arrival_time"] for row in told)


def test_without_that_the_run_fails_and_names_key_and_row(
    where: Callable[..., tuple[str, ...]], warehouse: Path, new_output: Callable[[], str]
) -> None:
    new_output()
    assert here("run", "carriers", "--to", TO, *where(unwanted="LAX")) == 1
    message = new_output()
    assert (
        "carriers: A user function raised ValueError while processing an element: no flights to there [key '"
        in message
    )
    assert '"dest": "LAX"' in message and "declare on_error='quarantine'" in message
    assert StoredTables(warehouse, "carriers").rows("runs") == []
