"""Data intervals of a time zone, as Airflow cuts them, are what runs take for the schedule and for slices."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from airflow.exceptions import AirflowTimetableInvalid
from airflow.timetables.interval import CronDataIntervalTimetable
from pendulum import DateTime

from slackwater.pipelines.cron import PRESETS, Cron, NotACron
from slackwater.runs.staging.slices import Cuts
from slackwater.windowing.times import to_datetime, to_ms

# Days before clocks change.
DAYS = {
    "Europe/Berlin": ["2025-03-28", "2025-10-24"],
    "America/New_York": ["2025-03-07", "2025-11-01"],
    "Pacific/Auckland": ["2025-04-04", "2025-09-26"],
    "Asia/Kathmandu": ["2025-03-28"],  # where they never do
}


def last_end(timetable: CronDataIntervalTimetable, moment: datetime) -> tuple[datetime, datetime]:
    """Airflow's newest interval that has ended at a moment, as times of Python's own."""
    interval = timetable.infer_manual_data_interval(run_after=DateTime.instance(moment))
    start, end = (datetime.fromtimestamp(time.timestamp(), tz=UTC) for time in (interval.start, interval.end))
    return start, end


@pytest.mark.parametrize(("zone", "first"), [(zone, day) for zone, days in DAYS.items() for day in days])
@pytest.mark.parametrize("expression", ["@daily", "30 2 * * *", "0 */6 * * *", "@hourly", "*/20 * * * *"])
def test_the_schedule_is_due_when_airflows_interval_ends(zone: str, expression: str, first: str) -> None:
    timetable = CronDataIntervalTimetable(expression, timezone=zone)
    start = datetime.fromisoformat(first).replace(tzinfo=UTC)
    quarters = (start + timedelta(minutes=15) * step for step in range(4 * 24 * 4))
    ends = sorted({last_end(timetable, moment)[1] for moment in quarters})
    cron = Cron(expression, ZoneInfo(zone))
    assert len(ends) > 2
    for end, following in pairwise(ends):
        assert cron.next_after(end) == following


FORMS = [
    *PRESETS,
    *("@midnight", "@DAILY", "*/7 * * * *", "1/9 0 * * *", "5 4 * * sun", "0 22 * * 1-5", "0 22-2 * * *"),
    *(
        "0 0,12 1 */2 *",
        "15 3-9/3 10-20 * mon",
        "0 0 31-1 * *",
        "0 0 * * fri-mon",
        "0 0 ? * *",
        "0 0 15w * *",
    ),
    *("0 3 L * *", "0 0 * * L5", "0 0 * * 5#2", "* * * * * 30", "0 0 * * * 0 2026", "30 2 * 3,10 *"),
]
NO_FORMS = [
    "",
    "hourly",
    "@once",
    " @daily",
    "* * * *",
    "60 * * * *",
    "0 24 * * *",
    "*/0 * * * *",
    "0 0 H * *",
]
NO_FORMS += ["0 0 * * 8", "0 0 * * 5,sat#1", "a * * * *"]


@pytest.mark.parametrize("zone", ["UTC", *DAYS])
@pytest.mark.parametrize("expression", FORMS)
def test_every_form_of_cron_that_airflow_takes_has_its_times(zone: str, expression: str) -> None:
    timetable = CronDataIntervalTimetable(expression, timezone=zone)
    timetable.validate()
    cron = Cron(expression, ZoneInfo(zone))
    firsts = [datetime.fromisoformat(day).replace(tzinfo=UTC) for day in DAYS.get(zone, ["2024-02-28"])]
    for moment in (first + timedelta(hours=7, minutes=20) * step for first in firsts for step in range(14)):
        theirs = timetable._get_next(DateTime.instance(moment))
        assert cron.next_after(moment) == datetime.fromtimestamp(theirs.timestamp(), tz=UTC), moment


@pytest.mark.parametrize("expression", NO_FORMS)
def test_what_airflow_refuses_is_no_cron(expression: str) -> None:
    with pytest.raises(AirflowTimetableInvalid):
        CronDataIntervalTimetable(expression, timezone="UTC").validate()
    with pytest.raises(NotACron):
        Cron(expression).next_after(datetime(2024, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("zone", ["UTC", *DAYS])
def test_a_slice_of_a_day_is_airflows_interval(zone: str) -> None:
    start = datetime(2025, 1, 1, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    cuts = Cuts(to_ms(start), timedelta(days=1), ZoneInfo(zone))
    timetable = CronDataIntervalTimetable("@daily", timezone=zone)
    for number in range(365):
        cut, following = to_datetime(cuts.at(number)), to_datetime(cuts.at(number + 1))
        assert last_end(timetable, following) == (cut, following)
