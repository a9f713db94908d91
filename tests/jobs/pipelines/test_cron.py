"""Times of cron expressions: by hand, and as croniter has them, by which Airflow schedules."""

from datetime import UTC, datetime, timedelta

import pytest

from slackwater.jobs.pipelines.cron import PRESETS, Cron, NotACron


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "moment", "next_time"),
    [
        ("@daily", "2013-01-01 00:00", "2013-01-02 00:00"),
        ("@daily", "2013-01-01 23:59:59.999", "2013-01-02 00:00"),
        ("@hourly", "2013-12-31 23:30", "2014-01-01 00:00"),
        ("30 2 * * 1-5", "2013-01-04 02:30", "2013-01-07 02:30"),  # a Friday, the next Monday
        ("0 0 29 2 *", "2013-01-01 00:00", "2016-02-29 00:00"),
        ("0 0 13 * fri", "2013-09-12 12:00", "2013-09-13 00:00"),  # the 13th or a Friday: both
        ("0 0 13 * fri", "2013-09-13 12:00", "2013-09-20 00:00"),  # the next Friday, no 13th
        ("*/20 6,18 * jan *", "2013-01-31 18:40", "2014-01-01 06:00"),
        ("0 0 * * 7", "2013-01-01 00:00", "2013-01-06 00:00"),  # 7 is Sunday as well
    ],
)
def test_the_next_time_is_after_the_moment(expression: str, moment: str, next_time: str) -> None:
    assert Cron.parse(expression).next_after(at(moment)) == at(next_time)


@pytest.mark.parametrize(
    "expression",
    [
        *PRESETS,
        "*/7 * * * *",
        "5 4 * * sun",
        "0 22 * * 1-5",
        "0 0,12 1 */2 *",
        "15 3-9/3 10-20 * mon",
        "1/9 0 * * *",
    ],
)
def test_times_are_those_of_croniter(expression: str) -> None:
    croniter = pytest.importorskip("croniter").croniter
    moment, cron = at("2013-01-01 05:17"), Cron.parse(expression)
    theirs = croniter(PRESETS.get(expression, expression), moment)
    for _ in range(40):
        moment = cron.next_after(moment) or moment
        assert moment == theirs.get_next(datetime)


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "daily",
        "@once",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "0 0 L * *",
        "0 0 * * 5#2",
        "0 0 31-1 * *",
        "*/0 * * * *",
        "a * * * *",
        "1- * * * *",
        "*/ * * * *",
    ],
)
def test_what_is_not_read_here_is_refused(expression: str) -> None:
    with pytest.raises(NotACron):
        Cron.parse(expression)


def test_a_day_that_never_comes_has_no_next_time() -> None:
    assert Cron.parse("0 0 31 2 *").next_after(at("2013-01-01 00:00")) is None
    assert Cron.parse("@daily").next_after(at("2013-01-01 00:00") - timedelta(microseconds=1)) == at(
        "2013-01-01 00:00"
    )
