"""The windows of an assigner's promise `grid` as numbers: tumbling, sliding or calendar windows."""

from __future__ import annotations

from slackwater.windowing.assigners import Grid
from slackwater.windowing.calendars import Calendar
from slackwater.windowing.columnar.calendar_windows import CalendarWindows
from slackwater.windowing.columnar.fixed_windows import FixedWindows
from slackwater.windowing.columnar.numbered_windows import NumberedWindows
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK


def windows_on(
    grid: Grid | Calendar, lateness_ms: int, collected_mark: int = INITIAL_WATERMARK
) -> NumberedWindows:
    if isinstance(grid, Calendar):
        return CalendarWindows(grid, lateness_ms, collected_mark)
    return FixedWindows(*grid, lateness_ms, collected_mark)
