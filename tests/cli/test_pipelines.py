"""`slackwater pipelines` says in words what windows a pipeline has."""

from dataclasses import replace
from datetime import date, timedelta

import pytest

from slackwater.cli.pipelines import windows_text
from slackwater.windowing import (
    CalendarEventTimeWindows,
    CumulateEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from tests.runs.world import DAILY

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (TumblingEventTimeWindows.of(HOUR, HOUR / 4), "tumbling, 1 hour, offset 15 minutes"),
        (
            SlidingProcessingTimeWindows.of(HOUR, HOUR / 2),
            "sliding, 1 hour every 30 minutes, processing time",
        ),
        (CumulateEventTimeWindows.of(24 * HOUR, HOUR), "cumulative, up to 1 day by 1 hour"),
        (CalendarEventTimeWindows.days("Asia/Kathmandu"), "calendar, days of Asia/Kathmandu"),
        (
            CalendarEventTimeWindows.quarters("UTC", since=date(2024, 5, 1)),
            "calendar, 3 months of UTC, since 2024-05-01",
        ),
    ],
)
def test_windows_are_told_in_words(window: WindowAssigner, text: str) -> None:
    assert windows_text(replace(DAILY, window=window)) == text
