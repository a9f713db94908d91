"""Calendar windows, which Flink lacks: hours, days, weeks or months of a time zone, in event time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
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
_MONTHS_OF_YEAR = 12


@dataclass(frozen=True, kw_only=True)
class CalendarEventTimeWindows(WindowAssigner):
    """Periods of the clocks of a time zone in event time: hours, days, weeks, months, quarters or years;
    create them with the method of that name.

    A window is [first instant of the period, first instant of the next), in milliseconds of UTC, without
    gaps. A day has 23 or 25 hours where clocks change, an hour that they show twice two, a month 28 to 31
    days. Hours begin at midnight of each day: of six hours there are four a day. An unknown zone, unit or
    weekday, and a count or date that no period has, raise ConfigurationError.

    Attributes:
        zone: a name of the IANA time zone database, e.g. "Europe/Berlin".
        unit: "hours", "days", "weeks" or "months".
        first_day: the weekday on which a week begins; ignored for other units.
        count: of how many units a period is.
        since: a date on which a period begins, and from which they are counted on and back; of months from
            its day of the month on, or the last day of shorter months. By default 1970-01-01, of weeks the
            first day of its week.
    """

    looks_at_elements: ClassVar[bool] = False

    zone: str
    unit: Unit
    first_day: Weekday = "monday"
    count: int = 1
    since: date | None = None

    def __post_init__(self) -> None:
        _ = self.grid  # refuses what it does not know

    @property
    def grid(self) -> Calendar:
        return Calendar(self.zone, self.unit, self.first_day, self.count, self.since)

    @property
    def longest_ms(self) -> int:
        return self.grid.longest_ms

    @classmethod
    def hours(cls, zone: str, count: int = 1) -> CalendarEventTimeWindows:
        """So many hours by the clocks of a zone, from midnight on; `count` divides 24."""
        return cls(zone=zone, unit="hours", count=count)

    @classmethod
    def days(cls, zone: str, count: int = 1, since: date | None = None) -> CalendarEventTimeWindows:
        """So many days of a zone, from midnight to midnight."""
        return cls(zone=zone, unit="days", count=count, since=since)

    @classmethod
    def weeks(
        cls, zone: str, first_day: Weekday = "monday", count: int = 1, since: date | None = None
    ) -> CalendarEventTimeWindows:
        """So many weeks of a zone, from midnight before `first_day` on."""
        return cls(zone=zone, unit="weeks", first_day=first_day, count=count, since=since)

    @classmethod
    def months(cls, zone: str, count: int = 1, since: date | None = None) -> CalendarEventTimeWindows:
        """So many months of a zone, from midnight before the first day on, or before the day of `since`."""
        return cls(zone=zone, unit="months", count=count, since=since)

    @classmethod
    def quarters(cls, zone: str, since: date | None = None) -> CalendarEventTimeWindows:
        """Three months of a zone, from January on, or from the day and month of `since`."""
        return cls.months(zone, 3, since)

    @classmethod
    def years(cls, zone: str, since: date | None = None) -> CalendarEventTimeWindows:
        """The years of a zone, from 1 January on, or from the day and month of `since`."""
        return cls.months(zone, _MONTHS_OF_YEAR, since)

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
