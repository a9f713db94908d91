"""Source progress survives the table, and the pass over a slice says the same however its rows are spread
over tasks.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.rows.judge import Judge
from slackwater.engine.rows.progress import (
    AggregateTicks,
    Progress,
    collected_by,
    moment,
    partition_names,
    rows_that_may_be_late,
    scan_of_pass,
)
from slackwater.engine.rows.tick_pass import timeline_from
from slackwater.engine.source.batches import SourceBatch
from slackwater.engine.source.files import InputFile
from slackwater.engine.source.overrides import MovedArrival, Overrides
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.source.scan import SliceScan
from slackwater.engine.transport.in_process import InProcess
from slackwater.pipelines import DeltaSource, Pipeline, agg
from slackwater.tables.schemas import SOURCE_PROGRESS, TIME
from slackwater.windowing import TumblingEventTimeWindows, WatermarkStrategy
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK, SourceProgress
from slackwater.windowing.times import to_datetime
from slackwater.windowing.times import to_ms as to_ms_of

START = 1_356_998_400_000
MINUTE = 60_000
HOUR = 60 * MINUTE


def declared(partition: str | None = "p") -> Pipeline:
    return Pipeline(
        name="flights",
        source=DeltaSource("t", event_time="e", arrival_time="a", source_partition=partition, order_by="row"),
        watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(minutes=10))
        .with_idleness(timedelta(minutes=30))
        .with_interval(timedelta(minutes=5)),
        key_by="k",
        window=TumblingEventTimeWindows.of(timedelta(hours=1)),
        select={"n": agg.count("x")},
        start="2013-01-01",
    )


def batch_of(rows: list[tuple[int, int | None, str | None]]) -> SourceBatch:
    """Rows of (minute of arrival, minute of the event, source partition), counted from the slice's start."""
    arrivals, events, names = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    table = pa.table(
        {
            "a": pa.array([to_datetime(START + minute * MINUTE) for minute in arrivals], TIME),
            "e": pa.array(
                [None if minute is None else to_datetime(START + minute * MINUTE) for minute in events], TIME
            ),
            "p": pa.array(names, pa.string()),
            "k": pa.array(["k"] * len(rows), pa.string()),
        }
    )
    return SourceBatch(table, None, True)


def run(
    batches: list[SourceBatch], low: int, high: int, before: Progress, pipeline: Pipeline | None = None
) -> tuple[Any, Progress]:
    """The timeline and progress of the slice of minutes [low, high)."""
    pipeline = pipeline or declared()
    judge = Judge(pipeline, START + low * MINUTE, START + high * MINUTE)
    parts = [table for _, table in AggregateTicks(judge)(iter(batches))]
    return timeline_from(parts, pipeline.watermarks, judge.from_ms, judge.to_ms, before)


rows_of_an_hour = st.lists(
    st.tuples(
        st.integers(0, 119), st.none() | st.integers(-90, 119), st.sampled_from(["AA", "UA", None, ""])
    ),
    max_size=12,
)


@settings(max_examples=60)
@given(rows_of_an_hour, st.lists(st.integers(0, 12), max_size=2), st.integers(1, 119))
def test_neither_tasks_nor_cuts_nor_the_table_show(rows: list[Any], tasks: list[int], cut: int) -> None:
    bounds = [0, *sorted(tasks), len(rows)]
    spread = [batch_of(rows[a:b]) for a, b in pairwise(bounds)]
    whole_timeline, total_row = run([batch_of(rows)], 0, 120, Progress.none())
    assert run(spread, 0, 120, Progress.none()) == (whole_timeline, total_row)

    first_timeline, first = run(spread, 0, cut, Progress.none())
    stored = first.to_table("r1")
    second_timeline, second = run(
        spread, cut, 120, Progress.from_table(stored.take(pa.array(range(stored.num_rows))[::-1]))
    )
    assert second == total_row
    joined = [
        *zip(first_timeline.tick_ends.tolist(), first_timeline.watermarks.tolist(), strict=True),
        *zip(second_timeline.tick_ends.tolist(), second_timeline.watermarks.tolist(), strict=True),
    ]
    assert joined == list(
        zip(whole_timeline.tick_ends.tolist(), whole_timeline.watermarks.tolist(), strict=True)
    )


def test_progress_by_hand() -> None:
    """Two partitions in an hour; UA is idle from minute 45 on, so AA alone carries the watermark: 50 - 10
    minutes - 1 ms.
    """
    rows: list[tuple[int, int | None, str | None]] = [
        (3, 1, "AA"),
        (12, 2, "UA"),
        (52, 50, "AA"),
        (53, 40, "AA"),
        (54, None, "UA"),
        (54, 1500, "UA"),
    ]
    timeline, after = run([batch_of(rows)], 0, 62, Progress.none())
    assert after.names == ("AA", "UA")
    assert after.per_partition.max_event_ms.tolist() == [START + 50 * MINUTE, START + 2 * MINUTE]
    assert after.per_partition.last_arrival_ms.tolist() == [START + 53 * MINUTE, START + 12 * MINUTE]
    assert after.per_partition.idle.tolist() == [False, True]
    assert after.per_partition.unfinished_tick_start_ms == START + HOUR
    assert after.watermark == timeline.final == START + 40 * MINUTE - 1
    assert after.clock == START + 62 * MINUTE


def test_the_table_has_the_pipeline_first_and_a_row_for_each_partition() -> None:
    _, after = run([batch_of([(3, 1, "AA"), (52, 50, "AA"), (12, 2, "UA")])], 0, 62, Progress.none())
    table = after.to_table("r1")
    assert table.schema == pa.schema(list(SOURCE_PROGRESS))
    [total_row, american, united] = table.to_pylist()
    hour = datetime(2013, 1, 1, 1, tzinfo=UTC)
    assert (total_row["source_partition"], total_row["clock"], total_row["unfinished_tick_start"]) == (
        None,
        hour + timedelta(minutes=2),
        hour,
    )
    assert total_row["watermark"] == datetime(2013, 1, 1, 0, 39, 59, 999_000, tzinfo=UTC)
    assert (american["source_partition"], american["idle"], united["source_partition"], united["idle"]) == (
        "AA",
        False,
        "UA",
        True,
    )
    assert united["max_event_time"] == datetime(2013, 1, 1, 0, 2, tzinfo=UTC)
    assert {row["run_id"] for row in (total_row, american, united)} == {"r1"}
    assert Progress.from_table(table) == after


def test_a_slice_that_ends_with_a_tick_has_no_unfinished_one() -> None:
    _, after = run([batch_of([(3, 1, "AA")])], 0, 60, Progress.none())
    assert after.per_partition.unfinished_tick_start_ms is None
    assert Progress.from_table(after.to_table("r")) == after


def test_before_the_first_run_there_is_no_progress() -> None:
    assert Progress.from_table(pa.schema(list(SOURCE_PROGRESS)).empty_table()) == Progress.none()
    timeline, after = run([], 0, 60, Progress.none())
    assert after == Progress((), SourceProgress.none(), INITIAL_WATERMARK, START + HOUR)
    assert len(timeline) == 0
    [total_row] = after.to_table("r").to_pylist()
    assert (total_row["watermark"], total_row["max_event_time"]) == (None, None)
    assert Progress.from_table(after.to_table("r")) == after


def test_a_mark_before_all_times_of_a_table_is_none() -> None:
    assert collected_by(START, 366_000 * 24 * 60 * MINUTE) == START - 366_000 * 24 * 60 * MINUTE
    antiquity = -59_000_000_000_000  # the year 100
    assert (collected_by(antiquity, 0), collected_by(antiquity, 366_000 * 24 * 60 * MINUTE)) == (
        antiquity,
        None,
    )


def test_a_partition_that_was_seen_before_is_kept_and_new_ones_find_their_place() -> None:
    _, first = run([batch_of([(1, 1, "MQ")])], 0, 5, Progress.none())
    _, second = run([batch_of([(6, 6, "ZZ"), (7, 7, "AA"), (8, 0, "MQ")])], 5, 10, first)
    assert second.names == ("AA", "MQ", "ZZ")
    assert second.per_partition.max_event_ms.tolist() == [START + minute * MINUTE for minute in (7, 1, 6)]
    assert second.per_partition.last_arrival_ms.tolist() == [START + minute * MINUTE for minute in (7, 8, 6)]


def test_rows_without_a_source_partition_are_one_and_so_is_a_source_without_such_a_column() -> None:
    _, after = run([batch_of([(1, 1, None), (2, 5, "")])], 0, 5, Progress.none())
    assert after.names == ("",)
    _, one_partition = run(
        [batch_of([(1, 1, "AA"), (2, 5, "UA")])], 0, 5, Progress.none(), declared(partition=None)
    )
    assert (one_partition.names, one_partition.per_partition.max_event_ms.tolist()) == (
        ("",),
        [START + 5 * MINUTE],
    )


@pytest.mark.parametrize(
    ("values", "kind", "names"),
    [
        ([1, None, -2], pa.int64(), ["1", "", "-2"]),
        ([True, None], pa.bool_(), ["true", ""]),
        (["x", None], pa.string(), ["x", ""]),
    ],
)
def test_source_partitions_are_named_by_their_text(
    values: list[Any], kind: pa.DataType, names: list[str]
) -> None:
    rows = pa.table({"p": pa.array(values, kind)})
    assert partition_names(rows, "p").to_pylist() == names


def pass_over(
    pipeline: Pipeline, overrides: Overrides | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(columns that the pass may read, those of which it asks for nulls alone)."""
    names = ("row", "x", "a", "e", "p", "k", "extra")
    source = PinnedSource("", 0, pa.schema([]), None)
    scan = SliceScan(source, (), names, "a", 0, 1, 0, overrides=overrides or Overrides())
    narrow = scan_of_pass(scan, Judge.of(pipeline, scan))
    return narrow.columns, narrow.null_checked


def test_the_pass_reads_times_partition_and_condition_and_asks_whether_keys_are_null() -> None:
    assert pass_over(declared()) == (("a", "e", "p", "k"), ("k",))
    assert pass_over(declared(partition=None)) == (("a", "e", "k"), ("k",))
    assert pass_over(declared(partition="k")) == (("a", "e", "k"), ())
    assert pass_over(replace(declared(), key_by=["k", "p"], where="extra > 1")) == (
        ("a", "e", "p", "k", "extra"),
        ("k",),
    )
    assert pass_over(replace(declared(), where="k = 'x'")) == (("a", "e", "p", "k"), ())
    assert pass_over(declared(), Overrides((MovedArrival("00", 0, 0),))) == (("row", "a", "e", "p", "k"), ())


@settings(max_examples=60)
@given(st.data(), st.sampled_from([None, "p"]), st.integers(0, 2))
def test_files_say_of_ticks_what_their_rows_say(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, partition: str | None, start: int
) -> None:
    """In order of arrival or not, with null keys or without; files that lie within the slice are aggregated
    in microseconds.
    """
    row = st.tuples(
        st.integers(0, 4 * MINUTE * 1000),
        st.integers(-MINUTE, MINUTE).map(lambda ms: ms * 1000 - 1),
        st.sampled_from("kkkn"),
    )
    rows = data.draw(st.lists(row, min_size=1, max_size=40))
    rows = sorted(rows) if data.draw(st.booleans()) else rows
    is_clean, folder = data.draw(st.booleans()), tmp_path_factory.mktemp("file")
    arrivals, delays, kinds = zip(*rows, strict=True)
    table = pa.table(
        {
            "a": pa.array([START * 1000 + arrival for arrival in arrivals]).cast(TIME),
            "e": pa.array(
                [START * 1000 + arrival - delay for arrival, delay in zip(arrivals, delays, strict=True)]
            ).cast(TIME),
            "p": pa.array([None if arrival % 3 else "odd" for arrival in arrivals], pa.string()),
            "k": pa.array([None if kind == "n" and not is_clean else "k" for kind in kinds], pa.string()),
        }
    )
    pq.write_table(table, folder / "part.parquet", row_group_size=data.draw(st.integers(1, 40)))
    pipeline = replace(
        declared(partition),
        watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(0)).with_interval(
            timedelta(minutes=1)
        ),
    )
    file, source = (
        InputFile("part.parquet", (), len(rows), 1, data.draw(st.booleans())),
        PinnedSource(str(folder), 0, table.schema, None),
    )
    from_ms, to_ms = START + start * MINUTE, START + 5 * MINUTE
    scan = SliceScan(source, (file,), tuple(table.column_names), "a", from_ms, to_ms, START)
    judge = Judge.of(pipeline, scan)
    narrow = scan_of_pass(scan, judge)

    maxima: dict[tuple[str, int], tuple[int, int]] = {}
    for part in InProcess().gather(narrow, AggregateTicks(judge)):
        for name, event, last in zip(*(column.to_pylist() for column in part.columns), strict=True):
            before = maxima.get((name, last // MINUTE), (event, last))
            maxima[name, last // MINUTE] = (max(event, before[0]), max(last, before[1]))

    expected: dict[tuple[str, int], tuple[int, int]] = {}
    for row in table.to_pylist():
        arrival, event = to_ms_of(row["a"]), to_ms_of(row["e"])
        if (
            row["k"] is None
            or (arrival < from_ms and not file.may_hold_unread)
            or event > arrival + pipeline.max_ahead_ms
        ):
            continue
        counted_from = max(arrival, from_ms)
        name = "" if partition is None or row["p"] is None else row["p"]
        before = expected.get((name, counted_from // MINUTE), (event, counted_from))
        expected[name, counted_from // MINUTE] = (max(event, before[0]), max(counted_from, before[1]))
    assert maxima == expected


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1), st.integers(0, 20))
def test_all_rows_that_the_watermark_of_their_batch_passes_may_be_late(
    rows: list[tuple[int, int]], bound: int
) -> None:
    """Rows of (arrival, event time), one after the other, and the watermark of those before each."""
    rows = sorted(rows, key=lambda row: row[0])
    passed = {
        place
        for place, (_, event) in enumerate(rows)
        if place and event <= max(earlier for _, earlier in rows[:place]) - bound - 1
    }
    arrivals, events = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    assert passed <= set(rows_that_may_be_late(arrivals, events, bound).tolist())


def test_rows_that_may_be_late_by_hand() -> None:
    arrivals, events = np.array([100, 110, 120, 130, 140]), np.array([90, 101, 105, 119, 134])
    assert rows_that_may_be_late(arrivals, events, 10).tolist() == []
    assert rows_that_may_be_late(arrivals, events, 5).tolist() == [2, 3]
    assert rows_that_may_be_late(arrivals, events, 4).tolist() == [0, 2, 3]


def test_a_moment_is_none_before_the_first_watermark() -> None:
    assert moment(None) is None and moment(INITIAL_WATERMARK) is None
    assert moment(START) == datetime(2013, 1, 1, tzinfo=UTC)
    assert np.iinfo(np.int64).min == INITIAL_WATERMARK
