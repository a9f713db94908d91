"""What the tests of judging and ordering share: a pipeline, and columns of times."""

from datetime import timedelta
from typing import Any

import pyarrow as pa

from slackwater.pipelines import DeltaSource, Pipeline, agg
from slackwater.windowing import (
    TumblingEventTimeWindows,
    WatermarkStrategy,
)

HOUR_MS = 3_600_000
HOUR = timedelta(milliseconds=HOUR_MS)
START_MS = 1_356_998_400_000


def declared(**changes: Any) -> Pipeline:
    values: dict[str, Any] = {
        "name": "flights",
        "source": DeltaSource("t", event_time="e", arrival_time="a", order_by="row"),
        "watermarks": WatermarkStrategy.bounded_out_of_orderness(timedelta(minutes=1)),
        "key_by": ["k", "part"],
        "window": TumblingEventTimeWindows.of(HOUR),
        "select": {"n": agg.count(), "most": agg.max("x")},
        "start": "2013-01-01",
        "max_ahead": 2 * HOUR,
    }
    return Pipeline(**{**values, **changes})


def times(values: list[int | None], unit: str = "us", tz: str | None = "UTC") -> pa.Array:
    return pa.array(values, pa.int64()).cast(pa.timestamp(unit, tz=tz))
