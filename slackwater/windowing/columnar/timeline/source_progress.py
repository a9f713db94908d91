"""Greatest event time and last arrival of source partitions, per tick and at the end; no watermarks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from slackwater.windowing.columnar.arrays.columns import Booleans, ColumnRecord, Longs, freeze_columns, longs
from slackwater.windowing.columnar.arrays.groups import greatest_of_groups, group_pairs, run_starts
from slackwater.windowing.errors import TimelineError

# Runs of elements of one (partition, tick) are aggregated before the grouping where they are this long on
# average.
_ROWS_PER_RUN: Final = 4


@dataclass(frozen=True, eq=False)
class TickAggregates:
    """The event-time progress of one slice: a row per (source partition, tick) with elements.

    Rows come in any order, several per (partition, tick) if several tasks had some. `partitions` are codes of
    source partitions, which the caller maps to names, also between runs; `max_event_ms` is the greatest event
    time in the tick, `last_arrival_ms` the greatest arrival, which says which tick it is. int64[n] each.
    """

    partitions: Longs
    max_event_ms: Longs
    last_arrival_ms: Longs

    def __post_init__(self) -> None:
        freeze_columns(self, "partitions", "max_event_ms", "last_arrival_ms")

    def __len__(self) -> int:
        return len(self.partitions)

    @classmethod
    def from_elements(
        cls,
        partitions: ArrayLike,
        arrivals: ArrayLike,
        event_times: ArrayLike,
        *,
        interval_ms: int,
        per_ms: int = 1,
    ) -> TickAggregates:
        """Aggregate the usable elements of one task, in any order; only aggregates travel.

        `arrivals` and `event_times`, int64[n], have `per_ms` units per millisecond; results are floored to
        milliseconds. `partitions` is int64[n], or the one code that all elements have.
        """
        check_interval(interval_ms)
        codes, events, latest = longs(partitions), longs(event_times), longs(arrivals)
        numbers = latest // (interval_ms * per_ms)
        if np.ndim(partitions):
            starts = run_starts(codes, numbers)
        else:
            codes, starts = np.broadcast_to(codes, events.shape), run_starts(numbers)
        # Runs are long where elements come in order of arrival, or nearly so.
        if len(starts) * _ROWS_PER_RUN <= len(events) == len(latest):
            codes, numbers = codes[starts], numbers[starts]
            events, latest = np.maximum.reduceat(events, starts), np.maximum.reduceat(latest, starts)
        elements = cls(codes, events, latest)
        ticks, names, _ = group_pairs(elements.partitions, numbers)
        greatest = (greatest_of_groups(times, ticks) // per_ms for times in (events, latest))
        return cls(names, *greatest)

    @classmethod
    def concatenate(cls, parts: Iterable[TickAggregates]) -> TickAggregates:
        all_parts = [cls.none(), *parts]
        return cls(
            np.concatenate([part.partitions for part in all_parts]),
            np.concatenate([part.max_event_ms for part in all_parts]),
            np.concatenate([part.last_arrival_ms for part in all_parts]),
        )

    @classmethod
    def none(cls) -> TickAggregates:
        return cls(longs(()), longs(()), longs(()))


@dataclass(frozen=True, eq=False)
class SourceProgress(ColumnRecord):
    """The progress of each source partition at the end of a slice; the next run starts from it.

    Attributes:
        partitions: int64[n], strictly ascending codes of all partitions that have ever had an element.
        max_event_ms, last_arrival_ms: int64[n], greatest so far, unfinished tick included.
        idle: bool[n], the partition was idle at the newest finished tick end; False if not seen before it.
        unfinished_tick_start_ms: start of the tick that the slice's end cuts; None if the slice ends with a
            tick.
    """

    partitions: Longs
    max_event_ms: Longs
    last_arrival_ms: Longs
    idle: Booleans
    unfinished_tick_start_ms: int | None = None

    def __post_init__(self) -> None:
        freeze_columns(self, "partitions", "max_event_ms", "last_arrival_ms", "idle")
        if not bool(np.all(self.partitions[1:] > self.partitions[:-1])):
            raise TimelineError(
                "Source progress needs one row for each source partition, in ascending order of its code."
            )

    def __len__(self) -> int:
        return len(self.partitions)

    @classmethod
    def none(cls) -> SourceProgress:
        return cls(longs(()), longs(()), longs(()), np.zeros(0, dtype=np.bool_))


class TickSteps(NamedTuple):
    """A row per (source partition, tick) with elements, sorted by both; int64[n] each."""

    partitions: Longs
    tick_ends: Longs
    max_event_ms: Longs
    last_arrival_ms: Longs

    def is_last_of_partition(self) -> Booleans:
        return np.concatenate(
            [
                self.partitions[1:] != self.partitions[:-1],
                np.ones(min(1, len(self.partitions)), dtype=np.bool_),
            ]
        )


def combine_ticks(
    partitions: Longs, tick_ends: Longs, max_event_ms: Longs, last_arrival_ms: Longs
) -> TickSteps:
    """The maxima of each (partition, tick), from rows in any order: O(n log n), O(n) for sorted rows."""
    rises = (partitions[1:] > partitions[:-1]) | (
        (partitions[1:] == partitions[:-1]) & (tick_ends[1:] >= tick_ends[:-1])
    )
    if not rises.all():
        order = np.lexsort((tick_ends, partitions))
        partitions, tick_ends = partitions[order], tick_ends[order]
        max_event_ms, last_arrival_ms = max_event_ms[order], last_arrival_ms[order]
    is_first = np.ones(len(partitions), dtype=np.bool_)
    is_first[1:] = (partitions[1:] != partitions[:-1]) | (tick_ends[1:] != tick_ends[:-1])
    first = np.flatnonzero(is_first)
    if not len(first):
        return TickSteps(partitions, tick_ends, max_event_ms, last_arrival_ms)
    return TickSteps(
        partitions[first],
        tick_ends[first],
        np.maximum.reduceat(max_event_ms, first),
        np.maximum.reduceat(last_arrival_ms, first),
    )


def steps_that_matter(steps: TickSteps, interval_ms: int, idle_timeout_ms: int | None) -> TickSteps:
    """The steps without which timeline and progress would differ. Called in tasks, so that the others do not
    travel.

    Each partition keeps the steps at which its greatest event time rises, and its last one. Where a partition
    can become idle, it also keeps the first and last step in each stretch of idle timeout - interval, which
    show how long it is active. Between these two it is active without a gap, whatever steps lie there: a tick
    end e before the last one's is less than the timeout behind the first one's arrival, which is at most an
    interval before its own tick end.
    """
    if not len(steps.partitions):
        return steps
    is_first_of_partition = np.ones(len(steps.partitions), np.bool_)
    is_first_of_partition[1:] = steps.partitions[1:] != steps.partitions[:-1]
    greatest = running_maximum(steps.partitions, steps.max_event_ms)
    is_kept = is_first_of_partition.copy()
    is_kept[1:] |= greatest[1:] > greatest[:-1]
    is_kept |= steps.is_last_of_partition()
    if idle_timeout_ms is not None:
        stretches = steps.tick_ends // max(idle_timeout_ms - interval_ms, 1)
        is_first = is_first_of_partition.copy()
        is_first[1:] |= stretches[1:] != stretches[:-1]
        is_kept |= is_first | np.append(is_first[1:], True)
    return TickSteps(*(column[is_kept] for column in steps))


def running_maximum(partitions: Longs, values: Longs) -> Longs:
    """The running maximum in each run of equal partitions, by ranks, as values may span all of 64 bits."""
    distinct, ranks = np.unique(values, return_inverse=True)
    is_next = np.zeros(len(values), dtype=np.int64)
    is_next[1:] = partitions[1:] != partitions[:-1]
    floors = np.cumsum(is_next) * len(distinct)
    highest: Longs = distinct[np.maximum.accumulate(ranks + floors) - floors]
    return highest


def check_interval(interval_ms: int) -> None:
    if interval_ms <= 0:
        raise TimelineError(
            f"A replay needs ticks: the watermark interval must be above 0, but is {interval_ms} ms."
        )
