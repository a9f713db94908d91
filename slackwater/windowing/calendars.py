"""The days, weeks and months of a time zone as half-open intervals of UTC milliseconds.

    Europe/Berlin      Sat 29 March        Sun 30 March         Mon 31 March 2025
                    ├──────── 24 h ────┼─────── 23 h ──────┼──────── 24 h ────┤
    UTC            28, 23:00          29, 23:00           30, 22:00          31, 22:00

A period begins at the first instant at which the zone's clocks show its first date or a later one:

- where clocks skip midnight, at the instant of the jump;
- where they show midnight twice, at the first; what they then repeat of the day before belongs to the new
day;
- a date that the zone skipped (Pacific/Apia, 2011-12-30) begins when the next one does: an empty interval.

So the intervals follow each other without gap and overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, Literal, TypeAlias, get_args

from slackwater.windowing.errors import ConfigurationError

Unit: TypeAlias = Literal["days", "weeks", "months"]
Weekday: TypeAlias = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]

UNITS: Final[tuple[Unit, ...]] = get_args(Unit)
WEEKDAYS: Final[tuple[Weekday, ...]] = get_args(Weekday)

DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_EPOCH_WEEKDAY: Final = 3  # a Thursday, counted from Monday
_MOST_DAYS: Final = {"days": 1, "weeks": 7, "months": 31}
_LEAST_DAYS: Final = {"days": 1, "weeks": 7, "months": 28}
# `datetime` counts years 1 to 9999, in UTC and in the zone; a year less at both ends fits in either.
_FIRST_ZONED_DAY: Final = date(2, 1, 1).toordinal() - _EPOCH_ORDINAL
_LAST_ZONED_DAY: Final = date(9998, 12, 31).toordinal() - _EPOCH_ORDINAL
_YEARS_OF_CYCLE, _DAYS_OF_CYCLE = 400, 146_097  # after which the Gregorian calendar repeats itself


@dataclass(frozen=True)
class Calendar:
    """The periods of one unit in one zone, numbered without gaps; number 0 holds the local date 1970-01-01.

    Days before year 2 and after year 9998 are UTC days. Attributes, errors: see CalendarEventTimeWindows.
    """

    zone: str
    unit: Unit
    first_day: Weekday = "monday"
    _zone: tzinfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for value, choices, subject in (
            (self.unit, UNITS, "The unit of a calendar"),
            (self.first_day, WEEKDAYS, "The first day of a week"),
        ):
            if value not in choices:
                raise ConfigurationError(f"{subject} is {value!r}; it is one of {', '.join(choices)}.")
        object.__setattr__(self, "_zone", zone_named(self.zone))

    @property
    def longest_ms(self) -> int:
        """Upper bound of a period's length in ms: the most days, plus an hour that clocks repeat. Only zones
        that crossed the date line have had longer ones.
        """
        return _MOST_DAYS[self.unit] * DAY_MS + _HOUR_MS

    @property
    def most_windows(self) -> int:
        return 1

    def slices_in(self, span_ms: int) -> int:
        """How many periods a time span of this length touches at most, if clocks skip at most an hour."""
        return span_ms // (_LEAST_DAYS[self.unit] * DAY_MS - _HOUR_MS) + 2

    def start(self, number: int) -> int:
        """The first millisecond of a period; the period ends at `start(number + 1)`."""
        return self._start_of_day(self._first_day_of(number))

    def number(self, time_ms: int) -> int:
        """The period that holds a time: the greatest number whose period starts at or before it."""
        number = self.number_in_utc(time_ms)
        while self.start(number) > time_ms:
            number -= 1
        while self.start(number + 1) <= time_ms:
            number += 1
        return number

    def number_in_utc(self, time_ms: int) -> int:
        """The period if the zone were UTC: at most two off for days, one for weeks and months."""
        day = time_ms // DAY_MS
        if self.unit == "months":
            cycle, day_of_cycle = divmod(day + _EPOCH_ORDINAL - 1, _DAYS_OF_CYCLE)
            local_time = date.fromordinal(day_of_cycle + 1)
            return (cycle * _YEARS_OF_CYCLE + local_time.year - 1970) * 12 + local_time.month - 1
        return day if self.unit == "days" else (day + _EPOCH_WEEKDAY - WEEKDAYS.index(self.first_day)) // 7

    def _first_day_of(self, number: int) -> int:
        """The first date of a period, as days since 1970-01-01."""
        if self.unit == "days":
            return number
        if self.unit == "weeks":
            return 7 * number - _EPOCH_WEEKDAY + WEEKDAYS.index(self.first_day)
        years, month = divmod(number, 12)
        cycle, year = divmod(1970 + years - 1, _YEARS_OF_CYCLE)
        return date(year + 1, month + 1, 1).toordinal() + cycle * _DAYS_OF_CYCLE - _EPOCH_ORDINAL

    def _start_of_day(self, day: int) -> int:
        """The first instant at which the zone's clocks show a date or a later one."""
        if not _FIRST_ZONED_DAY <= day <= _LAST_ZONED_DAY:
            return day * DAY_MS
        local_time = datetime.fromordinal(day + _EPOCH_ORDINAL)
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
