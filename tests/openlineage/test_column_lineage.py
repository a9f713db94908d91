"""The dependencies of each kind of pipeline's columns, against lists written by hand. No rows, no tables."""

from datetime import timedelta
from typing import Any

import pytest

from slackwater import (
    DeltaSource,
    EventTimeSessionWindows,
    GlobalWindows,
    KeyedProcessFunction,
    Pipeline,
    ProcessWindowFunction,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WatermarkStrategy,
    agg,
)
from slackwater.openlineage.column_lineage import (
    Dependency,
    dependencies_of_all_rows,
    dependencies_of_published,
    dependencies_of_side_output,
)

HOUR = timedelta(hours=1)
# All columns of the source.
COLUMNS = ("e", "a", "part", "row", "k", "x", "y")
EVENT_TIME = (Dependency("e", "TRANSFORMATION"),)


class Sides(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield (key, 1)


class Timers(KeyedProcessFunction):
    def process_element(self, value: Any, context: Any) -> Any:
        yield (value.x,)


def pipeline_of(**settings: Any) -> Pipeline:
    declared: dict[str, Any] = {
        "name": "own",
        "source": DeltaSource(
            "sources/own", event_time="e", arrival_time="a", source_partition="part", order_by="row"
        ),
        "watermarks": WatermarkStrategy.bounded_out_of_orderness(HOUR),
        "key_by": "k",
        "window": TumblingEventTimeWindows.of(HOUR),
        "start": "2013-01-01",
    }
    return Pipeline(**{**declared, **settings})


def subtypes(dependencies: tuple[Dependency, ...]) -> dict[str, set[str]]:
    """Column → how it is depended on."""
    columns: dict[str, set[str]] = {}
    for dependency in dependencies:
        columns.setdefault(dependency.column, set()).add(dependency.subtype)
    return columns


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        (agg.count(), []),
        (agg.count("x"), [Dependency("x", "AGGREGATION", True)]),
        (agg.count_distinct("x"), [Dependency("x", "AGGREGATION", True)]),
        (agg.approx_distinct("x"), [Dependency("x", "AGGREGATION", True)]),
        (agg.sum("x"), [Dependency("x", "AGGREGATION")]),
        (agg.approx_quantile("x", 0.5), [Dependency("x", "AGGREGATION")]),
        (agg.corr("x", "y"), [Dependency("x", "AGGREGATION"), Dependency("y", "AGGREGATION")]),
        (agg.max_by("x", "y"), [Dependency("x", "AGGREGATION"), Dependency("y", "SORT")]),
        (
            agg.max("x", where="y > 1 AND k = 'a'"),
            [Dependency("x", "AGGREGATION"), Dependency("y", "CONDITIONAL"), Dependency("k", "CONDITIONAL")],
        ),
        (
            agg.first("x"),
            [
                Dependency("x", "AGGREGATION"),
                Dependency("e", "SORT"),
                Dependency("a", "SORT"),
                Dependency("row", "SORT"),
            ],
        ),
        (
            agg.last("x", by="arrival"),
            [Dependency("x", "AGGREGATION"), Dependency("a", "SORT"), Dependency("row", "SORT")],
        ),
    ],
    ids=lambda value: value.kind if hasattr(value, "kind") else "",
)
def test_a_result_depends_on_what_its_aggregate_reads(aggregate: Any, expected: list[Dependency]) -> None:
    pipeline = pipeline_of(select={"result": aggregate})
    assert list(dependencies_of_published(pipeline, COLUMNS)["result"]) == expected


def test_values_that_go_into_a_result_are_told_from_those_that_decide() -> None:
    direct = {"IDENTITY", "TRANSFORMATION", "AGGREGATION"}
    indirect = {"CONDITIONAL", "SORT", "GROUP_BY", "FILTER", "WINDOW"}
    assert {subtype: Dependency("x", subtype).type for subtype in direct | indirect} == {
        **dict.fromkeys(direct, "DIRECT"),
        **dict.fromkeys(indirect, "INDIRECT"),
    }


def test_derived_columns_are_traced_to_the_columns_of_the_source() -> None:
    pipeline = pipeline_of(
        derive={"pair": "x + y", "spot": "concat(k, cast(pair as text))"},
        key_by=["k", "spot"],
        where="pair > 1",
        select={"total": agg.sum("pair", where="spot <> 'a'")},
    )
    dependencies = dependencies_of_published(pipeline, (*COLUMNS, "pair", "spot"))
    assert dependencies["k"] == (Dependency("k", "IDENTITY"),)
    assert subtypes(dependencies["spot"]) == {name: {"TRANSFORMATION"} for name in "kxy"}
    assert subtypes(dependencies["total"]) == {
        "x": {"AGGREGATION", "CONDITIONAL"},
        "y": {"AGGREGATION", "CONDITIONAL"},
        "k": {"CONDITIONAL"},
    }
    assert subtypes(dependencies_of_all_rows(pipeline)) == {
        "k": {"GROUP_BY"},
        "x": {"GROUP_BY", "FILTER"},
        "y": {"GROUP_BY", "FILTER"},
        **{name: {"WINDOW"} for name in ("e", "a", "part")},
        "row": {"SORT"},
    }


def test_computed_results_depend_on_what_their_operands_do() -> None:
    pipeline = pipeline_of(
        select={"total": agg.sum("x"), "most": agg.max("y")},
        results={"share": "total / most", "label": "k || share"},
        hidden=["most"],
    )
    dependencies = dependencies_of_published(pipeline, COLUMNS)
    assert "most" not in dependencies
    assert subtypes(dependencies["share"]) == {"x": {"AGGREGATION"}, "y": {"AGGREGATION"}}
    assert subtypes(dependencies["label"]) == {**subtypes(dependencies["share"]), "k": {"TRANSFORMATION"}}


def test_columns_that_tell_duplicates_decide_which_rows_there_are() -> None:
    pipeline = pipeline_of(distinct_by="y", select={"n": agg.count()})
    assert subtypes(dependencies_of_all_rows(pipeline))["y"] == {"FILTER"}


@pytest.mark.parametrize(
    ("window", "time"),
    [
        (TumblingEventTimeWindows.of(HOUR), "e"),
        (EventTimeSessionWindows.with_gap(HOUR), "e"),
        (TumblingProcessingTimeWindows.of(HOUR), "a"),
    ],
    ids=["tumbling", "sessions", "processing time"],
)
def test_windows_lie_where_the_time_of_their_rows_says(window: Any, time: str) -> None:
    dependencies = dependencies_of_published(pipeline_of(window=window, select={"n": agg.count()}), COLUMNS)
    assert {name: dependencies[name] for name in dependencies if name.startswith("window_")} == dict.fromkeys(
        ("window_start", "window_end", "window_date"), (Dependency(time, "TRANSFORMATION"),)
    )


def test_the_global_window_lies_nowhere() -> None:
    pipeline = pipeline_of(window=GlobalWindows.create(), select={"n": agg.count()})
    assert dependencies_of_published(pipeline, COLUMNS).keys() == {"k", "n"}


def test_a_gap_that_is_read_from_rows_moves_the_bounds_of_sessions() -> None:
    window = EventTimeSessionWindows.with_dynamic_gap(lambda element: element.x)
    pipeline = pipeline_of(window=window, columns=["x"], select={"n": agg.count()})
    dependencies = dependencies_of_published(pipeline, COLUMNS)
    assert subtypes(dependencies["window_end"]) == {"e": {"TRANSFORMATION"}, "x": {"TRANSFORMATION"}}


def test_windows_of_all_rows_have_no_key() -> None:
    pipeline = pipeline_of(key_by=None, select={"n": agg.count()})
    assert dependencies_of_published(pipeline, COLUMNS).keys() == {
        "window_start",
        "window_end",
        "window_date",
        "n",
    }
    assert "k" not in subtypes(dependencies_of_all_rows(pipeline))


def test_a_function_may_use_every_column_that_it_is_handed() -> None:
    pipeline = pipeline_of(
        process=Sides(), output="k string, n long", side_outputs={"odd": "k string, why string"}
    )
    of_function = {name: {"TRANSFORMATION"} for name in COLUMNS}
    published = dependencies_of_published(pipeline, COLUMNS)
    assert published["k"] == (Dependency("k", "IDENTITY"),)
    assert subtypes(published["n"]) == of_function
    side = dependencies_of_side_output(pipeline, "odd", COLUMNS)
    assert side.keys() == {"k", "window_start", "window_end", "why"}
    assert side["k"] == (Dependency("k", "IDENTITY"),)
    assert side["window_end"] == EVENT_TIME
    assert subtypes(side["why"]) == of_function


def test_a_process_function_emits_at_event_times() -> None:
    pipeline = pipeline_of(window=None, process=Timers(), output="total long", columns=["x"])
    dependencies = dependencies_of_published(pipeline, COLUMNS)
    assert dependencies.keys() == {"k", "timestamp", "window_date", "total"}
    assert dependencies["timestamp"] == dependencies["window_date"] == EVENT_TIME
    assert subtypes(dependencies["total"]) == {name: {"TRANSFORMATION"} for name in "kx"}
