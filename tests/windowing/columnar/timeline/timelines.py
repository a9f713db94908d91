"""The watermark timeline of a slice whose source partitions one task has all: the part that tests share."""

from __future__ import annotations

from slackwater.windowing.columnar.timeline.source_progress import SourceProgress, TickAggregates
from slackwater.windowing.columnar.timeline.timeline import (
    INITIAL_WATERMARK,
    Timeline,
    lowest_watermarks,
    timeline_of_lowest,
)
from slackwater.windowing.watermarks import WatermarkStrategy


def watermark_timeline(
    ticks: TickAggregates,
    *,
    strategy: WatermarkStrategy,
    from_ms: int,
    to_ms: int,
    progress: SourceProgress | None = None,
    watermark: int = INITIAL_WATERMARK,
) -> tuple[Timeline, SourceProgress]:
    """The watermark over the slice, and the progress that the next run restores."""
    lowest, progress_after = lowest_watermarks(
        ticks, strategy=strategy, from_ms=from_ms, to_ms=to_ms, progress=progress
    )
    timeline = timeline_of_lowest(
        [lowest], strategy=strategy, from_ms=from_ms, to_ms=to_ms, watermark=watermark
    )
    return timeline, progress_after
