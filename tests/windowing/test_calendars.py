"""The days, weeks and months of time zones, by hand: when clocks change stands in the zones' laws, not in our
code. Every period holds the instants whose local date is its own, asked of zoneinfo one by one.
"""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
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


def first_date(day: date, unit: str, first_day: str) -> date:
    """The first date of the period of a date."""
    if unit == "months":
        return day.replace(day=1)
    back = (day.weekday() - WEEKDAYS.index(first_day)) % 7 if unit == "weeks" else 0
    return day - timedelta(days=back)


TIMES = st.integers(ms("1900-01-01"), ms("2100-01-01"))
NEAR_CHANGES = st.builds(
    lambda text, off: ms(text) + off,
    st.sampled_from(["2025-03-30", "2025-11-02", "2011-12-30", "2018-11-04", "2009-11-01", "2025-04-05"]),
    st.integers(-30 * HOUR_MS, 30 * HOUR_MS),
)


@pytest.mark.slow
@settings(max_examples=300)
@given(
    st.sampled_from(ZONES),
    st.sampled_from(UNITS),
    st.sampled_from(WEEKDAYS),
    st.lists(st.one_of(TIMES, NEAR_CHANGES), min_size=1, max_size=8),
)
def test_a_period_holds_the_instants_of_its_dates_on_columns_too(zone, unit, first_day, times):
    calendar = Calendar(zone, unit, first_day)
    windows = CalendarWindows(calendar, 7)
    numbers = windows.slices(np.array(times))
    starts, ends = windows.starts(numbers).tolist(), windows.ends(numbers).tolist()
    assert windows.numbers(np.array(ends)).tolist() == numbers.tolist()
    assigner = CalendarEventTimeWindows(zone=zone, unit=unit, first_day=first_day)
    assert [window for time in times for window in assigner.bind(None)(None, time)] == list(
        map(TimeWindow, starts, ends)
    )
    for time, number, start, end in zip(times, numbers.tolist(), starts, ends, strict=True):
        assert start <= time < end
        assert [windows.newest_passed(end - 1), windows.newest_passed(end - 2)] >= [number, number - 1]
        assert windows.newest_passed(end - 2) == number - 1
        local = (EPOCH + timedelta(milliseconds=time)).astimezone(ZoneInfo(zone)).date()
        of_start = (EPOCH + timedelta(milliseconds=start)).astimezone(ZoneInfo(zone)).date()
        before = (EPOCH + timedelta(milliseconds=start - 1)).astimezone(ZoneInfo(zone)).date()
        assert before < of_start or zone == "America/St_Johns"
        if zone != "America/St_Johns":  # where the date of an instant may be that of the day before
            assert first_date(local, unit, first_day) == first_date(of_start, unit, first_day)


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
    with pytest.raises(ConfigurationError, match="it is one of days, weeks, months"):
        CalendarEventTimeWindows(zone="UTC", unit="years")
    with pytest.raises(ConfigurationError, match="it is one of monday, "):
        CalendarEventTimeWindows.weeks("UTC", first_day="Mon")


def test_an_element_without_a_timestamp_is_refused() -> None:
    for assign in (CalendarEventTimeWindows.days("UTC").bind(None),):
        with pytest.raises(MissingTimestampError):
            assign(None, LONG_MIN)
