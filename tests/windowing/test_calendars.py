"""The hours, days, weeks and months of time zones, by hand: when clocks change stands in the zones' laws, not
in our code. Every period holds the instants whose local date and hour are its own, asked of zoneinfo one by
one.
"""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from dateutil.relativedelta import relativedelta
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing import CalendarEventTimeWindows, TimeWindow
from slackwater.windowing.calendars import UNITS, WEEKDAYS, Calendar
from slackwater.windowing.columnar.numbered_windows import CalendarWindows
from slackwater.windowing.errors import ConfigurationError, MissingTimestampError
from slackwater.windowing.java import LONG_MIN

HOUR_MS = 3_600_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",  # half an hour
    "Asia/Kathmandu",  # 5 h 45 min
    "Pacific/Apia",  # no 2011-12-30
    "America/Sao_Paulo",  # skipped midnight
    "America/Havana",  # midnight twice
    "America/St_Johns",  # clocks went back at 00:01
]


def ms(text: str) -> int:
    """Milliseconds of a time in UTC."""
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)


def window(assigner: CalendarEventTimeWindows, text: str) -> TimeWindow:
    """The one window of a time in UTC, of both ways to ask."""
    [plain] = assigner.assign_windows(None, ms(text), None)
    [bound] = assigner.bind(None)(None, ms(text))
    assert plain == bound
    return plain


@pytest.mark.parametrize(
    ("zone", "time", "start", "end", "hours"),
    [
        ("Europe/Berlin", "2025-03-30T12:00", "2025-03-29T23:00", "2025-03-30T22:00", 23),
        ("Europe/Berlin", "2025-10-26T12:00", "2025-10-25T22:00", "2025-10-26T23:00", 25),
        ("Europe/Berlin", "2025-01-15T00:00", "2025-01-14T23:00", "2025-01-15T23:00", 24),
        ("America/New_York", "2025-03-09T12:00", "2025-03-09T05:00", "2025-03-10T04:00", 23),
        ("America/New_York", "2025-11-02T12:00", "2025-11-02T04:00", "2025-11-03T05:00", 25),
        ("Australia/Lord_Howe", "2025-04-05T20:00", "2025-04-05T13:00", "2025-04-06T13:30", 24.5),
        ("Australia/Lord_Howe", "2025-10-05T00:00", "2025-10-04T13:30", "2025-10-05T13:00", 23.5),
        ("Asia/Kathmandu", "2025-06-01T18:15", "2025-06-01T18:15", "2025-06-02T18:15", 24),
        ("Pacific/Apia", "2011-12-30T09:59:59.999", "2011-12-29T10:00", "2011-12-30T10:00", 24),
        ("Pacific/Apia", "2011-12-30T10:00", "2011-12-30T10:00", "2011-12-31T10:00", 24),
        ("America/Sao_Paulo", "2018-11-04T12:00", "2018-11-04T03:00", "2018-11-05T02:00", 23),
        ("America/Sao_Paulo", "2018-02-18T01:30", "2018-02-17T02:00", "2018-02-18T03:00", 25),
        ("America/Havana", "2025-11-02T12:00", "2025-11-02T04:00", "2025-11-03T05:00", 25),
        # Midnight of 1 November comes twice; the hour between belongs to the day that has begun.
        ("America/St_Johns", "2009-11-01T02:45", "2009-11-01T02:30", "2009-11-02T03:30", 25),
    ],
)
def test_a_day_has_the_hours_that_its_clocks_give_it(
    zone: str, time: str, start: str, end: str, hours: float
) -> None:
    day = window(CalendarEventTimeWindows.days(zone), time)
    assert day == TimeWindow(ms(start), ms(end))
    assert day.end - day.start == hours * HOUR_MS


def test_a_week_begins_on_its_first_day() -> None:
    weeks = CalendarEventTimeWindows.weeks
    assert window(weeks("Europe/Berlin"), "2025-03-30T12:00") == (
        ms("2025-03-23T23:00"),
        ms("2025-03-30T22:00"),
    )
    on_sunday = window(weeks("America/New_York", first_day="sunday"), "2025-03-09T12:00")
    assert on_sunday == (ms("2025-03-09T05:00"), ms("2025-03-16T04:00"))
    # A Friday that the zone skipped begins when Saturday does; the week has six days.
    on_friday = window(weeks("Pacific/Apia", first_day="friday"), "2011-12-30T10:00")
    assert on_friday == (ms("2011-12-30T10:00"), ms("2012-01-05T10:00"))


@pytest.mark.parametrize(
    ("month", "start", "end", "hours"),
    [
        ("2024-02-15", "2024-01-31T23:00", "2024-02-29T23:00", 29 * 24),
        ("2025-02-15", "2025-01-31T23:00", "2025-02-28T23:00", 28 * 24),
        ("2025-03-15", "2025-02-28T23:00", "2025-03-31T22:00", 31 * 24 - 1),
        ("2025-04-15", "2025-03-31T22:00", "2025-04-30T22:00", 30 * 24),
        ("2025-10-15", "2025-09-30T22:00", "2025-10-31T23:00", 31 * 24 + 1),
    ],
)
def test_a_month_has_28_to_31_days(month: str, start: str, end: str, hours: int) -> None:
    [found] = {
        window(CalendarEventTimeWindows.months("Europe/Berlin"), f"{month}T{at}:00") for at in (10, 20)
    }
    assert found == TimeWindow(ms(start), ms(end))
    assert found.end - found.start == hours * HOUR_MS


@pytest.mark.parametrize(
    ("zone", "count", "time", "start", "end", "hours"),
    [
        ("Europe/Berlin", 1, "2025-03-30T01:30", "2025-03-30T01:00", "2025-03-30T02:00", 1),
        (
            "Europe/Berlin",
            1,
            "2025-10-26T00:30",
            "2025-10-26T00:00",
            "2025-10-26T02:00",
            2,
        ),  # two o'clock, twice
        ("Europe/Berlin", 1, "2025-10-26T01:30", "2025-10-26T00:00", "2025-10-26T02:00", 2),
        ("Australia/Lord_Howe", 1, "2025-04-05T15:10", "2025-04-05T14:00", "2025-04-05T15:30", 1.5),
        ("Australia/Lord_Howe", 1, "2025-10-04T15:40", "2025-10-04T15:30", "2025-10-04T16:00", 0.5),
        ("Asia/Kathmandu", 1, "2025-06-01T18:15", "2025-06-01T18:15", "2025-06-01T19:15", 1),
        ("Europe/Berlin", 6, "2025-03-30T01:30", "2025-03-29T23:00", "2025-03-30T04:00", 5),
        ("Europe/Berlin", 6, "2025-10-26T04:59", "2025-10-25T22:00", "2025-10-26T05:00", 7),
        ("America/New_York", 12, "2025-03-09T15:59", "2025-03-09T05:00", "2025-03-09T16:00", 11),
    ],
)
def test_hours_are_those_that_clocks_show(
    zone: str, count: int, time: str, start: str, end: str, hours: float
) -> None:
    hour = window(CalendarEventTimeWindows.hours(zone, count), time)
    assert hour == TimeWindow(ms(start), ms(end))
    assert hour.end - hour.start == hours * HOUR_MS


BERLIN, LONDON, NEW_YORK = "Europe/Berlin", "Europe/London", "America/New_York"


@pytest.mark.parametrize(
    ("assigner", "time", "start", "end"),
    [
        # 30 March 2025 is day 20,177 since 1970, so the second of two.
        (
            CalendarEventTimeWindows.days(BERLIN, 2),
            "2025-03-30T12:00",
            "2025-03-28T23:00",
            "2025-03-30T22:00",
        ),
        (
            CalendarEventTimeWindows.days(BERLIN, 10, since=date(2025, 3, 25)),
            "2025-03-24T22:59",
            "2025-03-14T23:00",
            "2025-03-24T23:00",
        ),
        (
            CalendarEventTimeWindows.weeks(NEW_YORK, "sunday", 2, since=date(2025, 3, 9)),
            "2025-03-20",
            "2025-03-09T05:00",
            "2025-03-23T04:00",
        ),
        (
            CalendarEventTimeWindows.months(BERLIN, since=date(2024, 1, 31)),
            "2024-03-01",
            "2024-02-28T23:00",
            "2024-03-30T23:00",
        ),
        (
            CalendarEventTimeWindows.months(BERLIN, since=date(2024, 1, 31)),
            "2023-02-27T22:59",
            "2023-01-30T23:00",
            "2023-02-27T23:00",
        ),
        (CalendarEventTimeWindows.months(BERLIN, 2), "2025-04-15", "2025-02-28T23:00", "2025-04-30T22:00"),
        (CalendarEventTimeWindows.quarters(BERLIN), "2025-03-15", "2024-12-31T23:00", "2025-03-31T22:00"),
        (CalendarEventTimeWindows.years(NEW_YORK), "2025-07-01", "2025-01-01T05:00", "2026-01-01T05:00"),
        (  # a British tax year
            CalendarEventTimeWindows.years(LONDON, since=date(2024, 4, 6)),
            "2025-04-05T22:59",
            "2024-04-05T23:00",
            "2025-04-05T23:00",
        ),
    ],
)
def test_several_units_are_counted_from_a_date(
    assigner: CalendarEventTimeWindows, time: str, start: str, end: str
) -> None:
    assert window(assigner, time) == TimeWindow(ms(start), ms(end))


def period_of(local: datetime, calendar: Calendar) -> object:
    """What tells the period of a local time from others, by other means than the calendar's."""
    day, since = local.date(), calendar.since or date(1970, 1, 1)
    if calendar.unit == "hours":
        return day, local.hour // calendar.count
    if calendar.unit == "months":
        months = relativedelta(day, since).months + 12 * relativedelta(day, since).years
        nearby = range(months - 2, months + 2)
        number = max(n for n in nearby if since + relativedelta(months=n) <= day)
        return number // calendar.count
    if calendar.unit == "weeks" and calendar.since is None:
        since -= timedelta(days=(since.weekday() - WEEKDAYS.index(calendar.first_day)) % 7)
    return (day - since).days // (calendar.count * (7 if calendar.unit == "weeks" else 1))


TIMES = st.integers(ms("1900-01-01"), ms("2100-01-01"))
NEAR_CHANGES = st.builds(
    lambda text, off: ms(text) + off,
    st.sampled_from(["2025-03-30", "2025-11-02", "2011-12-30", "2018-11-04", "2009-11-01", "2025-04-05"]),
    st.integers(-30 * HOUR_MS, 30 * HOUR_MS),
)


@st.composite
def calendars(draw):
    unit, first_day = draw(st.sampled_from(UNITS)), draw(st.sampled_from(WEEKDAYS))
    count = draw(st.sampled_from([1, 2, 3, 6, 12, 24] if unit == "hours" else [1, 1, 2, 3, 5, 12]))
    since = None if unit == "hours" else draw(st.none() | st.dates(date(1960, 1, 1), date(2040, 1, 1)))
    if unit == "weeks" and since is not None:
        first_day = WEEKDAYS[since.weekday()]
    return Calendar(draw(st.sampled_from(ZONES)), unit, first_day, count, since)


@pytest.mark.slow
@settings(max_examples=600)
@given(calendars(), st.lists(st.one_of(TIMES, NEAR_CHANGES), min_size=1, max_size=8))
def test_a_period_holds_the_instants_of_its_dates_on_columns_too(calendar, times):
    windows = CalendarWindows(calendar, 7)
    numbers = windows.slices(np.array(times))
    starts, ends = windows.starts(numbers).tolist(), windows.ends(numbers).tolist()
    assert windows.numbers(np.array(ends)).tolist() == numbers.tolist()
    assigner = CalendarEventTimeWindows(
        **{name: getattr(calendar, name) for name in ("zone", "unit", "first_day", "count", "since")}
    )
    assert [window for time in times for window in assigner.bind(None)(None, time)] == list(
        map(TimeWindow, starts, ends)
    )
    for time, number, start, end in zip(times, numbers.tolist(), starts, ends, strict=True):
        assert start <= time < end
        assert [windows.newest_passed(end - 1), windows.newest_passed(end - 2)] >= [number, number - 1]
        assert windows.newest_passed(end - 2) == number - 1
        assert end - start <= calendar.longest_ms
        if calendar.zone != "America/St_Johns":  # where the date of an instant may be that of the day before
            of_time, of_start, before = (
                period_of((EPOCH + timedelta(milliseconds=at)).astimezone(ZoneInfo(calendar.zone)), calendar)
                for at in (time, start, start - 1)
            )
            assert before < of_start == of_time


def test_times_millennia_apart_need_no_table_of_all_days_between() -> None:
    windows = CalendarWindows(Calendar("Europe/Berlin", "days"), 0)
    times = np.array([ms("0001-01-03"), ms("2025-07-01"), ms("9999-12-30")])
    numbers = windows.slices(times)
    assert (windows.starts(numbers) <= times).all() and (times < windows.ends(numbers)).all()
    assert windows.newest_passed(LONG_MIN) < numbers.min() <= numbers.max() < windows.newest_passed(2**63 - 1)


@pytest.mark.parametrize("zone", ["Europe/Bärlin", "", "../etc", "Europe", 5])
def test_a_zone_that_is_not_known_is_refused_at_its_declaration(zone) -> None:
    with pytest.raises(ConfigurationError, match=r"time zone .* is not known here; .* tzdata"):
        CalendarEventTimeWindows.days(zone)


def test_units_and_weekdays_are_checked() -> None:
    with pytest.raises(ConfigurationError, match="it is one of hours, days, weeks, months"):
        CalendarEventTimeWindows(zone="UTC", unit="years")
    with pytest.raises(ConfigurationError, match="it is one of monday, "):
        CalendarEventTimeWindows.weeks("UTC", first_day="Mon")


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        (lambda: CalendarEventTimeWindows.days("UTC", 0), "a whole number from 1 on"),
        (lambda: CalendarEventTimeWindows.days("UTC", 1.5), "a whole number from 1 on"),
        (lambda: CalendarEventTimeWindows.hours("UTC", 5), "1, 2, 3, 4, 6, 8, 12 or 24"),
        (lambda: CalendarEventTimeWindows.years("UTC", "2024-04-01"), r"such as date\(2024, 4, 1\)"),
        (
            lambda: CalendarEventTimeWindows.days("UTC", since=datetime(2024, 4, 1, tzinfo=UTC)),
            r"such as date\(",
        ),
        (
            lambda: CalendarEventTimeWindows.weeks("UTC", since=date(2024, 4, 2)),
            "2024-04-02, a tuesday, but the first day of the weeks is monday",
        ),
        (
            lambda: CalendarEventTimeWindows(zone="UTC", unit="hours", since=date(2024, 4, 2)),
            "begin at midnight of every day; leave since out",
        ),
    ],
)
def test_counts_and_dates_that_no_period_has_are_refused(wrong, advice: str) -> None:
    with pytest.raises(ConfigurationError, match=advice):
        wrong()


def test_an_element_without_a_timestamp_is_refused() -> None:
    for assign in (CalendarEventTimeWindows.days("UTC").bind(None),):
        with pytest.raises(MissingTimestampError):
            assign(None, LONG_MIN)
