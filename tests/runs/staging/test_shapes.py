"""A pipeline's own columns follow from its declarations and the source's types, and are plain whatever the
source has.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.pipelines import DeltaSource, Pipeline, agg, expect
from slackwater.pipelines.columns import SCALARS
from slackwater.pipelines.errors import PipelineError
from slackwater.runs.staging.shapes import check_parkable, shape_of
from slackwater.tables.schemas import TIME, table_schemas
from slackwater.tables.warehouse import Warehouse
from slackwater.windowing import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WatermarkStrategy,
    WindowFunction,
)

SOURCE = pa.schema(
    [
        ("e", TIME),
        ("a", TIME),
        ("origin", pa.string()),
        ("delay", pa.int32()),
        ("local", pa.timestamp("us")),
        ("x", pa.float32()),
    ]
)


def declared(**changes: Any) -> Pipeline:
    values: dict[str, Any] = {
        "name": "flights",
        "source": DeltaSource("t", event_time="e", arrival_time="a"),
        "watermarks": WatermarkStrategy.monotonous(),
        "key_by": "origin",
        "window": TumblingEventTimeWindows.of(timedelta(hours=1)),
        "select": {
            "n": agg.count(),
            "total": agg.sum("delay"),
            "mean_x": agg.mean("x"),
            "last": agg.max("local"),
        },
        "start": "2013-01-01",
    }
    return Pipeline(**{**values, **changes})


def test_keys_results_and_parts_have_the_types_of_the_source() -> None:
    shape = shape_of(declared(), SOURCE)
    assert shape.keys == (("origin", pa.string()),)
    assert shape.results == (
        ("n", pa.int64()),
        ("total", pa.int64()),
        ("mean_x", pa.float64()),
        ("last", TIME),
    )
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
        assert folder.open().as_delta_rs().protocol().min_reader_version == 1, name


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"select": {"n": agg.sum("origin")}}, r"select\['n'\] = sum\('origin'\): the column is string"),
        ({"expect": [expect.between("n", min="1")]}, "expect 1 <= n: column 'n' is int64"),
        ({"expect": [expect.in_set("origin", [1])]}, "column 'origin' is string"),
    ],
)
def test_what_does_not_suit_the_types_is_refused_before_a_run(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(PipelineError, match=told):
        shape_of(declared(**changes), SOURCE)


class Listing(WindowFunction):
    """A function for declarations; nothing here runs it."""


OWN: dict[str, Any] = {
    "select": {},
    "process": Listing(),
    "output": "origin string, n long, prices array<decimal(5,2)>",
}


def test_a_function_has_the_columns_that_it_declares_and_no_accumulators() -> None:
    shape = shape_of(declared(**OWN, side_outputs={"odd": "origin string, at_gate timestamp"}), SOURCE)
    assert shape.results == (("n", pa.int64()), ("prices", pa.list_(pa.decimal128(5, 2))))
    assert (shape.parts, shape.sides) == ((), (("odd", (("at_gate", TIME),)),))
    side = table_schemas(shape)["side_odd"]
    assert side.names == [
        "run_id",
        "key_group",
        "origin",
        "window_start",
        "window_end",
        "firing",
        "ordinal",
        "timestamp",
        "at_gate",
    ]


def test_an_evictor_keeps_elements_instead_of_accumulators() -> None:
    assert shape_of(declared(evictor=CountEvictor.of(3)), SOURCE).parts == ()


def test_every_type_that_may_be_declared_is_a_column() -> None:
    types = [*SCALARS, "decimal(38,0)", "array<array<decimal(1,1)>>"]
    output = ", ".join(f"c{number} {kind}" for number, kind in enumerate(types))
    assert len(shape_of(declared(**{**OWN, "output": output}), SOURCE).results) == len(types)


def test_a_column_that_cannot_be_a_field_of_an_element_must_be_left_out() -> None:
    source = SOURCE.append(pa.field("dep delay", pa.int32()))
    with pytest.raises(
        PipelineError, match=r"'dep delay'; name the columns that its code reads with columns="
    ):
        shape_of(declared(**OWN), source)
    assert shape_of(declared(**OWN, columns=["delay"]), source).result_names == ("n", "prices")
    assert shape_of(declared(), source).result_names[0] == "n"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"watermarks": WatermarkStrategy.monotonous().with_interval(timedelta(0))},
            "a replay needs ticks",
        ),
    ],
)
def test_what_cannot_be_replayed_or_held_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(PipelineError, match=told):
        check_parkable(declared(**changes))


class OwnWindows(TumblingEventTimeWindows):
    """A user's own assigner."""


@pytest.mark.parametrize(
    "changes",
    [
        {"window": GlobalWindows.create(), "trigger": PurgingTrigger.of(CountTrigger.of(3))},
        {"window": OwnWindows.of(timedelta(hours=1))},
        {"window": EventTimeSessionWindows.with_gap(timedelta(hours=1)), "evictor": CountEvictor.of(3)},
        {"window": TumblingProcessingTimeWindows.of(timedelta(hours=1))},
        OWN,
    ],
)
def test_all_other_windows_are_taken(changes: dict[str, Any]) -> None:
    check_parkable(declared(**changes))
