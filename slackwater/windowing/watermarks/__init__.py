"""Watermarks: the progress of event time, by Flink 2.3.0's rules; README.md has replays' differences."""

from slackwater.windowing.watermarks.generators import (
    AscendingTimestampsWatermarks,
    BoundedOutOfOrdernessWatermarks,
    NoWatermarksGenerator,
    PunctuatedWatermarks,
    WatermarkOutput,
    WatermarksWithIdleness,
)
from slackwater.windowing.watermarks.inputs import (
    CombinedInputs,
    StatusWatermarkValve,
    WatermarkOutputMultiplexer,
    WatermarkStatus,
)
from slackwater.windowing.watermarks.strategy import WatermarkStrategy
from slackwater.windowing.watermarks.timestamps_and_watermarks import TimestampsAndWatermarksOperator

__all__ = [
    "AscendingTimestampsWatermarks",
    "BoundedOutOfOrdernessWatermarks",
    "CombinedInputs",
    "NoWatermarksGenerator",
    "PunctuatedWatermarks",
    "StatusWatermarkValve",
    "TimestampsAndWatermarksOperator",
    "WatermarkOutput",
    "WatermarkOutputMultiplexer",
    "WatermarkStatus",
    "WatermarkStrategy",
    "WatermarksWithIdleness",
]
