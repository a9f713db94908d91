"""The source progress that one run hands to the next, and what the pass over a slice's rows gathers of each
source partition and tick.

The pass judges rows exactly as the replay does, so an unusable row moves no watermark.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.rows.columns_read import ARRIVAL, EVENT, columns_judged
from slackwater.engine.rows.judge import Judge, JudgedBatch
from slackwater.engine.source.batches import SourceBatch
from slackwater.engine.source.overrides import identifying_columns
from slackwater.engine.source.scan import Batches, SliceScan
from slackwater.tables import schemas
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.timeline.source_progress import combine_ticks, steps_that_matter
from slackwater.windowing.columnar.timeline.timeline import (
    INITIAL_WATERMARK,
    SourceProgress,
    TickAggregates,
    Timeline,
)
from slackwater.windowing.times import to_datetime, to_ms
from slackwater.windowing.watermarks import WatermarkStrategy

# Of the tables of the pass.
TICK_COLUMNS = ["partition", "max_event_ms", "last_arrival_ms"]
# Rows without a source partition, and sources without such a column, are one partition of this name.
ONE_PARTITION = ""
_EARLIEST: Final = to_ms(datetime.min.replace(tzinfo=UTC))


def moment(ms: int | None) -> datetime | None:
    """A time of the timeline as a table has it: None for the initial watermark, which is before all times."""
    return None if ms is None or ms == INITIAL_WATERMARK else to_datetime(ms)


def collected_by(watermark: int, lateness_ms: int) -> int | None:
    """The greatest last instant of the windows that a watermark collects under an allowed lateness, in
    milliseconds; None where that lies before all times that a table has.
    """
    mark = watermark - lateness_ms
    return mark if mark >= _EARLIEST else None


@dataclass(frozen=True)
class Progress:
    """The progress of a pipeline's source at the end of a slice.

    Attributes:
        names: the source partitions, sorted; `per_partition` codes greatest event time, last arrival and
            idleness by position.
        watermark: the pipeline's watermark, in milliseconds.
        clock: the virtual clock: the slice's end, None before the first run.
        collected_mark: the lineage's collected mark (`Timeline.collected_mark`), in milliseconds, where it
            lies above the watermark less the allowed lateness because an earlier run allowed less; else None.
        carried_watermarks: int64[n], the greatest watermark that each source partition has carried, where
            rows carry watermarks; INITIAL_WATERMARK for none. Empty for other strategies.
    """

    names: tuple[str, ...]
    per_partition: SourceProgress
    watermark: int
    clock: int | None
    collected_mark: int | None = None
    carried_watermarks: Longs = field(default_factory=lambda: np.zeros(0, np.int64), compare=False)

    @classmethod
    def none(cls) -> "Progress":
        """The progress before the first run."""
        return cls((), SourceProgress.none(), INITIAL_WATERMARK, None)

    @classmethod
    def from_table(cls, rows: pa.Table) -> "Progress":
        """The inverse of `to_table`; rows may come in any order."""
        values = sorted(
            rows.to_pylist(),
            key=lambda row: (row["source_partition"] is not None, row["source_partition"] or ""),
        )
        if not values:
            return cls.none()
        totals_row, parts = values[0], values[1:]
        partitions = SourceProgress(
            np.arange(len(parts), dtype=np.int64),
            np.array([to_ms(row["max_event_time"]) for row in parts], np.int64),
            np.array([to_ms(row["last_arrival"]) for row in parts], np.int64),
            np.array([row["idle"] for row in parts], np.bool_),
            None
            if totals_row["unfinished_tick_start"] is None
            else to_ms(totals_row["unfinished_tick_start"]),
        )
        watermark = INITIAL_WATERMARK if totals_row["watermark"] is None else to_ms(totals_row["watermark"])
        mark = totals_row["collected"]
        collected_ms = None if mark is None else to_ms(mark)
        times = [row["carried_watermark"] for row in parts]
        return cls(
            tuple(row["source_partition"] for row in parts),
            partitions,
            watermark,
            to_ms(totals_row["clock"]),
            collected_ms,
            np.array([INITIAL_WATERMARK if time is None else to_ms(time) for time in times], np.int64),
        )

    def mark(self, lateness_ms: int) -> int | None:
        """The collected mark after a run with this allowed lateness, in ms; None: nothing collected yet."""
        if self.collected_mark is not None or self.watermark == INITIAL_WATERMARK:
            return self.collected_mark
        return collected_by(self.watermark, lateness_ms)

    def to_table(self, run_id: str) -> pa.Table:
        """Rows of `source_progress`: the pipeline's, with a null partition, then each source partition's."""
        progress = self.per_partition
        unfinished_tick_start = moment(progress.unfinished_tick_start_ms)
        totals_row = {
            "watermark": moment(self.watermark),
            "clock": moment(self.clock),
            "unfinished_tick_start": unfinished_tick_start,
        }
        totals_row["collected"] = moment(self.collected_mark)
        rows: list[dict[str, Any]] = [totals_row]
        watermarks = self.carried_watermarks.tolist() or [INITIAL_WATERMARK] * len(self.names)
        for name, event, arrival, idle, carried_watermark in zip(
            self.names,
            progress.max_event_ms.tolist(),
            progress.last_arrival_ms.tolist(),
            progress.idle.tolist(),
            watermarks,
            strict=True,
        ):
            rows.append(
                {
                    "source_partition": name,
                    "max_event_time": to_datetime(event),
                    "last_arrival": to_datetime(arrival),
                    "idle": idle,
                    "unfinished_tick_start": unfinished_tick_start,
                    "carried_watermark": moment(carried_watermark),
                }
            )
        columns = [name for name, _ in schemas.SOURCE_PROGRESS]
        return pa.Table.from_pylist(
            [{**dict.fromkeys(columns), **row, "run_id": run_id} for row in rows],
            schema=pa.schema(list(schemas.SOURCE_PROGRESS)),
        )


@dataclass(frozen=True)
class AggregateTicks:
    """Map task of the pass: greatest event time and last arrival of each (source partition, tick). What was
    read of rows that are unusable or may be late is kept for the replay.
    """

    judge: Judge

    def __call__(self, batches: Batches) -> Iterable[tuple[int, pa.Table]]:
        # No variable holds a batch while the next one is read: of texts both would take much memory.
        return ((0, ticks) for ticks in map(self._ticks, batches) if ticks is not None)

    def _ticks(self, batch: SourceBatch) -> pa.Table | None:
        pipeline = self.judge.pipeline
        judged_batch = (
            None if self.judge.takes_all(batch) else self.judge.judge_batch(batch, quarantine=False)
        )
        elements, arrivals, events, per_ms = self._elements(batch, judged_batch)
        if not elements.num_rows:
            return None
        codes, names = _code_partitions(elements, pipeline.roles.source_partition)
        if batch.may_hold_unread:
            # A folded row counts as if it had arrived at the slice's start.
            arrivals = np.maximum(arrivals, self.judge.from_ms * per_ms)
        if batch.keep_rows is not None:
            bound_ms = pipeline.watermarks.out_of_orderness_ms + pipeline.allowed_lateness_ms
            places = rows_that_may_be_late(arrivals, events, bound_ms * per_ms)
            if judged_batch is not None and judged_batch.positions is not None:
                places = np.union1d(judged_batch.positions[places], judged_batch.unusable_positions)
            batch.keep_rows(places)
        interval_ms = max(pipeline.watermarks.interval_ms, 1)
        ticks = TickAggregates.from_elements(codes, arrivals, events, interval_ms=interval_ms, per_ms=per_ms)
        return pa.table(
            {
                "partition": names.take(pa.array(ticks.partitions)),
                "max_event_ms": ticks.max_event_ms,
                "last_arrival_ms": ticks.last_arrival_ms,
            }
        )

    def _elements(
        self, batch: SourceBatch, judged_batch: JudgedBatch | None
    ) -> tuple[pa.Table, Longs, Longs, int]:
        """(usable rows, their arrivals, their event times, how many units of these make a millisecond). All
        rows of a batch that was not judged row by row are usable.
        """
        if judged_batch is not None:
            elements = judged_batch.elements
            return elements, elements.column(ARRIVAL).to_numpy(), elements.column(EVENT).to_numpy(), 1
        source = self.judge.pipeline.roles
        arrivals, events = (
            _microseconds(batch.rows.column(name)) for name in (source.arrival_time, source.event_time)
        )
        return batch.rows, arrivals, events, 1000


def rows_that_may_be_late(arrivals: Longs, events: Longs, bound: int) -> Longs:
    """The places of a batch's elements whose event time lies `bound` or more below a rising line: arrival
    plus the most that an event time of the batch is ahead of its arrival. Before an element arrives no event
    time of its batch lies above that line, so a watermark of the batch alone passes no other element.
    """
    ahead = events - arrivals
    return np.flatnonzero(ahead <= ahead.max() - bound)


def _microseconds(times: pa.ChunkedArray) -> Longs:
    microseconds: Longs = (
        times.cast(pa.timestamp("us", tz=times.type.tz), safe=False).cast(pa.int64()).to_numpy()
    )
    return microseconds


def _code_partitions(rows: pa.Table, column: str | None) -> tuple[Longs | int, pa.Array]:
    """(the number of each row's source partition, or the one number of all rows; the names by number)."""
    if column is None:
        return 0, pa.array([ONE_PARTITION])
    names = partition_names(rows, column).dictionary_encode().combine_chunks()
    return names.indices.to_numpy(), names.dictionary


def partition_names(rows: pa.Table, column: str | None) -> pa.ChunkedArray:
    """The source partition of each row as text."""
    if column is None:
        return pa.chunked_array([pa.repeat(pa.scalar(ONE_PARTITION), rows.num_rows)])
    return pc.fill_null(rows.column(column).cast(pa.string()), ONE_PARTITION)


def scan_of_pass(scan: SliceScan, judge: Judge) -> SliceScan:
    """The scan of the pass: the same rows, only the columns that it reads; of key columns, the null mask."""
    source = judge.pipeline.roles
    identity_columns = identifying_columns(judge.pipeline) if judge.overrides.moved_arrivals else ()
    read = {
        source.event_time,
        source.arrival_time,
        source.source_partition,
        *columns_judged(judge.pipeline, scan.columns),
        *identity_columns,
    } - {None}
    columns = tuple(name for name in scan.columns if name in read or name in judge.pipeline.keys)
    return replace(scan, columns=columns, null_checked=tuple(name for name in columns if name not in read))


def with_collected_mark(
    timeline: Timeline, after: Progress, before: Progress, lateness_ms: int
) -> tuple[Timeline, Progress]:
    """A slice's timeline and the progress after it, with the collected mark of the progress before it."""
    mark = before.collected_mark
    if mark is None:
        return timeline, after
    lies_above = mark > after.watermark - lateness_ms
    return replace(timeline, collected_mark=mark), replace(after, collected_mark=mark if lies_above else None)


def one_a_tick(parts: Sequence[pa.Table], strategy: WatermarkStrategy) -> pa.Table:
    """The tables `parts` of the pass as one row for each (source partition, tick), sorted by both, without
    those that change nothing (`steps_that_matter`); the timeline from it is the same.
    """
    ticks, names = number_partitions(parts)
    interval_ms = max(strategy.interval_ms, 1)
    tick_ends = (ticks.last_arrival_ms // interval_ms + 1) * interval_ms
    steps = combine_ticks(ticks.partitions, tick_ends, ticks.max_event_ms, ticks.last_arrival_ms)
    steps = steps_that_matter(steps, interval_ms, strategy.idle_timeout_ms)
    partitions = pa.DictionaryArray.from_arrays(pa.array(steps.partitions), pa.array(names, pa.string()))
    return pa.table([partitions, steps.max_event_ms, steps.last_arrival_ms], TICK_COLUMNS)


def number_partitions(
    parts: Sequence[pa.Table], partitions_known: Sequence[str] = ()
) -> tuple[TickAggregates, tuple[str, ...]]:
    """(all rows of `parts`, their source partitions numbered; the sorted names, with `partitions_known`)."""
    columns = [_as_dictionary(part.column("partition")) for part in parts]
    partitions_seen = {
        name for column in columns for name in column.dictionary.take(column.indices.unique()).to_pylist()
    }
    names = tuple(sorted({*partitions_known, *partitions_seen}))
    code = {name: number for number, name in enumerate(names)}
    ticks = TickAggregates.concatenate(
        TickAggregates(
            # A dictionary may hold names that no row has.
            np.array([code.get(name, -1) for name in column.dictionary.to_pylist()], np.int64)[
                column.indices.to_numpy()
            ],
            part.column("max_event_ms").to_numpy(),
            part.column("last_arrival_ms").to_numpy(),
        )
        for part, column in zip(parts, columns, strict=True)
    )
    return ticks, names


def _as_dictionary(names: pa.ChunkedArray) -> pa.DictionaryArray:
    """Names as a dictionary in which each occurs once; rows of ticks are many, and names few."""
    if not pa.types.is_dictionary(names.type):
        names = names.dictionary_encode()
    return names.unify_dictionaries().combine_chunks()
