"""The times of a schedule: cron expressions of five fields and presets such as ``@daily``, by the clocks of a
time zone, as Airflow reads them.

    ┌ minute ┌ hour ┌ day of the month ┌ month ┌ day of the week (0 or 7 is Sunday)
    30       2      *                  *       1-5          at 02:30 from Monday to Friday

A field is ``*``, a number, a range ``a-b``, either of these with a step ``/n``, or several of them separated
by commas; months and days of the week have names. Where both days are restricted, a day that fulfils either
counts. Extensions of other readers (seconds, ``L``, ``#``) are not read here. Standard library only.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

PRESETS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# Least and greatest value of each field, and the names that stand for its values.
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, start=1)}),
    (0, 7, {name: number for number, name in enumerate(_DAYS)}),
)
_ANY = "*"
_HOURS_OF_DAY, _MINUTES_OF_DAY = 24, 24 * 60
# 29 February comes at least every eight years.
_LONGEST = timedelta(days=8 * 366 + 1)


class NotACron(ValueError):
    """An expression that is none, or uses an extension that is not read here."""


@dataclass(frozen=True)
class Cron:
    """The times at which a cron expression fires.

    Attributes:
        minutes, hours, month_days, months, week_days: the values of the five fields; Sunday is 0.
        either_day: whether both days are restricted, so that a day that fulfils either counts.
        zone: whose clocks count, see `instant_of`. Where every hour counts, one that they show twice counts
            twice.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    month_days: frozenset[int]
    months: frozenset[int]
    week_days: frozenset[int]
    either_day: bool
    zone: tzinfo = UTC

    @classmethod
    def parse(cls, expression: str, zone: tzinfo = UTC) -> "Cron":
        """The times of a cron expression or preset by the clocks of `zone`.

        Raises:
            NotACron: it can't be read.
        """
        text = PRESETS.get(expression.strip().lower(), expression)
        fields = text.split()
        if len(fields) != len(_FIELDS):
            raise NotACron(f"{expression!r}: there are {len(fields)} fields, and five are read here")
        minutes, hours, month_days, months, week_days = (
            _values(field, *kind) for field, kind in zip(fields, _FIELDS, strict=True)
        )
        return cls(
            tuple(sorted(minutes)),
            tuple(sorted(hours)),
            month_days,
            months,
            frozenset(day % 7 for day in week_days),
            either_day=_ANY not in (fields[2], fields[4]),
            zone=zone,
        )

    def next_after(self, moment: datetime) -> datetime | None:
        """The first time after `moment`, of UTC; None where there is none, as on 31 February."""
        moment = moment.astimezone(UTC)
        if len(self.hours) == _HOURS_OF_DAY and (time := self._next_within_a_day(moment)) is not None:
            return time
        clock = moment.astimezone(self.zone).replace(second=0, microsecond=0, tzinfo=None, fold=0)
        day = clock.replace(hour=0, minute=0)
        while day - clock < _LONGEST:
            if self._is_day(day):
                for hour in self.hours:
                    for minute in self.minutes:
                        time = day.replace(hour=hour, minute=minute)
                        instant = instant_of(time, self.zone)
                        if time >= clock and instant > moment:
                            return instant
            day += timedelta(days=1)
        return None

    def _next_within_a_day(self, moment: datetime) -> datetime | None:
        """The next minute within a day, by what clocks show then."""
        minute = moment.replace(second=0, microsecond=0)
        for _ in range(_MINUTES_OF_DAY):
            minute += timedelta(minutes=1)
            clock = minute.astimezone(self.zone)
            if clock.minute in self.minutes and self._is_day(clock):
                return minute
        return None

    def _is_day(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        is_month_day = day.day in self.month_days
        is_week_day = day.isoweekday() % 7 in self.week_days
        return is_month_day or is_week_day if self.either_day else is_month_day and is_week_day


def instant_of(clock: datetime, zone: tzinfo) -> datetime:
    """The instant, of UTC, at which clocks of a zone show a naive time. One that they skip is as much later,
    and of one that they show twice it is the second, as for Airflow.
    """
    return max(clock.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))


def _values(field: str, least: int, greatest: int, names: dict[str, int]) -> frozenset[int]:
    """The values of one field."""
    values: set[int] = set()
    for item in field.lower().split(","):
        span, _, step = item.partition("/")
        first, dash, last = span.partition("-")
        if span == _ANY:
            low, high = least, greatest
        else:
            low = _number(first, field, names)
            high = _number(last, field, names) if dash else greatest if step else low
        if not least <= low <= high <= greatest:
            raise NotACron(f"{item!r} is not within {least}-{greatest}")
        values.update(range(low, high + 1, _step(step, item)))
    return frozenset(values)


def _step(text: str, item: str) -> int:
    if "/" not in item:
        return 1
    if not text.isdecimal() or int(text) == 0:
        raise NotACron(f"{item!r}: the step {text!r} is no number")
    return int(text)


def _number(text: str, field: str, names: dict[str, int]) -> int:
    if text in names:
        return names[text]
    if not text.isdecimal():
        raise NotACron(f"{field!r}: {text!r} is no number, and no name that is read here")
    return int(text)
