"""Data intervals of a time zone, as Airflow cuts them, are what jobs take for the schedule and for slices."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from airflow.timetables.interval import CronDataIntervalTimetable
from pendulum import DateTime

from slackwater.jobs.pipelines.cron import Cron
from slackwater.jobs.protocol.staging.slices import Cuts
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
    cron = Cron.parse(expression, ZoneInfo(zone))
    assert len(ends) > 2
    for end, following in pairwise(ends):
        assert cron.next_after(end) == following


@pytest.mark.parametrize("zone", ["UTC", *DAYS])
def test_a_slice_of_a_day_is_airflows_interval(zone: str) -> None:
    start = datetime(2025, 1, 1, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    cuts = Cuts(to_ms(start), timedelta(days=1), ZoneInfo(zone))
    timetable = CronDataIntervalTimetable("@daily", timezone=zone)
    for number in range(365):
        cut, following = to_datetime(cuts.at(number)), to_datetime(cuts.at(number + 1))
        assert last_end(timetable, following) == (cut, following)
