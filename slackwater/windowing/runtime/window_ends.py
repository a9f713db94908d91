"""When a window ends and when it is collected, in milliseconds.

[start ───────────── end) · · · allowed lateness · · · ┤
             last instant = end − 1                    cleanup time

cleanup time = min(last instant + allowed lateness, Long.MAX)   in event time; Long.MAX is never
             = last instant                                     in processing time
"""

from __future__ import annotations

from typing import Any, Final

from slackwater.windowing.java import LONG_MAX
from slackwater.windowing.runtime.internal_timer_service import InternalTimerService
from slackwater.windowing.windows import Window

_CACHED_WINDOWS: Final = 4096


class WindowEnds(dict[Window, tuple[int, int]]):
    """`ends[window]` is (last instant, cleanup time). A dict, so a window that repeats costs no call."""

    def __init__(self, *, is_event_time: bool, allowed_lateness_ms: int) -> None:
        super().__init__()
        self.is_event_time = is_event_time
        self._lateness_ms = allowed_lateness_ms if is_event_time else 0

    def __missing__(self, window: Window) -> tuple[int, int]:
        if len(self) >= _CACHED_WINDOWS:
            self.clear()
        last_instant = window.max_timestamp()
        ends = self[window] = (last_instant, min(last_instant + self._lateness_ms, LONG_MAX))
        return ends

    def cleanup_time(self, window: Window) -> int:
        return self[window][1]


def delete_cleanup_timer(timers: InternalTimerService, ends: WindowEnds, key: Any, window: Window) -> None:
    cleanup = ends.cleanup_time(window)
    if cleanup != LONG_MAX:
        if ends.is_event_time:
            timers.delete_event_time_timer(cleanup, key, window)
        else:
            timers.delete_processing_time_timer(cleanup, key, window)
