"""A pipeline's own columns follow from its declarations and the source's types, and are plain whatever the source has."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.pipelines import DeltaSource, Pipeline, count, expect, max_, mean, sum
from jobs.pipelines.errors import PipelineError
from jobs.protocol.shapes import check_parkable, shape_of
from jobs.tables.schemas import TIME
from jobs.tables.warehouse import Warehouse
from windowing import (
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)

SOURCE = pa.schema(
    [("e", TIME), ("a", TIME), ("origin", pa.string()), ("delay", pa.int32()), ("local", pa.timestamp("us")), ("x", pa.float32())]
)


def declared(**changes: Any) -> Pipeline:
    values: dict[str, Any] = {
        "name": "flights",
        "source": DeltaSource("t", event_time="e", arrival_time="a"),
        "watermarks": WatermarkStrategy.monotonous(),
        "key_by": "origin",
        "window": TumblingEventTimeWindows.of(timedelta(hours=1)),
        "select": {"n": count(), "total": sum("delay"), "mean_x": mean("x"), "last": max_("local")},
        "start": "2013-01-01",
    }
    return Pipeline(**{**values, **changes})


def test_keys_results_and_parts_have_the_types_of_the_source() -> None:
    shape = shape_of(declared(), SOURCE)
    assert shape.keys == (("origin", pa.string()),)
    assert shape.results == (("n", pa.int64()), ("total", pa.int64()), ("mean_x", pa.float64()), ("last", TIME))
    assert shape.parts == (
        ("n__count", pa.int64()),
        ("total__sum", pa.decimal128(38, 0)),
        ("total__count", pa.int64()),
        ("mean_x__sum", pa.float64()),
        ("mean_x__sum_exact", pa.binary()),
        ("mean_x__count", pa.int64()),
        ("last__max", TIME),
    )
    assert (shape.key_names, shape.result_names) == (("origin",), ("n", "total", "mean_x", "last"))


def test_times_without_a_zone_do_not_make_a_table_that_some_readers_lack(tmp_path: Path) -> None:
    tables = Warehouse(str(tmp_path)).tables("flights", shape_of(declared(), SOURCE))
    tables.ensure()
    for name, folder in tables.folders.items():
        assert folder.open().protocol().min_reader_version == 1, name


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"select": {"n": sum("origin")}}, r"select\['n'\] = sum\('origin'\): the column is string"),
        ({"expect": [expect.between("n", min="1")]}, "expect 1 <= n: column 'n' is int64"),
        ({"expect": [expect.in_set("origin", [1])]}, "column 'origin' is string"),
    ],
)
def test_what_does_not_suit_the_types_is_refused_before_a_run(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(PipelineError, match=told):
        shape_of(declared(**changes), SOURCE)


class OwnWindows(TumblingEventTimeWindows):
    """A user's own assigner: code that would have to travel to executors."""


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"window": GlobalWindows.create()}, "window GlobalWindows can't be parked between runs yet; use one of TumblingEventTimeWindows"),
        ({"window": OwnWindows.of(timedelta(hours=1))}, "window OwnWindows can't be parked"),
        ({"trigger": CountTrigger.of(3)}, r"trigger CountTrigger\(.*3\) can't be parked between runs yet"),
        ({"watermarks": WatermarkStrategy.monotonous().with_interval(timedelta(0))}, "watermarks must be periodic"),
        ({"watermarks": WatermarkStrategy.punctuated(max)}, "watermarks must be periodic"),
    ],
)
def test_what_the_snapshot_tables_cannot_hold_yet_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(PipelineError, match=told):
        check_parkable(declared(**changes))


def test_what_they_can_hold_is_taken() -> None:
    for window in (
        SlidingEventTimeWindows.of(timedelta(hours=2), timedelta(hours=1)),
        EventTimeSessionWindows.with_gap(timedelta(hours=1)),
    ):
        check_parkable(declared(window=window, trigger=PurgingTrigger.of(EventTimeTrigger())))
