"""Two days of the month that has a run each quarter of an hour, and that logs which grow are reported."""

from pathlib import Path

import pytest

from tests.campaigns.quarter_hours import LogSizes, excesses, month_in


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_logs_take_no_more_for_each_of_many_runs_than_for_each_of_few(tmp_path: Path) -> None:
    one_day, two_days = month_in(tmp_path, 192)
    assert (one_day.runs, two_days.runs) == (96, 192)
    assert excesses(one_day) + excesses(two_days) == []
    assert two_days.of_attempts < 1.1 * one_day.of_attempts
    assert two_days.of_all < 1.1 * one_day.of_all


def test_logs_that_take_too_much_are_reported() -> None:
    assert excesses(LogSizes(100, {"attempts": 1_000_000, "runs": 5_000_000})) == []
    assert excesses(LogSizes(100, {"attempts": 1_000_100, "runs": 5_000_000})) == [
        "after 100 runs the log of `attempts` takes 10,001 bytes a run, more than 10,000",
        "after 100 runs the log of all tables takes 60,001 bytes a run, more than 60,000",
    ]
