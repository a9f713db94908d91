"""The pass over a slice's rows that its watermark timeline follows from, and the timeline.

Of each source partition tasks send only the ticks that matter. Where the slice is large these do not come to
the driver: tasks that have a part of the source partitions each work out the lowest watermark of these, which
has at most one row for each tick, and the driver takes the lowest of all:

    a file, a task              tick 1: a 7, b 3    tick 2: a 9
    another file, another task  tick 1: c 5         tick 2: b 8
                                        │ by source partition
    a range, a task: a, c       tick 1: 5           tick 2: 5
    another range: b            tick 1: 3           tick 2: 8
                                        │
    the driver                  tick 1: 3           tick 2: 5
"""

import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.rows.judge import Judge
from slackwater.engine.rows.progress import (
    AggregateTicks,
    Progress,
    number_partitions,
    one_a_tick,
    scan_of_pass,
    with_collected_mark,
)
from slackwater.engine.source.scan import Batches, SliceScan
from slackwater.engine.transport.in_process import Transport
from slackwater.windowing.columnar.arrays.orders import distinct_values
from slackwater.windowing.columnar.timeline.timeline import (
    LowestWatermarks,
    SourceProgress,
    TickAggregates,
    Timeline,
    lowest_watermarks,
    timeline_of_lowest,
)
from slackwater.windowing.watermarks import WatermarkStrategy

# A larger slice is divided by source partitions into ranges: a task for each.
_LARGE_BYTES = 256 << 20
_BYTES_OF_RANGE, _MOST_RANGES = 128 << 20, 32
# A task merges its ticks when it holds so many.
_TICKS_AT_ONCE = 1 << 21

# Of the two tables of a range.
_COLUMNS_OF_WATERMARKS = ["range", "tick_end_ms", "watermark"]
_COLUMNS_OF_PARTITIONS = ["partition", "max_event_ms", "last_arrival_ms", "idle"]


def tick_maxima(transport: Transport, scan: SliceScan, judge: Judge, before: Progress) -> Sequence[pa.Table]:
    """The pass. Of a small slice: tables of partition, max_event_ms and last_arrival_ms, with one row or more
    for each (source partition, tick) that matters. Of a large one: those that `LowestOfRange` yields.
    """
    narrow_scan = scan_of_pass(scan, judge)
    if scan.size <= _LARGE_BYTES:
        return transport.gather(narrow_scan, TicksThatMatter(judge))
    ranges = min(_MOST_RANGES, max(transport.slots, round(scan.size / _BYTES_OF_RANGE)))
    lowest_of_range = LowestOfRange(judge.pipeline.watermarks, scan.from_ms, scan.to_ms, before, ranges)
    return transport.shuffle(narrow_scan, TicksThatMatter(judge, ranges), ranges, lowest_of_range)


@dataclass(frozen=True)
class TicksThatMatter:
    """Map task of the pass: the ticks of all its batches, merged, by range of source partitions."""

    judge: Judge
    ranges: int = 1

    def __call__(self, batches: Batches) -> Iterable[tuple[int, pa.Table]]:
        strategy = self.judge.pipeline.watermarks
        tables = (table for _, table in AggregateTicks(self.judge)(batches))
        for ticks in _merge_ticks(tables, strategy):
            yield from _by_range(ticks, self.ranges)


@dataclass(frozen=True)
class LowestOfRange:
    """Range task of the pass. Yields two tables: the lowest watermarks of the range's source partitions
    (range, tick_end_ms, watermark), and their progress (partition, max_event_ms, last_arrival_ms, idle).
    `before` is the progress of the run before.
    """

    strategy: WatermarkStrategy
    from_ms: int
    to_ms: int
    before: Progress
    ranges: int

    def __call__(self, number: int, tables: Iterable[pa.Table]) -> Iterable[pa.Table]:
        parts = list(_merge_ticks(tables, self.strategy, most=None))
        before = progress_in_range(self.before, number, self.ranges)
        lowest, names, after = _lowest(parts, self.strategy, self.from_ms, self.to_ms, before)
        numbers = pa.repeat(pa.scalar(number, pa.int32()), len(lowest.tick_ends))
        yield pa.table([numbers, *lowest], _COLUMNS_OF_WATERMARKS)
        columns = [pa.array(names, pa.string()), after.max_event_ms, after.last_arrival_ms, after.idle]
        yield pa.table(columns, _COLUMNS_OF_PARTITIONS)


def timeline_of(
    transport: Transport, scan: SliceScan, judge: Judge, before: Progress
) -> tuple[Timeline, Progress]:
    """The timeline of the scanned slice, and the progress after it; `before` may have a collected mark."""
    parts = tick_maxima(transport, scan, judge, before)
    timeline, after = timeline_from(parts, judge.pipeline.watermarks, scan.from_ms, scan.to_ms, before)
    return with_collected_mark(timeline, after, before, judge.pipeline.allowed_lateness_ms)


def timeline_from(
    parts: Sequence[pa.Table], strategy: WatermarkStrategy, from_ms: int, to_ms: int, before: Progress
) -> tuple[Timeline, Progress]:
    """As `timeline_of`, from tables that were gathered already."""
    if _are_of_ranges(parts):
        lowest_of_ranges = list(_lowest_of_ranges(parts))
        names, after = _progress_of_ranges(parts, strategy, to_ms)
    else:
        lowest, names, after = _lowest(parts, strategy, from_ms, to_ms, before)
        lowest_of_ranges = [lowest]
    timeline = timeline_of_lowest(
        lowest_of_ranges, strategy=strategy, from_ms=from_ms, to_ms=to_ms, watermark=before.watermark
    )
    return timeline, Progress(names, after, timeline.final, to_ms)


def range_of(name: str, ranges: int) -> int:
    """The range of a source partition; it is the same in all processes."""
    return zlib.crc32(name.encode()) % ranges


def progress_in_range(progress: Progress, number: int, ranges: int) -> Progress:
    """The progress of the source partitions of one range."""
    places = [place for place, name in enumerate(progress.names) if range_of(name, ranges) == number]
    old = progress.per_partition
    return Progress(
        tuple(progress.names[place] for place in places),
        SourceProgress(
            np.arange(len(places), dtype=np.int64),
            old.max_event_ms[places],
            old.last_arrival_ms[places],
            old.idle[places],
            old.unfinished_tick_start_ms,
        ),
        progress.watermark,
        progress.clock,
    )


def _merge_ticks(
    tables: Iterable[pa.Table], strategy: WatermarkStrategy, most: int | None = _TICKS_AT_ONCE
) -> Iterator[pa.Table]:
    """Tables of ticks as few, each with a row for a tick: one, unless it would have more than `most` rows.
    More than twice as many as there are in the end are never held.
    """
    parts, rows, limit = list[pa.Table](), 0, _TICKS_AT_ONCE
    for table in tables:
        parts.append(table)
        rows += table.num_rows
        if rows >= limit:
            parts = [one_a_tick(parts, strategy)]
            rows = parts[0].num_rows
            if most is not None and rows > most // 2:
                yield parts.pop()
                rows = 0
            limit = max(_TICKS_AT_ONCE, 2 * rows)
    if parts:
        yield one_a_tick(parts, strategy)


def _by_range(ticks: pa.Table, ranges: int) -> Iterator[tuple[int, pa.Table]]:
    if ranges == 1:
        yield 0, ticks
        return
    names = ticks.column("partition").combine_chunks()
    range_of_code = np.array([range_of(name, ranges) for name in names.dictionary.to_pylist()], np.int64)
    numbers = range_of_code[names.indices.to_numpy()]
    for number in distinct_values(numbers).tolist():
        yield number, ticks.filter(pa.array(numbers == number))


def _lowest(
    parts: Sequence[pa.Table], strategy: WatermarkStrategy, from_ms: int, to_ms: int, before: Progress
) -> tuple[LowestWatermarks, tuple[str, ...], SourceProgress]:
    """(the lowest watermarks of all source partitions of `parts` and `before`; these, sorted; their progress
    after the slice, coded by position)."""
    ticks, names = number_partitions(parts, before.names)
    code = {name: number for number, name in enumerate(names)}
    old = before.per_partition
    progress = SourceProgress(
        np.array([code[name] for name in before.names], np.int64),
        old.max_event_ms,
        old.last_arrival_ms,
        old.idle,
        old.unfinished_tick_start_ms,
    )
    lowest, after = lowest_watermarks(
        ticks, strategy=strategy, from_ms=from_ms, to_ms=to_ms, progress=progress
    )
    return lowest, names, after


def _are_of_ranges(parts: Sequence[pa.Table]) -> bool:
    """Whether tables are what `LowestOfRange` yields."""
    return any("range" in part.column_names for part in parts)


def _lowest_of_ranges(parts: Sequence[pa.Table]) -> Iterator[LowestWatermarks]:
    """The watermarks of each range. A long table may have come in several parts, in their order."""
    parts_of_ranges: dict[int, list[pa.Table]] = defaultdict(list)
    for part in parts:
        if "range" in part.column_names:
            rows = part.select(_COLUMNS_OF_WATERMARKS)
            rows = rows.drop_null() if rows.column("range").null_count else rows
            numbers = rows.column("range").unique().to_pylist()
            for number in numbers:
                is_of_range = pc.equal(rows.column("range"), number) if len(numbers) > 1 else None
                parts_of_ranges[number].append(rows if is_of_range is None else rows.filter(is_of_range))
    for tables in parts_of_ranges.values():
        rows = pa.concat_tables(tables)
        yield LowestWatermarks(*(rows.column(name).to_numpy() for name in _COLUMNS_OF_WATERMARKS[1:]))


def _progress_of_ranges(
    parts: Sequence[pa.Table], strategy: WatermarkStrategy, to_ms: int
) -> tuple[tuple[str, ...], SourceProgress]:
    rows = pa.concat_tables(
        part.select(_COLUMNS_OF_PARTITIONS).drop_null() for part in parts if "partition" in part.column_names
    )
    names = rows.column("partition").to_pylist()
    order = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
    events, arrivals, idle = (
        rows.column(name).to_numpy(zero_copy_only=False)[order]
        for name in ("max_event_ms", "last_arrival_ms", "idle")
    )
    _, without_rows = lowest_watermarks(TickAggregates.none(), strategy=strategy, from_ms=to_ms, to_ms=to_ms)
    progress = SourceProgress(
        np.arange(len(names), dtype=np.int64),
        events,
        arrivals,
        idle.astype(np.bool_),
        without_rows.unfinished_tick_start_ms,
    )
    return tuple(names[place] for place in order.tolist()), progress
