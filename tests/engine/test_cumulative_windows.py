"""The example of Flink's documentation for CUMULATE: six bids, totals of ten minutes in steps of two."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.columnar import ColumnarEngine
from slackwater.engine.operator import OperatorEngine
from slackwater.pipelines import agg
from slackwater.windowing import CumulateEventTimeWindows, WatermarkStrategy
from tests.runs.world import DAILY, Event, World

MINUTE = timedelta(minutes=1)
BIDS = {5: 4, 7: 2, 9: 5, 11: 3, 13: 1, 17: 6}  # minute after eight → price
# (minutes after eight of the window's start and end, sum of the prices), by hand.
TOTALS = [
    ((0, 6), 4),
    ((0, 8), 6),
    ((0, 10), 11),
    ((10, 12), 3),
    ((10, 14), 4),
    ((10, 16), 4),
    ((10, 18), 10),
    ((10, 20), 10),
]
PIPELINE = replace(
    DAILY,
    watermarks=WatermarkStrategy.bounded_out_of_orderness(MINUTE).with_interval(MINUTE),
    key_by=None,
    window=CumulateEventTimeWindows.of(10 * MINUTE, 2 * MINUTE),
    select={"total": agg.sum("x")},
)


@pytest.mark.slow
@pytest.mark.parametrize("slice_", [timedelta(hours=9), 7 * MINUTE], ids=["one slice", "many slices"])
@pytest.mark.parametrize("engine", [ColumnarEngine(), OperatorEngine()], ids=["columnar", "operator"])
def test_totals_of_bids_accumulate_step_by_step(engine: Any, slice_: timedelta, tmp_path: Path) -> None:
    world = World(tmp_path, replace(PIPELINE, start="2013-01-01T08:00"), engine=engine)
    world.append([Event(8 + at / 60, 8 + at / 60, at, x=price) for at, price in BIDS.items()])
    world.append([Event(8.5, 8.5, 30, x=0)])  # it moves the watermark beyond all of these windows
    world.run(9, slice_=slice_)
    eight = world.pipeline.start
    published = [
        (tuple((row[bound] - eight) / MINUTE for bound in ("window_start", "window_end")), row["total"])
        for row in world.published()
        if row["total"]
    ]
    assert sorted(published) == TOTALS
