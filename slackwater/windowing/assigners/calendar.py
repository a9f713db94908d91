"""Calendar windows, which Flink lacks: days, weeks or months of a time zone, in event time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from slackwater.windowing.assigners.assigner import (
    Assign,
    AssignerContext,
    WindowAssigner,
    check_timestamp,
)
from slackwater.windowing.calendars import DAY_MS, Calendar, Unit, Weekday
from slackwater.windowing.java import wrap_long
from slackwater.windowing.windows import TimeWindow, Window

_CACHE_SIZE = 512


@dataclass(frozen=True, kw_only=True)
class CalendarEventTimeWindows(WindowAssigner):
    """The days, weeks or months of a time zone in event time; create them with `days`, `weeks` or `months`.

    A window is [first instant of the period, first instant of the next), in milliseconds of UTC, without
    gaps. A day has 23 or 25 hours where clocks change, a month 28 to 31 days. An unknown zone, unit or
    weekday raises ConfigurationError.

    Attributes:
        zone: a name of the IANA time zone database, e.g. "Europe/Berlin".
        unit: "days", "weeks" or "months".
        first_day: the weekday on which a week begins; ignored for other units.
    """

    looks_at_elements: ClassVar[bool] = False

    zone: str
    unit: Unit
    first_day: Weekday = "monday"

    def __post_init__(self) -> None:
        Calendar(self.zone, self.unit, self.first_day)  # refuses what it does not know

    @property
    def grid(self) -> Calendar:
        return Calendar(self.zone, self.unit, self.first_day)

    @property
    def longest_ms(self) -> int:
        return self.grid.longest_ms

    @classmethod
    def days(cls, zone: str) -> CalendarEventTimeWindows:
        """The days of a zone, from midnight to midnight."""
        return cls(zone=zone, unit="days")

    @classmethod
    def weeks(cls, zone: str, first_day: Weekday = "monday") -> CalendarEventTimeWindows:
        """The weeks of a zone, from midnight before `first_day` on."""
        return cls(zone=zone, unit="weeks", first_day=first_day)

    @classmethod
    def months(cls, zone: str) -> CalendarEventTimeWindows:
        """The months of a zone, from midnight before its first on."""
        return cls(zone=zone, unit="months")

    def assign_windows(self, element: Any, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        check_timestamp(self, timestamp)
        calendar = self.grid
        return [_window(calendar, calendar.number(timestamp))]

    def bind(self, context: AssignerContext) -> Assign:
        """`assign_windows`, caching the windows that overlap each UTC day."""
        calendar = self.grid
        windows_by_day: dict[int, Sequence[TimeWindow]] = {}

        def assign(element: Any, timestamp: int) -> Sequence[Window]:
            check_timestamp(self, timestamp)
            day = timestamp // DAY_MS
            windows = windows_by_day.get(day)
            if windows is None:
                if len(windows_by_day) >= _CACHE_SIZE:
                    windows_by_day.clear()
                windows = windows_by_day[day] = _windows_of_day(calendar, day)
            if len(windows) == 1:
                return windows
            return [next(window for window in windows if timestamp < window.end)]

        return assign


def _window(calendar: Calendar, number: int) -> TimeWindow:
    return TimeWindow(wrap_long(calendar.start(number)), wrap_long(calendar.start(number + 1)))


def _windows_of_day(calendar: Calendar, day: int) -> list[TimeWindow]:
    first, last = calendar.number(day * DAY_MS), calendar.number((day + 1) * DAY_MS - 1)
    windows = (_window(calendar, number) for number in range(first, last + 1))
    return [window for window in windows if window.start != window.end]
