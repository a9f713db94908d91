"""The watermark timeline of a slice: the tick ends at which the watermark rises, and the watermark after
each.

It is computed for the whole slice at once, from one row per (source partition, tick) with elements. A row
makes its partition *active* from its tick's end to the partition's next row, or until it is idle; the
watermark at a tick end is the minimum over the active partitions:

    tick ends       10      20      30      40      50
    partition a     ├── 7 ──────────┼─ 25 ──────────►
    partition b             ├── 12 ─────────┤ idle
    minimum         7       7       12      25      25
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from slackwater.windowing.columnar.arrays.columns import Booleans, ColumnRecord, Longs, freeze_columns, longs
from slackwater.windowing.columnar.arrays.orders import distinct_values
from slackwater.windowing.columnar.timeline.source_progress import (
    SourceProgress,
    TickAggregates,
    TickSteps,
    check_interval,
    combine_ticks,
    running_maximum,
)
from slackwater.windowing.errors import TimelineError, TimeRangeError
from slackwater.windowing.watermarks import WatermarkStrategy

__all__ = [
    "INITIAL_WATERMARK",
    "NEVER",
    "LowestWatermarks",
    "SourceProgress",
    "TickAggregates",
    "Timeline",
    "lowest_watermarks",
    "timeline_of_lowest",
]

INITIAL_WATERMARK = int(np.iinfo(np.int64).min)
NEVER = int(np.iinfo(np.int64).max)

# Arrivals and slice bounds stay this near to zero (146 million years), so that no sum of an arrival and a
# duration can wrap.
_ARRIVAL_LIMIT = 1 << 62


@dataclass(frozen=True, eq=False)
class Timeline(ColumnRecord):
    """The watermark during the slice [from_ms, to_ms): only the tick ends at which it rises. Small enough to
    broadcast.

    Attributes:
        from_ms, to_ms: the slice's bounds; tick ends e of this run satisfy from_ms < e <= to_ms.
        interval_ms: length of a tick; tick ends are its multiples.
        initial: the watermark at the slice's start; INITIAL_WATERMARK for none yet.
        tick_ends, watermarks: int64[n], strictly ascending; watermarks[j] > initial is emitted at
            tick_ends[j].
        collected_mark: windows whose last instant is at or before it were collected by an earlier run,
            perhaps with less allowed lateness, and are not created again. INITIAL_WATERMARK for none.
    """

    from_ms: int
    to_ms: int
    interval_ms: int
    initial: int
    tick_ends: Longs
    watermarks: Longs
    collected_mark: int = INITIAL_WATERMARK

    def __post_init__(self) -> None:
        freeze_columns(self, "tick_ends", "watermarks")
        rising = self._from_initial()
        if not bool(np.all(rising[1:] > rising[:-1])):
            raise TimelineError("A timeline's watermarks must rise strictly.")
        self._check_tick_ends()

    def __len__(self) -> int:
        return len(self.tick_ends)

    @property
    def final(self) -> int:
        """The watermark at the slice's end; the next run starts from it."""
        return int(self._from_initial()[-1])

    def at_arrival(self, arrivals_ms: ArrayLike) -> Longs:
        """int64[m]: the watermark in force at each arrival, from the newest tick end at or before it. Raises
        TimelineError for an arrival outside of [from_ms, to_ms].
        """
        arrivals = longs(arrivals_ms)
        if not len(arrivals):
            return arrivals
        first, last = (bound // self.interval_ms for bound in self._covered_bounds(arrivals))
        if last - first > len(arrivals):
            return self._from_initial()[self._rises_until(arrivals)]
        # One search for each tick instead of one for each arrival, which takes many times as long: the
        # watermark is the same in all of a tick.
        ticks = arrivals // self.interval_ms
        ticks -= first
        return self._from_initial()[self._rises_until(np.arange(first, last + 1) * self.interval_ms)][ticks]

    def at_clock_timer(self, moments_ms: ArrayLike) -> Longs:
        """int64[m]: the watermark when a clock timer due at that moment is called, before its watermark."""
        return self._from_initial()[np.searchsorted(self.tick_ends, longs(moments_ms), side="left")]

    def as_clock(self) -> Timeline:
        """The slice for windows of processing time: clock c is watermark c - 1, as a timer for t is due at t
        + 1. Elements carry theirs, so the only rise is at the slice's end.
        """
        ends = longs([self.to_ms] if self.to_ms > self.from_ms else [])
        return Timeline(
            from_ms=self.from_ms,
            to_ms=self.to_ms,
            interval_ms=1,
            initial=self.from_ms - 1,
            tick_ends=ends,
            watermarks=ends - 1,
        )

    def first_tick_end_reaching(self, times_ms: ArrayLike, *, after_ms: ArrayLike | None = None) -> Longs:
        """int64[m]: when an event-time timer for that time fires: the first tick end of this slice that emits
        a watermark >= time, or NEVER.

        A time at or below `initial` is reached by the slice's first new watermark, as in Flink, where a timer
        registered behind the watermark waits for the next one. With `after_ms` only tick ends > after_ms
        count: the arrival of the element that registered the timer.
        """
        rises = np.searchsorted(self.watermarks, longs(times_ms), side="left")
        if after_ms is not None:
            progress_after = longs(after_ms)
            self._check_covered(progress_after)
            rises = np.maximum(rises, self._rises_until(progress_after))
        return np.concatenate([self.tick_ends, longs(NEVER)])[rises]

    def _check_tick_ends(self) -> None:
        ends = self.tick_ends
        if not bool(np.all(ends[1:] > ends[:-1])):
            raise TimelineError("A timeline's tick ends must rise strictly.")
        if bool(np.any(ends % self.interval_ms)):
            raise TimelineError(
                f"A timeline's tick ends must be multiples of its interval of {self.interval_ms} ms."
            )
        if len(ends) and not self.from_ms < ends[0] <= ends[-1] <= self.to_ms:
            raise TimelineError(
                f"A timeline of the slice [{self.from_ms}, {self.to_ms}) can't hold tick ends {ends[0]} to "
                f"{ends[-1]}."
            )

    def _from_initial(self) -> Longs:
        return np.concatenate([longs(self.initial), self.watermarks])

    def _rises_until(self, moments: Longs) -> Longs:
        return np.searchsorted(self.tick_ends, moments, side="right")

    def _check_covered(self, moments: Longs) -> None:
        if len(moments):
            self._covered_bounds(moments)

    def _covered_bounds(self, moments: Longs) -> tuple[int, int]:
        """(least, greatest) of these moments, which must lie in [from_ms, to_ms]."""
        least, greatest = int(moments.min()), int(moments.max())
        if self.from_ms <= least and greatest <= self.to_ms:
            return least, greatest
        stranger = least if least < self.from_ms else greatest
        raise TimelineError(
            f"The timeline of the slice [{self.from_ms}, {self.to_ms}) knows nothing of {stranger}; ask "
            "that of the run that covers it."
        )


class LowestWatermarks(NamedTuple):
    """The lowest watermark of the active source partitions among some, where it changes: from tick_ends[j],
    ascending, up to the next one watermarks[j]; NEVER where none is active, as before the first tick end.
    """

    tick_ends: Longs
    watermarks: Longs

    def at(self, tick_ends: Longs) -> Longs:
        places = np.searchsorted(self.tick_ends, tick_ends, side="right")
        return np.concatenate([longs(NEVER), self.watermarks])[places]


def lowest_watermarks(
    ticks: TickAggregates,
    *,
    strategy: WatermarkStrategy,
    from_ms: int,
    to_ms: int,
    progress: SourceProgress | None = None,
) -> tuple[LowestWatermarks, SourceProgress]:
    """What some source partitions contribute to the watermark over the slice [from_ms, to_ms), and their
    progress that the next run restores.

    At each tick end e with from_ms < e <= to_ms, with M and L a source partition's greatest event time and
    last arrival so far: active = it has had an element and (no idle timeout or e - L < idle timeout); W =
    max(previous, min over active partitions of M - out_of_orderness - 1); none active: unchanged.
    no_watermarks: unchanged. A run over [a, b) and then one over [b, c) that restores it give what one run
    over [a, c) gives, for any b. O(n log n) in the rows of `ticks` and `progress`, whatever the number of
    ticks; the result has at most one row per tick, however many partitions a task has.

    Args:
        ticks: the slice's usable elements, aggregated.
        strategy: bounded_out_of_orderness, monotonous or no_watermarks, with an interval above 0.
        progress: left by the run before; None at the start of a lineage.

    Raises:
        TimelineError: an arrival outside of the slice, progress from a later time, a strategy that has no
            such timeline.
        TimeRangeError: an event time so small that M - out_of_orderness - 1 would wrap, or an arrival beyond
            ±2^62 ms.

    Called in tasks, with `timeline_of_lowest` on the driver in place of Flink's
    TimestampsAndWatermarksOperator and WatermarkOutputMultiplexer; slackwater/windowing/watermarks/README.md
    states each difference.
    """
    restored_progress = SourceProgress.none() if progress is None else progress
    _check(ticks, strategy, from_ms, to_ms, restored_progress)
    steps = _steps(ticks, restored_progress, from_ms, strategy.interval_ms)
    progress_after = _progress_after(steps, restored_progress, strategy, from_ms, to_ms)
    if strategy.kind == "no_watermarks":
        return LowestWatermarks(longs(()), longs(())), progress_after
    tick_ends, lowest = _lowest_over_active(_activities(steps, strategy, to_ms))
    is_change = np.ones(len(lowest), np.bool_)
    is_change[1:] = lowest[1:] != lowest[:-1]
    return LowestWatermarks(tick_ends[is_change], lowest[is_change]), progress_after


def timeline_of_lowest(
    parts: Sequence[LowestWatermarks],
    *,
    strategy: WatermarkStrategy,
    from_ms: int,
    to_ms: int,
    watermark: int = INITIAL_WATERMARK,
) -> Timeline:
    """The slice's timeline from disjoint sets of source partitions and the watermark of the run before."""
    tick_ends = distinct_values(np.concatenate([longs(()), *(part.tick_ends for part in parts)]))
    lowest = np.full(len(tick_ends), NEVER)
    for part in parts:
        np.minimum(lowest, part.at(tick_ends), out=lowest)
    running_watermarks = np.maximum.accumulate(
        np.concatenate([longs(watermark), np.where(lowest == NEVER, INITIAL_WATERMARK, lowest)])
    )
    rises = running_watermarks[1:] > running_watermarks[:-1]
    return Timeline(
        from_ms=from_ms,
        to_ms=to_ms,
        interval_ms=strategy.interval_ms,
        initial=watermark,
        tick_ends=tick_ends[rises],
        watermarks=running_watermarks[1:][rises],
    )


class _Activities(NamedTuple):
    """At tick ends e, starts <= e < ends, a partition is active and holds the watermark at `watermarks`."""

    starts: Longs
    ends: Longs
    watermarks: Longs


def _check(
    ticks: TickAggregates,
    strategy: WatermarkStrategy,
    from_ms: int,
    to_ms: int,
    restored_progress: SourceProgress,
) -> None:
    if strategy.kind == "punctuated":
        raise TimelineError("Punctuated watermarks change inside a tick: they have no timeline of tick ends.")
    check_interval(strategy.interval_ms)
    if from_ms > to_ms:
        raise TimelineError(f"The slice [{from_ms}, {to_ms}) ends before it starts.")
    arrivals = np.concatenate(
        [ticks.last_arrival_ms, restored_progress.last_arrival_ms, longs([from_ms, to_ms])]
    )
    first, last = int(arrivals.min()), int(arrivals.max())
    if first < -_ARRIVAL_LIMIT or last > _ARRIVAL_LIMIT:
        raise TimeRangeError(f"Arrivals and slice bounds must lie within ±2^62 ms; found {first} to {last}.")
    if len(ticks) and not from_ms <= ticks.last_arrival_ms.min() <= ticks.last_arrival_ms.max() < to_ms:
        arrivals_given = f"{ticks.last_arrival_ms.min()} to {ticks.last_arrival_ms.max()}"
        raise TimelineError(
            f"Elements that arrived in {arrivals_given} are not all of the slice [{from_ms}, {to_ms})."
        )
    if len(restored_progress) and restored_progress.last_arrival_ms.max() >= from_ms:
        newest = restored_progress.last_arrival_ms.max()
        raise TimelineError(
            f"The restored progress knows an arrival at {newest}, but the slice starts at {from_ms}."
        )
    earliest = int(np.concatenate([ticks.max_event_ms, restored_progress.max_event_ms]).min(initial=NEVER))
    if earliest - strategy.out_of_orderness_ms - 1 < INITIAL_WATERMARK:
        raise TimeRangeError(
            f"Event time {earliest} minus {strategy.out_of_orderness_ms} ms of out-of-orderness has no "
            "64-bit value."
        )


def _steps(
    ticks: TickAggregates, restored_progress: SourceProgress, from_ms: int, interval_ms: int
) -> TickSteps:
    """One step per (source partition, tick) of the slice, with the lineage's greatest event time so far."""
    # Restored progress is a step of the tick that holds from_ms, so it counts from the slice's first tick end
    # on.
    tick_numbers = np.concatenate(
        [np.full(len(restored_progress), from_ms // interval_ms), ticks.last_arrival_ms // interval_ms]
    )
    steps = combine_ticks(
        np.concatenate([restored_progress.partitions, ticks.partitions]),
        (tick_numbers + 1) * interval_ms,
        np.concatenate([restored_progress.max_event_ms, ticks.max_event_ms]),
        np.concatenate([restored_progress.last_arrival_ms, ticks.last_arrival_ms]),
    )
    return steps._replace(max_event_ms=running_maximum(steps.partitions, steps.max_event_ms))


def _activities(steps: TickSteps, strategy: WatermarkStrategy, to_ms: int) -> _Activities:
    """The activity that each step begins: it ends at the partition's next step, when the partition becomes
    idle, or beyond the slice's last tick end.
    """
    interval_ms = strategy.interval_ms
    beyond = (to_ms // interval_ms + 1) * interval_ms
    ends = np.full(len(steps.tick_ends), beyond)
    ends[:-1] = np.where(steps.is_last_of_partition()[:-1], beyond, steps.tick_ends[1:])
    if strategy.idle_timeout_ms is not None:
        # The first tick end e with e - last arrival >= idle timeout: rounded up, so negated around the floor
        # division.
        ends = np.minimum(
            ends, -(-(steps.last_arrival_ms + strategy.idle_timeout_ms) // interval_ms) * interval_ms
        )
    is_active = steps.tick_ends < ends
    starts, ends = steps.tick_ends[is_active], ends[is_active]
    watermarks = steps.max_event_ms[is_active] - strategy.out_of_orderness_ms - 1
    # Most steps do not raise their partition's greatest event time; they prolong the activity before them.
    prolongs = (starts[1:] == ends[:-1]) & (watermarks[1:] == watermarks[:-1])
    is_first, is_last = np.ones((2, len(starts)), dtype=np.bool_)
    is_first[1:], is_last[:-1] = ~prolongs, ~prolongs
    return _Activities(starts[is_first], ends[is_last], watermarks[is_first])


def _lowest_over_active(active: _Activities) -> tuple[Longs, Longs]:
    """(tick ends at which an activity starts or ends, the lowest watermark of the active partitions there, or
    NEVER).

    Each activity covers a range of those points. A range is the union of two blocks of 2^level points: write
    its watermark to both blocks, longest blocks first, and halve all blocks from level to level. O(points)
    memory, O(points log points) time.
    """
    points = distinct_values(np.concatenate([active.starts, active.ends]))
    lowest = np.full(len(points), NEVER)
    first, beyond = np.searchsorted(points, active.starts), np.searchsorted(points, active.ends)
    levels = np.frexp((beyond - first).astype(np.float64))[1] - 1
    by_level = np.argsort(levels, kind="stable")
    bounds = np.searchsorted(levels[by_level], np.arange(int(levels.max(initial=-1)) + 2))
    for level in range(len(bounds) - 2, -1, -1):
        rows = by_level[bounds[level] : bounds[level + 1]]
        np.minimum.at(lowest, first[rows], active.watermarks[rows])
        np.minimum.at(lowest, beyond[rows] - (1 << level), active.watermarks[rows])
        if level:
            half = 1 << (level - 1)
            lowest[half:] = np.minimum(lowest[half:], lowest[:-half])
    return points, lowest


def _progress_after(
    steps: TickSteps, restored_progress: SourceProgress, strategy: WatermarkStrategy, from_ms: int, to_ms: int
) -> SourceProgress:
    last = np.flatnonzero(steps.is_last_of_partition())
    partitions = steps.partitions[last]
    newest_end = to_ms // strategy.interval_ms * strategy.interval_ms
    idle: Booleans = np.zeros(len(last), dtype=np.bool_)
    if newest_end <= from_ms:  # no tick of this slice is finished
        idle[np.searchsorted(partitions, restored_progress.partitions)] = restored_progress.idle
    elif strategy.idle_timeout_ms is not None:
        # A partition has at most one step in the unfinished tick; at the newest tick end the step before that
        # one counted.
        newest_finished = last - (steps.tick_ends[last] > newest_end)
        has_step = (newest_finished >= 0) & (steps.partitions[newest_finished] == partitions)
        idle = has_step & (newest_end - steps.last_arrival_ms[newest_finished] >= strategy.idle_timeout_ms)
    unfinished_tick_start = None if newest_end == to_ms else newest_end
    return SourceProgress(
        partitions, steps.max_event_ms[last], steps.last_arrival_ms[last], idle, unfinished_tick_start
    )
