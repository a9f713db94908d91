"""The watermark timeline of a slice whose elements carry watermarks: the elements after which it rises, the
tick ends at which it rises because a partition becomes idle, and the watermark after each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from slackwater.windowing.columnar.arrays.columns import ColumnRecord, Longs, freeze_columns, longs
from slackwater.windowing.columnar.timeline.source_progress import check_interval
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK
from slackwater.windowing.errors import TimelineError


@dataclass(frozen=True, eq=False)
class PunctuatedProgress(ColumnRecord):
    """The progress of each source partition at the end of a slice; the next run starts from it.

    Attributes:
        partitions: int64[n], strictly ascending codes of all partitions that have ever had an element.
        watermarks: int64[n], the greatest watermark carried so far; INITIAL_WATERMARK for none.
    """

    partitions: Longs
    watermarks: Longs
    last_arrival_ms: Longs

    def __post_init__(self) -> None:
        freeze_columns(self, "partitions", "watermarks", "last_arrival_ms")
        if not bool(np.all(self.partitions[1:] > self.partitions[:-1])):
            raise TimelineError(
                "Source progress needs one row for each source partition, in ascending order of its code."
            )

    @classmethod
    def none(cls) -> PunctuatedProgress:
        return cls(longs(()), longs(()), longs(()))


@dataclass(frozen=True, eq=False)
class PunctuatedTimeline(ColumnRecord):
    """The rises of the watermark in a slice of n elements, in processing order; each processed at its
    arrival.

    Attributes:
        before: int64[m], ascending, the index of the first element that sees the rise; n if none does.
        moments_ms: int64[m], ascending, the clock at the rise: the carrying element's arrival, or a tick's
            end.
        watermarks: int64[m], strictly rising and greater than `initial`, the one at the slice's start.
    """

    initial: int
    before: Longs
    moments_ms: Longs
    watermarks: Longs

    def __post_init__(self) -> None:
        freeze_columns(self, "before", "moments_ms", "watermarks")

    @property
    def final(self) -> int:
        """The watermark at the slice's end; the next run starts from it."""
        return int(self.watermarks[-1]) if len(self.watermarks) else self.initial


def punctuated_timeline(
    partitions: ArrayLike,
    arrivals_ms: ArrayLike,
    carried_watermarks: ArrayLike,
    *,
    from_ms: int,
    to_ms: int,
    interval_ms: int,
    idle_timeout_ms: int | None = None,
    progress: PunctuatedProgress | None = None,
    watermark: int = INITIAL_WATERMARK,
) -> tuple[PunctuatedTimeline, PunctuatedProgress]:
    """The watermark over the slice [from_ms, to_ms), and the progress that the next run restores.

    With M the greatest watermark that a source partition has carried so far, W = max(previous, min of M over
    the active partitions), computed right after each element that carries a watermark or wakes a partition,
    and at each tick end e with from_ms < e <= to_ms. A partition is active from its first element on, until a
    tick end e with e - its last arrival >= the idle timeout; its next element wakes it. None active:
    unchanged. So a partition that has carried nothing holds the watermark back, one not yet seen does not. A
    run over [a, b) and then one over [b, c) that restores it give what one run over [a, c) gives, for any b.

    `partitions`, `arrivals_ms` and `carried_watermarks`, int64[n] each, are of the slice's usable elements in
    processing order, arrivals ascending; INITIAL_WATERMARK where an element carries none. Only idleness needs
    ticks, of length `interval_ms`. Raises TimelineError for elements out of order or outside the slice,
    progress of a later time, and an interval < 1.

    Flink: PunctuatedWatermarks behind a WatermarkOutputMultiplexer with immediate outputs. O(n) in the
    elements and in the ticks at which a partition becomes idle, times the source partitions in the worst
    case.
    """
    codes, arrivals, marks = longs(partitions), longs(arrivals_ms), longs(carried_watermarks)
    restored_progress = PunctuatedProgress.none() if progress is None else progress
    check_interval(interval_ms)
    _check(codes, arrivals, marks, restored_progress, from_ms=from_ms, to_ms=to_ms)
    progress_walk = _ProgressWalk(restored_progress, from_ms, interval_ms, idle_timeout_ms, watermark)
    for index, (partition, arrival, mark) in enumerate(
        zip(codes.tolist(), arrivals.tolist(), marks.tolist(), strict=True)
    ):
        progress_walk.finish_ticks(arrival, index)
        progress_walk.take(partition, arrival, mark, index)
    progress_walk.finish_ticks(to_ms, len(codes))
    return progress_walk.timeline(), progress_walk.progress()


def _check(
    codes: Longs,
    arrivals: Longs,
    marks: Longs,
    restored_progress: PunctuatedProgress,
    *,
    from_ms: int,
    to_ms: int,
) -> None:
    if not len(codes) == len(arrivals) == len(marks):
        raise TimelineError(
            f"Elements need columns of one length: {len(codes)} partitions, {len(arrivals)} arrivals, "
            f"{len(marks)} marks."
        )
    if from_ms > to_ms:
        raise TimelineError(f"The slice [{from_ms}, {to_ms}) ends before it starts.")
    if bool(np.any(arrivals[1:] < arrivals[:-1])):
        raise TimelineError(
            "Elements must come in the order in which they are processed, but their arrivals fall."
        )
    if len(arrivals) and not from_ms <= arrivals[0] <= arrivals[-1] < to_ms:
        raise TimelineError(
            f"Elements that arrived in {arrivals[0]} to {arrivals[-1]} are not all of the slice [{from_ms}, "
            f"{to_ms})."
        )
    if len(restored_progress.partitions) and restored_progress.last_arrival_ms.max() >= from_ms:
        newest = restored_progress.last_arrival_ms.max()
        raise TimelineError(
            f"The restored progress knows an arrival at {newest}, the slice starts at {from_ms}."
        )


class _ProgressWalk:
    """One pass over the elements, and over the tick ends at which a partition becomes idle."""

    def __init__(
        self,
        restored_progress: PunctuatedProgress,
        from_ms: int,
        interval_ms: int,
        idle_timeout_ms: int | None,
        watermark: int,
    ) -> None:
        self._interval_ms, self._idle_timeout_ms = interval_ms, idle_timeout_ms
        restored_rows = zip(
            restored_progress.partitions.tolist(),
            restored_progress.watermarks.tolist(),
            restored_progress.last_arrival_ms.tolist(),
            strict=True,
        )
        self._greatest_marks: dict[int, int] = {}
        self._last_arrival: dict[int, int] = {}
        for partition, greatest_mark, arrival in restored_rows:
            self._greatest_marks[partition], self._last_arrival[partition] = greatest_mark, arrival
        newest_end = from_ms // interval_ms * interval_ms
        self._active = {
            partition for partition, last in self._last_arrival.items() if self._idle_from(last) > newest_end
        }
        self._initial = self._watermark = watermark
        self._rises: list[tuple[int, int, int]] = []

    def take(self, partition: int, arrival: int, mark: int, index: int) -> None:
        before = self._greatest_marks.get(partition, INITIAL_WATERMARK)
        self._greatest_marks[partition] = max(before, mark)
        self._last_arrival[partition] = arrival
        changes_minimum = mark > before or partition not in self._active
        self._active.add(partition)
        if changes_minimum:
            self._rise(index + 1, arrival)

    def finish_ticks(self, until_ms: int, index: int) -> None:
        """Finish the ticks up to `until_ms` that make a partition idle, before the element `index`."""
        for end in self._idle_ends(until_ms):
            self._active -= {
                partition
                for partition in self._active
                if self._idle_from(self._last_arrival[partition]) <= end
            }
            self._rise(index, end)

    def timeline(self) -> PunctuatedTimeline:
        before, moments, watermarks = (
            map(longs, zip(*self._rises, strict=True)) if self._rises else (longs(()),) * 3
        )
        return PunctuatedTimeline(self._initial, before, moments, watermarks)

    def progress(self) -> PunctuatedProgress:
        partitions = sorted(self._greatest_marks)
        return PunctuatedProgress(
            longs(partitions),
            longs([self._greatest_marks[p] for p in partitions]),
            longs([self._last_arrival[p] for p in partitions]),
        )

    def _idle_from(self, last_arrival: int) -> int:
        """The first tick end at which a partition without a later element is idle."""
        if self._idle_timeout_ms is None:
            return int(np.iinfo(np.int64).max)
        return -(-(last_arrival + self._idle_timeout_ms) // self._interval_ms) * self._interval_ms

    def _idle_ends(self, until_ms: int) -> Iterator[int]:
        if self._idle_timeout_ms is None:
            return
        ends = {self._idle_from(self._last_arrival[partition]) for partition in self._active}
        yield from sorted(end for end in ends if end <= until_ms)

    def _rise(self, index: int, moment: int) -> None:
        lowest = min(
            (self._greatest_marks[partition] for partition in self._active), default=INITIAL_WATERMARK
        )
        if lowest > self._watermark:
            self._watermark = lowest
            self._rises.append((index, moment, lowest))
