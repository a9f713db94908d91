"""Windows as numbers: what kernels need of windows that follow from timestamps alone, on whole columns.

Windows are numbered by end, so also by start. A *slice* is a longest time span that no window boundary
divides: its elements share all of their windows. `FixedWindows`, `CumulativeWindows` and `CalendarWindows`
define slices and windows; lateness and collection, defined here, follow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from slackwater.windowing.assigners import CumulativeGrid, WindowGrid
from slackwater.windowing.calendars import DAY_MS, Calendar
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import Spans
from slackwater.windowing.columnar.arrays.orders import distinct_values
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK


class RowWindows(NamedTuple):
    """One row per (row, window), int64[m]: `rows` ascending, and for each its `windows` in the order in which
    the assigner gives them.
    """

    rows: Longs
    windows: Longs


class NumberedWindows(ABC):
    """Windows that are collected `lateness_ms` after their last instant. Windows whose last instant is at or
    before `collected_mark` were collected before (see `Timeline.collected_mark`).
    """

    lateness_ms: int
    collected_mark: int

    @property
    @abstractmethod
    def overlap(self) -> bool:
        """A time may be in several windows."""

    @property
    @abstractmethod
    def have_gaps(self) -> bool:
        """There are times that no window holds."""

    @abstractmethod
    def slices(self, times_ms: Longs) -> Longs:
        """int64[n]: the slice of each time."""

    @abstractmethod
    def newest_windows(self, slices: Longs) -> Longs:
        """int64[n]: the last window of each slice by end."""

    @abstractmethod
    def windows_per_slice(self, slices: Longs) -> Longs:
        """int64[n]: how many windows hold each slice; 0 in a gap between windows shorter than the slide."""

    @abstractmethod
    def assignments(self, slices: Longs) -> int:
        """How many (element, window) assignments elements of these slices have."""

    @abstractmethod
    def starts(self, windows: Longs) -> Longs:
        """int64[n]: the first millisecond of each window."""

    @abstractmethod
    def ends(self, windows: Longs) -> Longs:
        """int64[n]: the first millisecond after each window."""

    @abstractmethod
    def numbers(self, ends_ms: Longs) -> Longs:
        """The inverse of `ends`."""

    @abstractmethod
    def newest_passed(self, moment_ms: int) -> int:
        """The newest window whose last instant is at or before a moment; all older ones have passed too."""

    def earliest_last_instants(self, slices: Longs) -> Longs:
        """int64[n]: the earliest last instant among a slice's windows; in a gap, the slice's upper bound."""
        oldest = self.newest_windows(slices) - np.maximum(self.windows_per_slice(slices), 1) + 1
        return self.last_instants(oldest)

    def last_instants(self, windows: Longs) -> Longs:
        """int64[n]: the last millisecond of each window, Flink's max_timestamp: its timer's time."""
        return self.ends(windows) - 1

    def cleanup_times(self, windows: Longs) -> Longs:
        """int64[n]: the watermark at which each window is collected, unless it was before."""
        return self.last_instants(windows) + self.lateness_ms

    def are_late(self, windows: Longs, watermarks: Longs) -> Booleans:
        """bool[n]: the window is collected at its watermark, so it takes no element."""
        return (self.cleanup_times(windows) <= watermarks) | (
            self.last_instants(windows) <= self.collected_mark
        )

    def are_late_elements(self, times_ms: Longs, watermarks: Longs) -> Booleans:
        """bool[n]: the element is late by its own timestamp at its watermark."""
        return (times_ms + self.lateness_ms <= watermarks) | (times_ms <= self.collected_mark)

    def rows_behind(self, times_ms: Longs, slices: Longs, watermarks: Longs) -> Longs:
        """The rows of elements that the watermark has passed in some window, or that no window holds."""
        is_candidate = times_ms <= watermarks  # a window ends after every element in it
        if self.have_gaps:
            is_candidate |= self.windows_per_slice(slices) == 0
        rows = np.flatnonzero(is_candidate)
        slices = slices[rows]
        is_behind = self.earliest_last_instants(slices) <= watermarks[rows]
        is_behind |= self.windows_per_slice(slices) == 0
        return rows[is_behind]

    def judge(self, times_ms: Longs, slices: Longs, watermarks: Longs) -> tuple[Booleans, Booleans]:
        """(bool[n], some window takes the element; bool[n], it is late). As in Flink an element that no
        window takes is late only by its own timestamp; in a gap between windows it may be neither.
        """
        is_skipped = self.are_late(self.newest_windows(slices), watermarks)
        is_skipped |= self.windows_per_slice(slices) == 0
        return ~is_skipped, is_skipped & self.are_late_elements(times_ms, watermarks)

    def newest_collected(self, watermark: int) -> int:
        """The newest window that is collected at a watermark; all older ones are, too."""
        return self.newest_passed(max(watermark - self.lateness_ms, self.collected_mark))

    def window_spans(self, slices: Longs, starts: Longs) -> tuple[Longs, Spans]:
        """(window numbers, spans of rows): the windows that hold the slices of each run, run by run and
        ascending, and the rows that each spans. Slices ascend within a run; run i begins at row starts[i].
        """
        newest, ends = self.newest_windows(slices), np.append(starts[1:], len(slices)) - 1
        oldest = newest - self.windows_per_slice(slices) + 1
        # Of each row: the oldest window that the row before lacks, the newest that the row after lacks.
        oldest_new, newest_ended = oldest.copy(), newest.copy()
        oldest_new[1:] = np.maximum(oldest[1:], newest[:-1] + 1)
        newest_ended[:-1] = np.minimum(newest[:-1], oldest[1:] - 1)
        oldest_new[starts], newest_ended[ends] = oldest[starts], newest[ends]
        counts = newest - oldest_new + 1
        firsts = np.repeat(np.arange(len(slices)), counts)
        windows = np.arange(len(firsts)) + (oldest_new - (np.cumsum(counts) - counts))[firsts]
        return windows, Spans(firsts, np.repeat(np.arange(1, len(slices) + 1), newest_ended - oldest + 1))

    def explode(self, slices: Longs) -> RowWindows:
        if not self.overlap and not self.have_gaps:
            return RowWindows(np.arange(len(slices)), self.newest_windows(slices))
        counts = self.windows_per_slice(slices)
        rows = np.repeat(np.arange(len(slices)), counts)
        first = np.cumsum(counts) - counts
        return RowWindows(rows, self._window_at(slices[rows], np.arange(len(rows)) - first[rows]))

    def _window_at(self, slices: Longs, places: Longs) -> Longs:
        """int64[n]: the window at a place, from 0, among those that the assigner gives a slice's elements."""
        return self.newest_windows(slices) - places


@dataclass(frozen=True)
class FixedWindows(NumberedWindows):
    """Tumbling and sliding windows [offset + w·slide, offset + w·slide + size), w any integer.

    time      │ 0      │ 20     │ 40     │ 60     │        size 40, slide 20
    slices    │   0    │   1    │   2    │   3    │
    window 0  └────────┴────────┘
    window 1           └────────┴────────┘
    window 2                    └────────┴────────┘

    If size is a multiple of slide, slice p is [offset + p·slide, … + slide); else that span is cut in two, 2p
    and 2p + 1, after its first size mod slide ms.
    """

    size_ms: int
    slide_ms: int
    offset_ms: int
    lateness_ms: int
    collected_mark: int = INITIAL_WATERMARK

    @property
    def _remainder(self) -> int:
        return self.size_ms % self.slide_ms

    @property
    def overlap(self) -> bool:
        return self.size_ms > self.slide_ms

    @property
    def have_gaps(self) -> bool:
        return self.size_ms < self.slide_ms

    def slices(self, times_ms: Longs) -> Longs:
        since = times_ms - self.offset_ms
        periods = since // self.slide_ms
        if not self._remainder:
            return periods
        return 2 * periods + (since - periods * self.slide_ms >= self._remainder)

    def newest_windows(self, slices: Longs) -> Longs:
        return slices >> 1 if self._remainder else slices

    def windows_per_slice(self, slices: Longs) -> Longs:
        counts = np.full(len(slices), self.size_ms // self.slide_ms)
        return counts + 1 - (slices & 1) if self._remainder else counts

    def assignments(self, slices: Longs) -> int:
        count = self.size_ms // self.slide_ms * len(slices)
        return count + int(np.count_nonzero(slices & 1 == 0)) if self._remainder else count

    def starts(self, windows: Longs) -> Longs:
        return self.offset_ms + windows * self.slide_ms

    def ends(self, windows: Longs) -> Longs:
        return self.starts(windows) + self.size_ms

    def last_instants(self, windows: Longs) -> Longs:
        return self.starts(windows) + (self.size_ms - 1)  # `ends - 1` with one pass less

    def numbers(self, ends_ms: Longs) -> Longs:
        return (ends_ms - self.size_ms - self.offset_ms) // self.slide_ms

    def newest_passed(self, moment_ms: int) -> int:
        return (moment_ms - self.offset_ms - self.size_ms + 1) // self.slide_ms


@dataclass(frozen=True)
class CumulativeWindows(NumberedWindows):
    """Windows [offset + k·size, offset + k·size + j·step), j = 1 … n, n = size / step. Slice p is [offset +
    p·step, … + step); window w, also any integer, ends with slice w.

    time      │ 0      │ 20     │ 40     │ 60     │        size 40, step 20
    slices    │   0    │   1    │   2    │   3    │
    window 0  └────────┘
    window 1  └────────┴────────┘
    window 2                    └────────┘
    window 3                    └────────┴────────┘
    """

    size_ms: int
    step_ms: int
    offset_ms: int
    lateness_ms: int
    collected_mark: int = INITIAL_WATERMARK

    @property
    def _steps(self) -> int:
        return self.size_ms // self.step_ms

    @property
    def overlap(self) -> bool:
        return self.size_ms > self.step_ms

    @property
    def have_gaps(self) -> bool:
        return False

    def slices(self, times_ms: Longs) -> Longs:
        return (times_ms - self.offset_ms) // self.step_ms

    def newest_windows(self, slices: Longs) -> Longs:
        return slices + self.windows_per_slice(slices) - 1

    def windows_per_slice(self, slices: Longs) -> Longs:
        return self._steps - slices % self._steps

    def assignments(self, slices: Longs) -> int:
        return int(self.windows_per_slice(slices).sum())

    def starts(self, windows: Longs) -> Longs:
        return self.offset_ms + windows // self._steps * self.size_ms

    def ends(self, windows: Longs) -> Longs:
        return self.offset_ms + (windows + 1) * self.step_ms

    def numbers(self, ends_ms: Longs) -> Longs:
        return (ends_ms - self.offset_ms) // self.step_ms - 1

    def newest_passed(self, moment_ms: int) -> int:
        return (moment_ms + 1 - self.offset_ms) // self.step_ms - 1

    def _window_at(self, slices: Longs, places: Longs) -> Longs:
        return slices + places


_PERIODS_OF_TABLE: Final = 512
_TABLES_KEPT: Final = 1024
_TABLES_AT_ONCE: Final = 16  # more are not made without looking which of them are needed


@dataclass(frozen=True)
class CalendarWindows(NumberedWindows):
    """The periods of a calendar. Each instant is in one of them, so a slice is a window.

    They are looked up in tables of `_PERIODS_OF_TABLE` consecutive starts. The tables that a column needs are
    concatenated; a binary search finds the period of a time:

        times            t1   t2                                  t3
        starts      │ 0    │ 1    │ …  │ 511  │     │ 1024 │ 1025   │ …  │ 1535 │
                    └─────── table 0 ─────────┘     └───────── table 2 ─────────┘
    """

    calendar: Calendar
    lateness_ms: int
    collected_mark: int = INITIAL_WATERMARK

    @property
    def overlap(self) -> bool:
        return False

    @property
    def have_gaps(self) -> bool:
        return False

    def slices(self, times_ms: Longs) -> Longs:
        if not len(times_ms):
            return np.zeros(0, np.int64)
        tables = self._tables_of_days(times_ms // DAY_MS)
        starts = self._starts_in(tables)
        places = np.searchsorted(starts, times_ms, side="right") - 1
        numbers: Longs = tables[places // _PERIODS_OF_TABLE] * _PERIODS_OF_TABLE + places % _PERIODS_OF_TABLE
        return numbers

    def newest_windows(self, slices: Longs) -> Longs:
        return slices

    def windows_per_slice(self, slices: Longs) -> Longs:
        return np.ones(len(slices), np.int64)

    def assignments(self, slices: Longs) -> int:
        return len(slices)

    def starts(self, windows: Longs) -> Longs:
        if not len(windows):
            return np.zeros(0, np.int64)
        tables = _distinct_numbers(windows // _PERIODS_OF_TABLE)
        places = np.searchsorted(tables, windows // _PERIODS_OF_TABLE)
        starts: Longs = self._starts_in(tables)[places * _PERIODS_OF_TABLE + windows % _PERIODS_OF_TABLE]
        return starts

    def ends(self, windows: Longs) -> Longs:
        return self.starts(windows + 1)

    def numbers(self, ends_ms: Longs) -> Longs:
        return self.slices(ends_ms - 1)

    def newest_passed(self, moment_ms: int) -> int:
        return self.calendar.number(moment_ms + 1) - 1

    def _tables_of_days(self, days: Longs) -> Longs:
        """The tables that hold the periods of all times on these UTC days, ascending."""
        least, greatest = int(days.min()), int(days.max())
        first, last = self._tables_around(least, greatest)
        if last - first <= _TABLES_AT_ONCE:
            return np.arange(first, last + 1)
        distinct_days = distinct_values(days).tolist()
        return np.unique([self._tables_around(day, day) for day in distinct_days])

    def _tables_around(self, first_day: int, last_day: int) -> tuple[int, int]:
        """The first and last table that may hold the periods of times between two UTC days."""
        first = self.calendar.number_in_utc(first_day * DAY_MS) - self.calendar.most_periods_off
        last = self.calendar.number_in_utc((last_day + 1) * DAY_MS - 1) + self.calendar.most_periods_off
        return first // _PERIODS_OF_TABLE, last // _PERIODS_OF_TABLE

    def _starts_in(self, tables: Longs) -> Longs:
        return np.concatenate([table_of_starts(self.calendar, number) for number in tables.tolist()])


@lru_cache(_TABLES_KEPT)
def table_of_starts(calendar: Calendar, number: int) -> Longs:
    """The starts of the periods whose number divided by `_PERIODS_OF_TABLE` is `number`."""
    first = number * _PERIODS_OF_TABLE
    starts = np.array(
        [calendar.start(period) for period in range(first, first + _PERIODS_OF_TABLE)], np.int64
    )
    starts.flags.writeable = False
    return starts


def _distinct_numbers(numbers: Longs) -> Longs:
    """The distinct values of a column; for numbers close together, every number in their range."""
    least, greatest = int(numbers.min()), int(numbers.max())
    return np.arange(least, greatest + 1) if greatest - least <= _TABLES_AT_ONCE else distinct_values(numbers)


def windows_on(
    grid: WindowGrid, lateness_ms: int, collected_mark: int = INITIAL_WATERMARK
) -> NumberedWindows:
    """The windows of an assigner's promise `grid`: tumbling, sliding, cumulative or calendar windows."""
    if isinstance(grid, Calendar):
        return CalendarWindows(grid, lateness_ms, collected_mark)
    if isinstance(grid, CumulativeGrid):
        return CumulativeWindows(*grid, lateness_ms, collected_mark)
    return FixedWindows(*grid, lateness_ms, collected_mark)
