"""The timeline of rows that carry watermarks, from batches of a source: against recorded traces of Flink's
generator, and by hand where rows arrive in one millisecond.
"""

import gzip
import json
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slackwater.engine.planner import why_not_columnar
from slackwater.engine.rows.carried_timeline import CarriedTimeline, carried_timeline, scan_of_carriers
from slackwater.engine.rows.carried_watermarks import WatermarkFunctionFailed, WatermarkRows
from slackwater.engine.rows.judge import Judge
from slackwater.engine.rows.progress import Progress
from slackwater.engine.source.batches import SourceBatch
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.source.scan import SliceScan
from slackwater.pipelines import DeltaSource, Pipeline, agg
from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    GlobalWindows,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK
from slackwater.windowing.times import to_datetime

TRACES = Path(__file__).parents[2] / "conformance" / "traces" / "watermark_generator.jsonl.gz"
TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [("a", TIME), ("e", TIME), ("p", pa.string()), ("row", pa.int64()), ("k", pa.string()), ("x", pa.int64())]
)


def declared(function: Any, **settings: Any) -> Pipeline:
    watermarks = WatermarkStrategy.punctuated(function).with_interval(timedelta(milliseconds=10))
    return Pipeline(
        name="flights",
        source=DeltaSource("t", event_time="e", arrival_time="a", source_partition="p", order_by="row"),
        watermarks=watermarks,
        key_by="k",
        window=TumblingEventTimeWindows.of(timedelta(hours=1)),
        select={"n": agg.count()},
        start="1970-01-01",
        **settings,
    )


def batch_of(rows: list[tuple[int, int, str, int | None, int]]) -> SourceBatch:
    """Rows of (arrival, event time, source partition, order, x), times in milliseconds."""
    columns = zip(*rows, strict=True) if rows else [[]] * 5
    arrivals, events, partitions, order, xs = (list(column) for column in columns)
    moments = ([to_datetime(time) for time in times] for times in (arrivals, events))
    keys = ["k"] * len(rows)
    return SourceBatch(pa.table([*moments, partitions, order, keys, xs], schema=SCHEMA), None, True)


def timeline_of(
    pipeline: Pipeline, batches: list[SourceBatch], from_ms: int, to_ms: int, before: Progress | None = None
) -> tuple[CarriedTimeline, Progress]:
    judge = Judge(pipeline, from_ms, to_ms)
    parts = [table for _, table in WatermarkRows(judge)(iter(batches))]
    return carried_timeline(parts, pipeline, from_ms, to_ms, before or Progress.none())


def seen_by(pipeline: Pipeline, timeline: CarriedTimeline, batch: SourceBatch) -> list[int]:
    """The watermark that each usable row of the slice sees."""
    judge = Judge(pipeline, timeline.from_ms, timeline.to_ms)
    return timeline.watermarks_of(pipeline, judge.judge_batch(batch).elements).tolist()


def recorded_cases() -> list[dict[str, Any]]:
    """The cases of a punctuated generator that emits while it runs."""
    with gzip.open(TRACES, "rt", encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    return [
        case for case in cases if case["config"]["strategy"] == "punctuated" and case["config"]["progressive"]
    ]


def rows_and_watermarks(case: dict[str, Any]) -> tuple[list[tuple[int, int, str, int, int]], list[int]]:
    """(rows of the elements, the newest watermark after each), up to the end of the input."""
    clock, newest, rows, watermarks = 0, INITIAL_WATERMARK, [], []
    for step, answer in zip(case["steps"], case["expected"], strict=True):
        if "processing_time" in step:
            clock = max(clock, step["processing_time"])
        if "finish" in step or step.get("watermark") == 2**63 - 1:
            break
        emitted = [entry["watermark"] for entry in answer["out"] if "watermark" in entry]
        newest = emitted[-1] if emitted else newest
        if "element" in step:
            [element] = [entry for entry in answer["out"] if "value" in entry]
            rows.append((clock, element["timestamp"], "p", len(rows), element["value"]))
            watermarks.append(newest)
    return rows, watermarks


def test_a_slice_has_the_watermarks_that_flinks_generator_has_emitted() -> None:
    cases = recorded_cases()
    assert len(cases) == 36
    elements = 0
    for case in cases:
        rows, watermarks = rows_and_watermarks(case)
        elements += len(rows)
        every, idle_ms = case["config"]["every"], case["config"]["idle_timeout"]
        pipeline = declared(lambda row, timestamp, n=every: timestamp if row.x % n == 0 else None)
        if idle_ms is not None:
            watermarks_ = pipeline.watermarks.with_idleness(timedelta(milliseconds=idle_ms))
            pipeline = replace(pipeline, watermarks=watermarks_)
        end = rows[-1][0] + 1 if rows else 1
        batches = [batch_of(rows[::2]), batch_of(rows[1::2])]
        timeline, _ = timeline_of(pipeline, batches, 0, end)
        seen = seen_by(pipeline, timeline, batch_of(rows))
        assert [*seen[1:], timeline.final] == watermarks, case["id"]
        # Cut after every millisecond in which something arrives.
        progress, seen_in_slices = Progress.none(), []
        for from_ms, to_ms in pairwise(sorted({0, *(row[0] + 1 for row in rows)})):
            part = batch_of([row for row in rows if from_ms <= row[0] < to_ms])
            timeline, progress = timeline_of(pipeline, [part], from_ms, to_ms, progress)
            seen_in_slices += seen_by(pipeline, timeline, part)
            progress = Progress.from_table(progress.to_table("r"))
        assert (seen_in_slices, timeline.final) == (seen, watermarks[-1]), case["id"]
    assert elements > 200


def marked(row: Any, timestamp: int) -> int | None:
    return timestamp if row.x else None


def test_rows_of_one_millisecond_see_what_was_carried_before_them() -> None:
    """By hand: order 1, 2 and 4 carry 50, 70 and 60; all arrive at 20. A row of 25 sees the greatest."""
    rows = [(20, 30, "p", 3, 0), (20, 50, "p", 1, 1), (25, 10, "p", 0, 0), (20, 60, "p", 4, 1)]
    rows += [(20, 70, "p", 2, 1), (20, 5, "p", None, 0)]
    timeline, progress = timeline_of(declared(marked), [batch_of(rows)], 0, 100)
    assert timeline.watermarks.tolist() == [50, 70]
    assert timeline.tick_ends.tolist() == [20, 20]
    nothing = INITIAL_WATERMARK
    assert seen_by(declared(marked), timeline, batch_of(rows)) == [70, nothing, 70, 70, 50, nothing]
    assert progress.carried_watermarks.tolist() == [70]


def test_rows_that_are_alike_see_what_was_carried_before_all_of_them() -> None:
    """Which of them comes first has no meaning: a watermark follows the last."""
    rows = [(20, 50, "p", 1, 1)] * 3 + [(20, 40, "p", 2, 0)]
    for batches in ([batch_of(rows)], [batch_of([row]) for row in rows]):
        timeline, _ = timeline_of(declared(marked), batches, 0, 100)
        assert seen_by(declared(marked), timeline, batch_of(rows)) == [INITIAL_WATERMARK] * 3 + [50]


def test_a_partition_that_has_carried_nothing_holds_the_watermark_back_from_its_first_row_on() -> None:
    rows = [(20, 50, "p", 1, 1), (20, 60, "q", 2, 0), (20, 70, "p", 3, 1), (31, 65, "q", 4, 1)]
    timeline, progress = timeline_of(declared(marked), [batch_of(rows)], 0, 100)
    assert list(zip(timeline.tick_ends.tolist(), timeline.watermarks.tolist(), strict=True)) == [
        (20, 50),
        (31, 65),
    ]
    assert progress.names == ("p", "q")
    assert progress.per_partition.max_event_ms.tolist() == [70, 65]
    table = progress.to_table("r").to_pylist()
    assert [row["carried_watermark"] for row in table] == [None, to_datetime(70), to_datetime(65)]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (1.5, r"test_carried_timeline.*<lambda> gave 1\.5; a watermark is None, or whole milliseconds"),
        (True, "gave True"),
        (2**62, "gave 4611686018427387904"),
    ],
)
def test_what_is_no_watermark_is_refused_with_the_row(answer: Any, told: str) -> None:
    with pytest.raises(WatermarkFunctionFailed, match=told) as caught:
        timeline_of(declared(lambda row, timestamp: answer), [batch_of([(20, 30, "p", 1, 7)])], 0, 100)
    assert '"x":7' in str(caught.value).replace(" ", "")


def test_a_function_that_raises_fails_the_run_with_the_row() -> None:
    with pytest.raises(WatermarkFunctionFailed, match=r"raised AttributeError: .*'y'.*; row \{"):
        timeline_of(declared(lambda row, timestamp: row.y), [batch_of([(20, 30, "p", 1, 7)])], 0, 100)


def test_numbers_of_numpy_are_watermarks() -> None:
    pipeline = declared(lambda row, timestamp: np.int64(row.x))
    timeline, _ = timeline_of(pipeline, [batch_of([(20, 30, "p", 1, 7)])], 0, 100)
    assert timeline.final == 7


def test_the_pass_reads_the_columns_that_the_function_may_look_at() -> None:
    schema = SCHEMA.append(pa.field("other", pa.string()))
    scan = SliceScan(PinnedSource("", 0, schema, None), (), tuple(schema.names), "a", 0, 10, 0)
    assert scan_of_carriers(scan, declared(marked)).columns == tuple(schema.names)
    assert scan_of_carriers(scan, declared(marked, columns=["x"])).columns == tuple(SCHEMA.names)


def test_triggers_that_look_at_clocks_stay_with_the_operator_engine() -> None:
    assert why_not_columnar(declared(marked)) is None
    for settings in (
        {"trigger": CountTrigger.of(2)},
        {"trigger": ContinuousEventTimeTrigger.of(timedelta(minutes=1))},
        {"window": GlobalWindows.create_with_end_of_stream_trigger()},
    ):
        reason = why_not_columnar(replace(declared(marked), **settings))
        assert "is not exact under punctuated watermarks, which rise inside a tick" in str(reason)
