"""Next firings and pending timers of open windows (Flink: EventTimeTrigger, registerCleanupTimer)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Booleans, Longs, rows_where
from slackwater.windowing.columnar.timeline.timeline import NEVER, Timeline
from slackwater.windowing.columnar.window_columns import NO_TIME, OpenWindows


class Timers(NamedTuple):
    """Pending event-time timers of one purpose, one per row: "fire" at a window's last instant, "cleanup" at
    its collection, "fire+cleanup" where both coincide, "trigger" for a time that a trigger has registered.
    """

    purpose: str
    keys: Longs
    starts: Longs
    ends: Longs
    times: Longs


def timers_at_last_instants(
    windows: OpenWindows, lateness_ms: int, timeline: Timeline
) -> tuple[Longs, list[Timers]]:
    """(next firings, timers) of windows with an event-time trigger that are open at the slice's end: each
    fires at its last instant, unless that has passed, and is collected `lateness_ms` after it.
    """
    last_instants, cleanups = windows.ends - 1, windows.ends - 1 + lateness_ms
    waits = last_instants > timeline.final
    return np.where(waits, last_instants, NO_TIME), timers_of(windows, waits, last_instants, cleanups)


def timers_of(windows: OpenWindows, waits: Booleans, last_instants: Longs, cleanups: Longs) -> list[Timers]:
    """Timers for last instants of windows that wait for them, and for cleanups; none for global windows."""
    is_timed, is_one = cleanups != NEVER, last_instants == cleanups
    return [
        timers_for("fire", windows, waits & is_timed & ~is_one, last_instants),
        timers_for("fire+cleanup", windows, waits & is_timed & is_one, last_instants),
        timers_for("cleanup", windows, is_timed & ~(waits & is_one), cleanups),
    ]


def timers_for(purpose: str, windows: OpenWindows, chosen: Booleans, times: Longs) -> Timers:
    """A timer per chosen window; the end of time, which no table can hold, becomes NO_TIME."""
    at = rows_where(chosen)
    moments = times[at]
    return Timers(
        purpose=purpose,
        keys=windows.keys[at],
        starts=windows.starts[at],
        ends=windows.ends[at],
        times=np.where(moments == NEVER, NO_TIME, moments),
    )
