"""Times of cron expressions, by hand. That they are those of Airflow is tested beside its DAGs."""

from datetime import UTC, datetime, timedelta

import pytest

from slackwater.pipelines.cron import Cron, NotACron


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "moment", "next_time"),
    [
        ("@daily", "2013-01-01 00:00", "2013-01-02 00:00"),
        ("@daily", "2013-01-01 23:59:59.999", "2013-01-02 00:00"),
        ("@hourly", "2013-12-31 23:30", "2014-01-01 00:00"),
        ("@quarterly", "2013-02-01 00:00", "2013-04-01 00:00"),
        ("30 2 * * 1-5", "2013-01-04 02:30", "2013-01-07 02:30"),  # a Friday, the next Monday
        ("0 0 29 2 *", "2013-01-01 00:00", "2016-02-29 00:00"),
        ("0 0 13 * fri", "2013-09-12 12:00", "2013-09-13 00:00"),  # the 13th or a Friday: both
        ("0 0 13 * fri", "2013-09-13 12:00", "2013-09-20 00:00"),  # the next Friday, no 13th
        ("*/20 6,18 * jan *", "2013-01-31 18:40", "2014-01-01 06:00"),
        ("0 0 * * 7", "2013-01-01 00:00", "2013-01-06 00:00"),  # 7 is Sunday as well
        ("0 3 L * *", "2013-02-01 00:00", "2013-02-28 03:00"),  # the last day of the month
        ("0 0 * * 2#3", "2013-01-01 00:00", "2013-01-15 00:00"),  # the third Tuesday
        ("0 0 * * L5", "2013-01-01 00:00", "2013-01-25 00:00"),  # the last Friday
        ("0 22-2 * * *", "2013-01-01 02:00", "2013-01-01 22:00"),
        ("0 0 * * sat-mon", "2013-01-01 00:00", "2013-01-05 00:00"),
        ("0 0 ? * *", "2013-01-01 00:00", "2013-01-02 00:00"),
        ("0 4 * * * 30", "2013-01-01 04:00", "2013-01-01 04:00:30"),  # seconds are the sixth field
        ("0 4 1 1 * 0 2015", "2013-01-01 00:00", "2015-01-01 04:00"),  # and years the seventh
    ],
)
def test_the_next_time_is_after_the_moment(expression: str, moment: str, next_time: str) -> None:
    assert Cron(expression).next_after(at(moment)) == at(next_time)


@pytest.mark.parametrize("expression", ["", "daily", "@once", "60 * * * *", "*/0 * * * *", "1- * * * *"])
def test_what_is_no_cron_expression_is_refused(expression: str) -> None:
    with pytest.raises(NotACron, match="is no cron expression"):
        Cron(expression).next_after(at("2013-01-01"))


def test_a_day_that_never_comes_has_no_next_time() -> None:
    assert Cron("0 0 31 2 *").next_after(at("2013-01-01 00:00")) is None
    assert Cron("0 0 1 1 * 0 2012").next_after(at("2013-01-01 00:00")) is None
    assert Cron("@daily").next_after(at("2013-01-01 00:00") - timedelta(microseconds=1)) == at(
        "2013-01-01 00:00"
    )
