"""The timeline of a slice whose rows carry watermarks: at which rows the watermark rises, and what every
other row sees of that.

The watermark that a row carries is in force right after the row, so of two rows that arrive in the same
millisecond one may see it and the other not:

    order of processing     (arrival, order column, hash)
    rows                    r1      r2      r3      r4
    carry                           12               9
    the watermark           ──────────┤ 12 ──────────────►

A rise is placed by its row, as all elements are ordered. Rows that are equal in everything that orders them
have one place: the watermark follows the last of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from slackwater.engine.rows.carried_watermarks import (
    PARTITION,
    WATERMARK,
    WatermarkRows,
    scan_of_carriers,
)
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT, PLACE, columns_read
from slackwater.engine.rows.element_order import in_order
from slackwater.engine.rows.judge import Judge
from slackwater.engine.rows.progress import Progress, with_collected_mark
from slackwater.engine.rows.tick_pass import timeline_of
from slackwater.engine.source.scan import SliceScan
from slackwater.engine.transport.in_process import Transport
from slackwater.pipelines import Pipeline
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.timeline.punctuated import PunctuatedProgress, punctuated_timeline
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK, SourceProgress, Timeline
from slackwater.windowing.errors import TimelineError
from slackwater.windowing.watermarks import WatermarkStrategy


@dataclass(frozen=True, eq=False)
class CarriedTimeline(Timeline):
    """A timeline in which `tick_ends[j]` is the clock at the rise j: the arrival of the row that carried the
    watermark (the slice's start for a folded row), or the end of a tick, where a partition became idle.

    Attributes:
        carriers: the rows that raised the watermark, in order, with the columns that the pipeline reads and
            `__arrival_ms`.
        carrier_rises: int64[k], the number of the rise that each of them caused.
    """

    carriers: pa.Table = None
    carrier_rises: Longs = None  # type: ignore[assignment]

    def rises_before(self, pipeline: Pipeline, rows: pa.Table) -> Longs:
        """int64[n]: how many rises each element sees; rows come in any order, with `__arrival_ms`."""
        arrivals = rows.column(ARRIVAL).to_numpy()
        carrier_arrivals = self.carriers.column(ARRIVAL).to_numpy()
        visible_from = self.tick_ends.copy()
        visible_from[self.carrier_rises] = carrier_arrivals + 1
        counts = np.searchsorted(visible_from, arrivals, side="right")
        tied_rows = np.flatnonzero(np.isin(arrivals, carrier_arrivals))
        if len(tied_rows):
            rises = self._rises_before_tied(pipeline, rows.take(pa.array(tied_rows)), arrivals[tied_rows])
            counts[tied_rows] = np.maximum(counts[tied_rows], rises)
        return counts

    def watermarks_of(self, pipeline: Pipeline, rows: pa.Table) -> Longs:
        """int64[n]: the watermark in force for each element; see `rises_before`."""
        return self._from_initial()[self.rises_before(pipeline, rows)]

    def at_arrival(self, arrivals_ms: ArrayLike) -> Longs:
        raise TimelineError("An arrival does not tell which of its watermarks a row sees; use watermarks_of.")

    def without_rises(self) -> Timeline:
        """The slice without a rise, for an operator that is given each watermark in its place."""
        none = np.zeros(0, np.int64)
        return Timeline(
            from_ms=self.from_ms,
            to_ms=self.to_ms,
            interval_ms=self.interval_ms,
            initial=self.initial,
            tick_ends=none,
            watermarks=none,
            collected_mark=self.collected_mark,
        )

    def _check_tick_ends(self) -> None:
        """Several rows of one millisecond may raise the watermark, at any millisecond."""

    def _rises_before_tied(self, pipeline: Pipeline, rows: pa.Table, arrivals: Longs) -> Longs:
        """How many rises each row sees that arrives together with a carrier."""
        is_tied = np.isin(self.carriers.column(ARRIVAL).to_numpy(), arrivals)
        names = [*columns_read(pipeline, rows.column_names), ARRIVAL]
        rows = rows.select(names)
        carriers = self.carriers.filter(pa.array(is_tied)).select(names).cast(rows.schema)
        # Rows that equal a carrier stay before it: sorting keeps the order of equal rows.
        rises_of_carriers = -1 - self.carrier_rises[is_tied]
        both = in_order(
            pipeline,
            pa.concat_tables(
                [
                    rows.append_column(PLACE, pa.array(np.arange(rows.num_rows))),
                    carriers.append_column(PLACE, pa.array(rises_of_carriers)),
                ]
            ),
        )
        places = both.column(PLACE).to_numpy()
        rises = np.maximum.accumulate(np.where(places < 0, -places, 0))
        rises_of_rows = np.zeros(rows.num_rows, np.int64)
        rises_of_rows[places[places >= 0]] = rises[places >= 0]
        return rises_of_rows


def timeline_of_slice(
    transport: Transport, scan: SliceScan, judge: Judge, before: Progress
) -> tuple[Timeline, Progress]:
    """The timeline of the slice that `scan` reads, and the progress after it; see `timeline_of`."""
    if judge.pipeline.watermarks.kind != "punctuated":
        return timeline_of(transport, scan, judge, before)
    parts = transport.gather(scan_of_carriers(scan, judge.pipeline), WatermarkRows(judge))
    timeline, after = carried_timeline(parts, judge.pipeline, scan.from_ms, scan.to_ms, before)
    return with_collected_mark(timeline, after, before, judge.pipeline.allowed_lateness_ms)


def carried_timeline(
    parts: Sequence[pa.Table], pipeline: Pipeline, from_ms: int, to_ms: int, before: Progress
) -> tuple[CarriedTimeline, Progress]:
    strategy = pipeline.watermarks
    if not parts:
        parts = [_no_rows(pipeline)]
    rows = in_order(pipeline, pa.concat_tables(parts, promote_options="default"))
    partitions_seen = set(rows.column(PARTITION).unique().to_pylist())
    names = tuple(sorted({*before.names, *partitions_seen}))
    code = {name: number for number, name in enumerate(names)}
    codes = np.array([code[name] for name in rows.column(PARTITION).to_pylist()], np.int64)
    codes_before = np.array([code[name] for name in before.names], np.int64)
    clocks = np.maximum(rows.column(ARRIVAL).to_numpy(), from_ms)
    rises, progress = punctuated_timeline(
        codes,
        clocks,
        rows.column(WATERMARK).to_numpy(),
        from_ms=from_ms,
        to_ms=to_ms,
        interval_ms=strategy.interval_ms,
        idle_timeout_ms=strategy.idle_timeout_ms,
        progress=PunctuatedProgress(
            codes_before, before.carried_watermarks, before.per_partition.last_arrival_ms
        ),
        watermark=before.watermark,
    )
    # A rise at a tick's end comes after all rows that arrived earlier, one of a row at the clock of the row.
    carriers = rises.before - 1
    is_of_row = (carriers >= 0) & (np.append(clocks, 0)[carriers] == rises.moments_ms)
    timeline = CarriedTimeline(
        from_ms=from_ms,
        to_ms=to_ms,
        interval_ms=strategy.interval_ms,
        initial=rises.initial,
        tick_ends=rises.moments_ms,
        watermarks=rises.watermarks,
        carriers=rows.drop_columns([PARTITION, WATERMARK, EVENT]).take(pa.array(carriers[is_of_row])),
        carrier_rises=np.flatnonzero(is_of_row),
    )
    events = np.full(len(names), INITIAL_WATERMARK)
    np.maximum.at(events, codes_before, before.per_partition.max_event_ms)
    np.maximum.at(events, codes, rows.column(EVENT).to_numpy())
    per_partition = _progress_after(progress, events, strategy, to_ms)
    return timeline, Progress(
        names, per_partition, timeline.final, to_ms, carried_watermarks=progress.watermarks
    )


def _progress_after(
    progress: PunctuatedProgress, events: Longs, strategy: WatermarkStrategy, to_ms: int
) -> SourceProgress:
    interval_ms, timeout_ms = strategy.interval_ms, strategy.idle_timeout_ms
    newest_end = to_ms // interval_ms * interval_ms
    idle = np.zeros(len(events), np.bool_)
    if timeout_ms is not None:
        idle = -(-(progress.last_arrival_ms + timeout_ms) // interval_ms) * interval_ms <= newest_end
    unfinished_tick_start = None if newest_end == to_ms else newest_end
    return SourceProgress(progress.partitions, events, progress.last_arrival_ms, idle, unfinished_tick_start)


def _no_rows(pipeline: Pipeline) -> pa.Table:
    """What the pass gathers of a slice without elements: no row, so that no type matters."""
    columns = [*columns_read(pipeline, ()), PARTITION, WATERMARK, ARRIVAL, EVENT]
    types = {PARTITION: pa.string(), WATERMARK: pa.int64(), ARRIVAL: pa.int64(), EVENT: pa.int64()}
    return pa.schema([pa.field(name, types.get(name, pa.null())) for name in columns]).empty_table()
