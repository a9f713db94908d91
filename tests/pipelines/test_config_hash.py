"""The config hash is a function of the declarations: of every one of them, and of nothing else."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from slackwater.pipelines import DeltaSource, Health, Pipeline, agg, expect
from slackwater.pipelines.canonical import OpaqueValue, plain_value
from slackwater.pipelines.errors import PipelineError
from slackwater.pipelines.registry import config_hash, load
from slackwater.runs.staging.columns_in_use import aggregate_of
from slackwater.sinks import ChangeFeedSink
from slackwater.windowing import (
    AggregateFunction,
    CalendarEventTimeWindows,
    CountEvictor,
    CountTrigger,
    EventTimeTrigger,
    PurgingTrigger,
    ReduceFunction,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WatermarkStrategy,
    WindowFunction,
)

HOUR = timedelta(hours=1)
ROOT = Path(__file__).resolve().parents[2]


def declared(**changes: Any) -> Pipeline:
    values: dict[str, Any] = {
        "name": "flights",
        "source": DeltaSource("t", event_time="e", arrival_time="a"),
        "watermarks": WatermarkStrategy.bounded_out_of_orderness(HOUR).with_interval(timedelta(minutes=5)),
        "key_by": "origin",
        "window": TumblingEventTimeWindows.of(HOUR),
        "select": {"flights": agg.count()},
        "start": "2013-01-01",
    }
    return Pipeline(**{**values, **changes})


class Point(NamedTuple):
    x: int


class Last(WindowFunction):
    def __init__(self, number: int) -> None:
        self.number = number


class Total(AggregateFunction):
    def __init__(self, weight: int) -> None:
        self.weight = weight


class Longest(ReduceFunction):
    pass


# At least one other value for each declaration, beside the one that `declared` has.
CHANGES: dict[str, list[Any]] = {
    "name": ["flights2"],
    "source": [
        DeltaSource("u", event_time="e", arrival_time="a"),
        DeltaSource("t", event_time="f", arrival_time="a"),
        DeltaSource("t", event_time="e", arrival_time="b"),
        DeltaSource("t", event_time="e", arrival_time="a", source_partition="p"),
        DeltaSource("t", event_time="e", arrival_time="a", order_by="p"),
        DeltaSource("t", event_time="e", arrival_time="e"),
        DeltaSource("t", event_time="e", order="event"),
    ],
    "derive": [{"x": "i + 1"}, {"x": "i + 2"}, {"y": "i + 1"}],
    "watermarks": [
        WatermarkStrategy.monotonous(),
        WatermarkStrategy.bounded_out_of_orderness(2 * HOUR).with_interval(timedelta(minutes=5)),
        WatermarkStrategy.bounded_out_of_orderness(HOUR).with_interval(timedelta(minutes=6)),
        WatermarkStrategy.bounded_out_of_orderness(HOUR)
        .with_interval(timedelta(minutes=5))
        .with_idleness(HOUR),
    ],
    "key_by": ["dest", ["origin", "dest"], ["dest", "origin"]],
    "window": [
        TumblingEventTimeWindows.of(2 * HOUR),
        TumblingEventTimeWindows.of(HOUR, timedelta(minutes=1)),
        SlidingEventTimeWindows.of(HOUR, HOUR),
    ],
    "select": [
        {"flights": agg.count("e")},
        {"n": agg.count()},
        {"flights": agg.mean("x")},
        {"flights": agg.count(), "n": agg.count()},
    ],
    "results": [{"twice": "flights * 2"}, {"twice": "flights * 3"}, {"more": "flights * 3"}],
    "hidden": [["flights"], ["m"]],
    "having": ["flights > 1", "flights > 2"],
    "start": ["2013-01-02"],
    "where": ["n > 3", "n > 4"],
    "distinct_by": ["row", ["row", "n"]],
    "on_error": ["quarantine"],
    "keep_snapshots": [31],
    "keep_snapshot_every": [HOUR],
    "keep_history": [HOUR, 2 * HOUR],
    "trigger": [
        EventTimeTrigger(),
        CountTrigger.of(3),
        CountTrigger.of(4),
        PurgingTrigger.of(CountTrigger.of(3)),
    ],
    "allowed_lateness": [HOUR],
    "expect": [
        [expect.between("flights", min=1)],
        [expect.between("flights", max=1)],
        [expect.between("flights", min=Decimal("1.5"))],
        [expect.between("flights", min=Decimal("1.25"))],
        [expect.between("flights", min=date(2013, 1, 1))],
        [expect.between("flights", min=1, severity="warn")],
        [expect.between("origin", min=1)],
        [expect.in_set("flights", [1])],
        [expect.in_set("flights", ["1"])],
        [expect.not_null("flights")],
        [expect.rows(min=1)],
        [expect.rows(max=1)],
        [expect.rows(min=1, severity="warn")],
        [expect.rows(min=expect.history(1))],
        [expect.rows(min=expect.history(1, runs=5))],
        [expect.rows(min=expect.history(1, of="mean"))],
        [expect.late_share(1)],
        [expect.quarantine_share(1)],
        [expect.freshness(HOUR)],
        [expect.not_null("flights"), expect.not_null("origin")],
    ],
    "timezone": ["Europe/Berlin"],
    "schedule": ["@hourly", None],
    "slice": [HOUR],
    "max_catch_up": [41],
    "max_ahead": [HOUR],
    "max_behind": [HOUR, 2 * HOUR],
    "settle": [HOUR],
    "stragglers": ["restate"],
    "late_refires": ["tick", "run"],
    "flink_exact": [True],
    "approve_warnings": [True],
    "max_parallelism": [64],
    "evictor": [CountEvictor.of(3), CountEvictor.of(4), CountEvictor.of(3, do_evict_after=True)],
    "process": [Last(2)],
    "reduce": [Longest()],
    "aggregate": [Total(2)],
    "output": ["n int", "m long"],
    "side_outputs": [{"odd": "n long"}, {"odd": "n int"}, {"even": "n long"}],
    "columns": [["x"], ["x", "y"]],
    "records": [[Point]],
    "pickled_state": [True],
}

# What some declarations need beside them, with values that none of them has above.
NEEDS: dict[str, dict[str, Any]] = {
    "hidden": {"select": {"flights": agg.count(), "m": agg.max("x"), "o": agg.max("y")}},
    "process": {"select": {}, "output": "n long", "process": Last(1)},
    "aggregate": {"select": {}, "output": "n long", "aggregate": Total(1)},
    "reduce": {"select": {}, "output": "n long", "reduce": max},
    "output": {"select": {}, "process": Last(3), "output": "n short"},
    "side_outputs": {"select": {}, "output": "n long", "process": Last(4)},
}


def test_every_declaration_changes_the_hash_and_no_two_changes_are_alike() -> None:
    left_out = {"sinks", "on", "health"}
    assert set(CHANGES) == {field.name for field in fields(Pipeline) if field.init} - left_out
    assert config_hash(declared(on="spark")) == config_hash(declared())
    hashes = [config_hash(declared())]
    for name, values in CHANGES.items():
        hashes += [config_hash(declared(**{**NEEDS.get(name, {}), name: value})) for value in values]
    hashes += [config_hash(declared(**declarations)) for declarations in NEEDS.values()]
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize(
    "alike",
    [
        {"key_by": ["origin"]},
        {"key_by": ("origin",)},
        {"start": datetime(2013, 1, 1, tzinfo=UTC)},
        {"start": date(2013, 1, 1)},
        {"expect": ()},
        {"window": TumblingEventTimeWindows.of(timedelta(minutes=60))},
        {"sinks": [ChangeFeedSink("feed", uri="feeds/flights")]},
        {"health": Health(overdue=(timedelta(hours=3), None))},
    ],
)
def test_equal_declarations_have_equal_hashes(alike: dict[str, Any]) -> None:
    assert config_hash(declared(**alike)) == config_hash(declared())


def test_the_config_hash_is_sha256_over_canonical_json() -> None:
    text = json.dumps(declared().describe(), sort_keys=True, separators=(",", ":"))
    assert config_hash(declared()) == hashlib.sha256(text.encode()).hexdigest()
    assert declared().describe()["window"] == {
        "class": "TumblingEventTimeWindows",
        "offset_ms": 0,
        "size_ms": 3_600_000,
    }
    settings = dict.fromkeys(["column", "where", "by", "precision", "quantile", "relative_error"])
    assert declared().describe()["select"] == {"flights": {"class": "Aggregate", "kind": "count", **settings}}


USERS_FILE = """
from dataclasses import dataclass
from datetime import timedelta
from slackwater import DeltaSource, EventTimeTrigger, Pipeline, TumblingEventTimeWindows
from slackwater import WatermarkStrategy, agg, expect

def mark(element, timestamp):
    return timestamp

@dataclass(frozen=True)
class MyTrigger(EventTimeTrigger):
    names: frozenset = frozenset({"a", "b", "c", "d", "e"})

mine = Pipeline(
    name="mine", source=DeltaSource("t", event_time="e", arrival_time="a"),
    watermarks=WatermarkStrategy.punctuated(mark), key_by="k",
    window=TumblingEventTimeWindows.of(timedelta(hours=1)), trigger=MyTrigger(),
    select={"n": agg.count()}, start="2013-01-01",
)
"""


def test_settings_that_older_versions_lacked_are_left_out_where_nothing_is_declared() -> None:
    select = {"n": agg.count(), "names": agg.collect_list("name", limit=3)}
    select["delays"] = agg.histogram("delay", [0, 15])
    described = declared(select=select).describe()["select"]
    assert {name for name, value in described["n"].items() if value is not None} == {"class", "kind"}
    older = {"class", "kind", "column", "where", "by", "precision", "quantile", "relative_error"}
    assert set(described["n"]) == older
    assert set(described["names"]) == {*older, "limit"}
    assert aggregate_of(described["delays"]) == select["delays"]


def test_the_config_hash_depends_neither_on_the_process_nor_on_where_the_file_lies(
    tmp_path: Path,
) -> None:
    hashes = []
    for number in range(2):
        path = tmp_path / str(number) / "pipelines.py"
        path.parent.mkdir()
        path.write_text(USERS_FILE)
        probe = (
            "from slackwater.pipelines.registry import load, config_hash; "
            f"print(config_hash(load({str(path)!r})['mine']))"
        )
        environment = {**os.environ, "PYTHONHASHSEED": str(number), "TZ": ["UTC", "Asia/Tokyo"][number]}
        process = subprocess.run(
            [sys.executable, "-c", probe],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
            cwd=ROOT,
        )
        hashes.append(process.stdout.strip())
    assert len(hashes[0]) == 64 and hashes[0] == hashes[1]


def test_the_examples_declarations_are_plain() -> None:
    json.dumps(load()["departures"].describe(), allow_nan=False)


class Colour(Enum):
    RED = 1


@dataclass(frozen=True, slots=True)
class Slotted:
    x: int


def function() -> None:
    pass


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (1.5, 1.5),
        (timedelta(seconds=1), {"microseconds": 1_000_000}),
        (Decimal("1.50"), {"decimal": "1.50"}),
        (b"\x01", {"bytes": "01"}),
        ({1, 2}, {"set": [1, 2]}),
        (frozenset({"b", "a"}), {"set": ["a", "b"]}),
        ((1, [2]), [1, [2]]),
        ({1: date(2013, 1, 1)}, {"1": "2013-01-01"}),
        (Slotted(3), {"class": "Slotted", "x": 3}),
        (function, f"{__name__}.function"),
        (Slotted, f"{__name__}.Slotted"),
        (TumblingEventTimeWindows, "windowing.assigners.TumblingEventTimeWindows"),
        (
            CalendarEventTimeWindows.days("UTC"),  # as before there were a count and a date
            {
                "class": "CalendarEventTimeWindows",
                "zone": "UTC",
                "unit": "days",
                "first_day": "monday",
            },
        ),
        (
            CalendarEventTimeWindows.quarters("UTC", since=date(2024, 4, 1)),
            {
                "class": "CalendarEventTimeWindows",
                "zone": "UTC",
                "unit": "months",
                "first_day": "monday",
                "count": 3,
                "since": "2024-04-01",
            },
        ),
        (Colour.RED, f"{__name__}.Colour.RED"),
        (partial(function, 1, x=2), {"partial": f"{__name__}.function", "args": [1], "keywords": {"x": 2}}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_have_a_form_in_plain_json(value: Any, shown: Any) -> None:
    assert plain_value(value) == shown
    json.dumps(plain_value(value))


def test_a_value_whose_contents_cannot_be_read_is_refused() -> None:
    with pytest.raises(OpaqueValue, match="contents can't be told"):
        plain_value(1j)
    with pytest.raises(
        PipelineError, match=r"Pipeline 'flights': .* a change of it could not be noticed between two runs"
    ):
        declared(expect=[expect.in_set("flights", [memoryview(b"")])])
