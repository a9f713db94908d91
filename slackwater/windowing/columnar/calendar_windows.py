"""Calendar windows on whole columns: periods, looked up in tables of `_PERIODS_OF_TABLE` consecutive starts.
The tables that a column needs are concatenated; a binary search finds the period of a time:

    times            t1   t2                                  t3
    starts      │ 0    │ 1    │ …  │ 511  │     │ 1024 │ 1025   │ …  │ 1535 │
                └─────── table 0 ─────────┘     └───────── table 2 ─────────┘
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from slackwater.windowing.calendars import DAY_MS, Calendar
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.orders import distinct_values
from slackwater.windowing.columnar.numbered_windows import NumberedWindows
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK

_PERIODS_OF_TABLE: Final = 512
_TABLES_KEPT: Final = 1024
_TABLES_AT_ONCE: Final = 16  # more are not made without looking which of them are needed
_MOST_DAYS_OFF: Final = 2  # between the period of a time in the zone and in UTC, see Calendar.number_in_utc


@dataclass(frozen=True)
class CalendarWindows(NumberedWindows):
    """The periods of a calendar. Each instant is in one of them, so a slice is a window."""

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

    def numbers(self, starts_ms: Longs) -> Longs:
        return self.slices(starts_ms)

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
        first = self.calendar.number_in_utc(first_day * DAY_MS) - _MOST_DAYS_OFF
        last = self.calendar.number_in_utc(last_day * DAY_MS) + _MOST_DAYS_OFF
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
