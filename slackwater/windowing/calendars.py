"""The hours, days, weeks and months of a time zone as half-open intervals of UTC milliseconds.

    Europe/Berlin      Sat 29 March        Sun 30 March         Mon 31 March 2025
                    ├──────── 24 h ────┼─────── 23 h ──────┼──────── 24 h ────┤
    UTC            28, 23:00          29, 23:00           30, 22:00          31, 22:00

A period begins at the first instant at which the zone's clocks show its first date and hour or a later one:

- where clocks skip midnight, at the instant of the jump;
- where they show midnight twice, at the first; what they then repeat of the day before belongs to the new
day, as what they repeat of an hour belongs to the hour: an hour that comes twice is one of two hours;
- a date that the zone skipped (Pacific/Apia, 2011-12-30) begins when the next one does: an empty interval,
as an hour that clocks skip is.

So the intervals follow each other without gap and overlap.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, Literal, TypeAlias, get_args

from slackwater.windowing.errors import ConfigurationError

Unit: TypeAlias = Literal["hours", "days", "weeks", "months"]
Weekday: TypeAlias = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]

UNITS: Final[tuple[Unit, ...]] = get_args(Unit)
WEEKDAYS: Final[tuple[Weekday, ...]] = get_args(Weekday)

DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_EPOCH_WEEKDAY: Final = 3  # a Thursday, counted from Monday
_HOURS_OF_DAY: Final = 24
_MONTHS_OF_YEAR: Final = 12
_MOST_HOURS: Final = {"hours": 1, "days": 24, "weeks": 7 * 24, "months": 31 * 24}
_LEAST_HOURS: Final = {"hours": 1, "days": 24, "weeks": 7 * 24, "months": 28 * 24}
_LEAST_MS_BETWEEN_JUMPS: Final = 28 * DAY_MS
# `datetime` counts years 1 to 9999, in UTC and in the zone; a year less at both ends fits in either.
_FIRST_ZONED_DAY: Final = date(2, 1, 1).toordinal() - _EPOCH_ORDINAL
_LAST_ZONED_DAY: Final = date(9998, 12, 31).toordinal() - _EPOCH_ORDINAL
_YEARS_OF_CYCLE, _DAYS_OF_CYCLE = 400, 146_097  # after which the Gregorian calendar repeats itself


@dataclass(frozen=True)
class Calendar:
    """The periods of `count` units in one zone, numbered without gaps; number 0 begins on `origin`.

    Days before year 2 and after year 9998 are UTC days. Attributes, errors: see CalendarEventTimeWindows.
    """

    zone: str
    unit: Unit
    first_day: Weekday = "monday"
    count: int = 1
    since: date | None = None
    _zone: tzinfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for value, choices, subject in (
            (self.unit, UNITS, "The unit of a calendar"),
            (self.first_day, WEEKDAYS, "The first day of a week"),
        ):
            if value not in choices:
                raise ConfigurationError(f"{subject} is {value!r}; it is one of {', '.join(choices)}.")
        if type(self.count) is not int or self.count < 1:
            raise ConfigurationError(
                f"The count of {self.unit} is {self.count!r}; it is a whole number from 1 on."
            )
        if self.unit == "hours" and _HOURS_OF_DAY % self.count:
            raise ConfigurationError(
                f"A window of {self.count} hours does not begin at the same hours each day; their count is "
                "1, 2, 3, 4, 6, 8, 12 or 24."
            )
        self._check_since()
        object.__setattr__(self, "_zone", zone_named(self.zone))

    def _check_since(self) -> None:
        if self.since is None:
            return
        if type(self.since) is not date:
            raise ConfigurationError(
                f"since is {self.since!r}; it is the date on which a period begins, such as date(2024, 4, 1)."
            )
        if self.unit == "hours":
            raise ConfigurationError("Windows of hours begin at midnight of every day; leave since out.")
        if self.unit == "weeks" and self.since.weekday() != WEEKDAYS.index(self.first_day):
            raise ConfigurationError(
                f"since is {self.since}, a {WEEKDAYS[self.since.weekday()]}, but the first day of the weeks "
                f"is {self.first_day}; name a date of that weekday."
            )

    @property
    def origin(self) -> date:
        """The first date of period 0: `since`, or else 1970-01-01, of weeks the first day of its week."""
        if self.since is not None:
            return self.since
        days_back = (_EPOCH_WEEKDAY - WEEKDAYS.index(self.first_day)) % 7 if self.unit == "weeks" else 0
        return date.fromordinal(_EPOCH_ORDINAL - days_back)

    @property
    def longest_ms(self) -> int:
        """Upper bound of a period's length in ms: the most days, plus an hour that clocks repeat. Only zones
        that crossed the date line have had longer ones.
        """
        return (self.count * _MOST_HOURS[self.unit] + 1) * _HOUR_MS

    @property
    def most_windows(self) -> int:
        return 1

    @property
    def most_periods_off(self) -> int:
        """How many periods a number in UTC may be off: those of two days, which no zone is off, or two."""
        return max(2, 2 * _HOURS_OF_DAY // self.count) if self.unit == "hours" else 2

    def slices_in(self, span_ms: int) -> int:
        """How many periods a time span of this length touches at most, if clocks skip at most an hour in four
        weeks.
        """
        hours_skipped = span_ms // _LEAST_MS_BETWEEN_JUMPS + 1
        least_ms = self.count * _LEAST_HOURS[self.unit] * _HOUR_MS
        return (span_ms + hours_skipped * _HOUR_MS) // least_ms + 2

    def start(self, number: int) -> int:
        """The first millisecond of a period; the period ends at `start(number + 1)`."""
        if self.unit == "hours":
            return self._first_instant(*divmod(number * self.count, _HOURS_OF_DAY))
        return self._first_instant(self._first_day_of(number), 0)

    def number(self, time_ms: int) -> int:
        """The period that holds a time: the greatest number whose period starts at or before it."""
        number = self.number_in_utc(time_ms)
        while self.start(number) > time_ms:
            number -= 1
        while self.start(number + 1) <= time_ms:
            number += 1
        return number

    def number_in_utc(self, time_ms: int) -> int:
        """The period if the zone were UTC: at most `most_periods_off` off."""
        if self.unit == "hours":
            return time_ms // (self.count * _HOUR_MS)
        day = time_ms // DAY_MS
        if self.unit == "months":
            cycle, day_of_cycle = divmod(day + _EPOCH_ORDINAL - 1, _DAYS_OF_CYCLE)
            local_date = date.fromordinal(day_of_cycle + 1)
            month = cycle * _YEARS_OF_CYCLE * _MONTHS_OF_YEAR + _month_number(local_date)
            if local_date.day < min(self.origin.day, _days_in(month)):
                month -= 1
            return (month - _month_number(self.origin)) // self.count
        return (day - _day_number(self.origin)) // self._days_of_period

    @property
    def _days_of_period(self) -> int:
        return self.count * (7 if self.unit == "weeks" else 1)

    def _first_day_of(self, number: int) -> int:
        """The first date of a period, as days since 1970-01-01: of months the origin's day of the month, or
        the last one of a shorter month.
        """
        if self.unit != "months":
            return _day_number(self.origin) + number * self._days_of_period
        month = _month_number(self.origin) + number * self.count
        cycle, month_of_cycle = divmod(month + 1969 * _MONTHS_OF_YEAR, _YEARS_OF_CYCLE * _MONTHS_OF_YEAR)
        year, month_of_year = divmod(month_of_cycle, _MONTHS_OF_YEAR)
        first_date = date(year + 1, month_of_year + 1, min(self.origin.day, _days_in(month)))
        return _day_number(first_date) + cycle * _DAYS_OF_CYCLE

    def _first_instant(self, day: int, hour: int) -> int:
        """The first instant at which the zone's clocks show a date and hour or a later one."""
        if not _FIRST_ZONED_DAY <= day <= _LAST_ZONED_DAY:
            return day * DAY_MS + hour * _HOUR_MS
        local_time = datetime.fromordinal(day + _EPOCH_ORDINAL).replace(hour=hour)
        earlier, later = (_milliseconds(local_time.replace(tzinfo=self._zone, fold=fold)) for fold in (0, 1))
        # Python reads a time that clocks skip by the offset before the jump (fold 0), which gives an instant
        # behind the jump, and by the offset after it (fold 1), which gives one before the jump.
        return earlier if earlier <= later else self._instant_of_jump(later, earlier, local_time)

    def _instant_of_jump(self, least: int, greatest: int, local_time: datetime) -> int:
        """The instant in (least, greatest] at which clocks jump over `local_time`."""
        while greatest - least > 1:
            middle = (least + greatest) // 2
            local = (_EPOCH + timedelta(milliseconds=middle)).astimezone(self._zone).replace(tzinfo=None)
            least, greatest = (least, middle) if local >= local_time else (middle, greatest)
        return greatest


@lru_cache
def zone_named(name: str) -> tzinfo:
    """The time zone, from this machine's database or the package `tzdata`; or a ConfigurationError."""
    import zoneinfo  # which reads how this Python was built: for those that name a zone

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError, TypeError) as error:
        raise ConfigurationError(
            f"The time zone {name!r} is not known here; name one of the IANA database, such as "
            "'Europe/Berlin' or 'America/New_York' (zoneinfo.available_timezones() lists them), or bring the "
            "newest database with `pip install --upgrade tzdata`."
        ) from error


def _milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _day_number(day: date) -> int:
    """Days since 1970-01-01."""
    return day.toordinal() - _EPOCH_ORDINAL


def _month_number(day: date) -> int:
    """Months since January 1970."""
    return (day.year - 1970) * _MONTHS_OF_YEAR + day.month - 1


def _days_in(month: int) -> int:
    """The days of a month, given as months since January 1970."""
    years, month_of_year = divmod(month, _MONTHS_OF_YEAR)
    return monthrange((1970 + years - 1) % _YEARS_OF_CYCLE + 1, month_of_year + 1)[1]
