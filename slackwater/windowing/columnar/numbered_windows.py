"""Windows as numbers: what kernels need of windows that follow from timestamps alone, on whole columns.

Windows are numbered by start. A *slice* is a longest time span that no window boundary divides: its elements
share all of their windows. `FixedWindows` and `CalendarWindows` define slices and windows; lateness and
collection, defined here, follow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.spans import Spans


class RowWindows(NamedTuple):
    """One row per (row, window), int64[m]: `rows` ascending, and for each its `windows` descending."""

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
        """int64[n]: the last-starting window of each slice."""

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
    def numbers(self, starts_ms: Longs) -> Longs:
        """The inverse of `starts`."""

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
        return RowWindows(rows, self.newest_windows(slices)[rows] - (np.arange(len(rows)) - first[rows]))
