"""The course of the watermark during the life of a window, as far as it is recorded: at the ends of runs, at
firings, and when rows arrived.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from slackwater.inspection.windows.lineage_as_of import LineageAsOf
from slackwater.inspection.windows.window_elements import WindowElements
from slackwater.inspection.windows.window_firings import WindowFiring

# Of a window that is open for long the newest runs.
_MOST_RUNS = 60


@dataclass(frozen=True, order=True)
class WatermarkPoint:
    clock: datetime
    watermark: datetime


def watermark_points(
    lineage: LineageAsOf,
    start: datetime | None,
    cleanup_time: datetime | None,
    firings: Sequence[WindowFiring],
    elements: WindowElements,
) -> list[WatermarkPoint]:
    """The recorded watermarks from the first run that may have held the window to the one that collected it,
    in order of the clock.
    """
    moments = [
        *_points_of_runs(lineage, start, cleanup_time),
        *((firing.clock, firing.watermark) for firing in firings),
        *((row.arrival_time, row.watermark) for row in elements.late_rows),
        *((row.arrival_time, row.watermark) for row in elements.rows or ()),
    ]
    points = {
        WatermarkPoint(clock, watermark)
        for clock, watermark in moments
        if clock is not None and watermark is not None
    }
    return sorted(points)


def _points_of_runs(
    lineage: LineageAsOf, start: datetime | None, cleanup_time: datetime | None
) -> Iterator[tuple[datetime | None, datetime | None]]:
    runs = list(islice(lineage.runs_that_may_hold(start, None), _MOST_RUNS))[::-1]
    for run in runs:
        yield run.slice_start, run.watermark_in
        yield run.slice_end, run.watermark_out
        if None not in (cleanup_time, run.watermark_out) and run.watermark_out >= cleanup_time:  # type: ignore[operator]
            return
