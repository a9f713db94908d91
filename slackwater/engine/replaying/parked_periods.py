"""Refuses parked calendar windows whose bounds the calendar of this machine does not have any more: databases
of time zones change, and elements would go to a window beside the parked one.
"""

import numpy as np
import pyarrow as pa

from slackwater.errors import PermanentError
from slackwater.pipelines import Pipeline
from slackwater.windowing.calendars import Calendar
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.numbered_windows import CalendarWindows
from slackwater.windowing.times import to_datetime


class CalendarChanged(PermanentError):
    """A parked window is no period of the pipeline's calendar any more."""


def check_parked_periods(pipeline: Pipeline, window_rows: pa.Table) -> None:
    """Compare parked windows with the pipeline's calendar, if it has one; raises CalendarChanged."""
    if pipeline.window is None or not isinstance(calendar := pipeline.window.grid, Calendar):
        return
    parked_starts, parked_ends = (_milliseconds(window_rows[name]) for name in ("window_start", "window_end"))
    windows = CalendarWindows(calendar, pipeline.allowed_lateness_ms)
    periods = windows.slices(parked_starts)
    starts, ends = windows.starts(periods), windows.ends(periods)
    changed_rows = np.flatnonzero((starts != parked_starts) | (ends != parked_ends))
    if not len(changed_rows):
        return
    row = changed_rows[0]
    parked_start, parked_end, start, end = (
        _iso(bounds[row]) for bounds in (parked_starts, parked_ends, starts, ends)
    )
    raise CalendarChanged(
        f"the snapshot holds {len(changed_rows):,} open windows that are no {calendar.unit} of the time zone "
        f"{calendar.zone!r} on this machine: one was parked as [{parked_start}, {parked_end}), and the "
        f"calendar now has [{start}, {end}). The database of time zones has changed since, or machines "
        "have different ones. Nothing was changed. Either bring back the database with which the windows "
        "were parked (`pip install tzdata==VERSION`, with PYTHONTZPATH set to nothing so that it is read), "
        "or restate with the new calendar: `slackwater backfill "
        f"{pipeline.name} --from {min(parked_start, start)}` and the lineage's head as `--to`, which "
        "starts from a snapshot before these windows.",
        zone=calendar.zone,
        windows=len(changed_rows),
    )


def _milliseconds(times: pa.ChunkedArray) -> Longs:
    milliseconds: Longs = times.cast(pa.int64()).to_numpy() // 1000
    return milliseconds


def _iso(ms: int) -> str:
    return f"{to_datetime(int(ms)):%Y-%m-%dT%H:%M:%SZ}"
