"""Which columns of the source a pipeline's keys, times, aggregates and code read, and which may be keys."""

from datetime import timedelta

import pyarrow as pa
import pytest

from slackwater.engine.rows.columns_read import (
    SourceColumnError,
    check_key_types,
    columns_read,
    element_columns,
)
from slackwater.pipelines import DeltaSource, agg
from slackwater.windowing import (
    CountEvictor,
    CountTrigger,
    DeltaEvictor,
    DeltaTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
    TumblingEventTimeWindows,
    WindowFunction,
)
from tests.engine.rows.declared_rows import declared


def test_the_columns_that_a_pipeline_reads_are_each_named_once() -> None:
    source = DeltaSource("t", event_time="e", arrival_time="a", source_partition="k", order_by="row")
    pipeline = declared(
        source=source,
        select={"n": agg.count(), "seen": agg.count("x"), "most": agg.max("x"), "last": agg.max("e")},
    )
    assert columns_read(pipeline, ["e", "a", "x", "y"]) == ("k", "part", "e", "a", "row", "x")


class Listing(WindowFunction):
    """A function for declarations; nothing here runs it."""


def test_elements_hold_what_the_pipelines_code_reads() -> None:
    source = ["e", "a", "k", "x", "y"]
    functions = {"select": {}, "process": Listing(), "output": "n long"}
    assert element_columns(declared(), source) == ()
    assert element_columns(declared(**functions), source) == ("e", "a", "k", "x", "y")
    assert element_columns(declared(**functions, columns=["y"]), source) == ("y",)
    assert columns_read(declared(key_by="k", **functions, columns=["y"]), source) == (
        "k",
        "e",
        "a",
        "row",
        "y",
    )
    # An evictor, a trigger or a gap that looks at elements is handed them, also beside a select.
    for looks in (
        {"evictor": DeltaEvictor.of(1.0, max)},
        {"trigger": PurgingTrigger.of(DeltaTrigger.of(1.0, max))},
        {"window": EventTimeSessionWindows.with_dynamic_gap(max)},
        {"window": type("Own", (TumblingEventTimeWindows,), {})(size_ms=1)},
    ):
        assert element_columns(declared(**looks, select={"total": agg.sum("x")}, columns=["y"]), source) == (
            "y",
        )
    for blind in (
        {"evictor": CountEvictor.of(3)},
        {"trigger": ProcessingTimeoutTrigger.of(CountTrigger.of(2), timedelta(1))},
        {"window": GlobalWindows.create()},
    ):
        assert element_columns(declared(**blind, select={"total": agg.sum("x")}, columns=["y"]), source) == ()


@pytest.mark.parametrize(
    ("kind", "fits"),
    [
        *(
            (kind, True)
            for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.string(), pa.bool_(), pa.date32())
        ),
        *(
            (kind, False)
            for kind in (
                pa.float64(),
                pa.decimal128(5, 0),
                pa.timestamp("us"),
                pa.binary(),
                pa.list_(pa.int64()),
            )
        ),
    ],
    ids=str,
)
def test_keys_are_what_flink_hashes_alike_everywhere(kind: pa.DataType, fits: bool) -> None:
    schema = pa.schema([("k", pa.string()), ("part", kind)])
    if fits:
        check_key_types(declared(), schema)
    else:
        with pytest.raises(
            SourceColumnError,
            match=r"key column 'part' is .*; keys are integers, strings, booleans and dates",
        ):
            check_key_types(declared(), schema)
