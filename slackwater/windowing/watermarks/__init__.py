"""Watermarks: the progress of event time, by Flink 2.3.0's rules; README.md has replays' differences."""

from slackwater.windowing.watermarks.generators import (
    AscendingTimestampsWatermarks,
    BoundedOutOfOrdernessWatermarks,
    NoWatermarksGenerator,
    PausableRelativeClock,
    PunctuatedWatermarks,
    WatermarkGenerator,
    WatermarksWithIdleness,
)
from slackwater.windowing.watermarks.multiplexer import (
    CombinedInputs,
    CombinedWatermarkStatus,
    PartialWatermark,
    WatermarkOutputMultiplexer,
)
from slackwater.windowing.watermarks.source_contexts import (
    AutomaticWatermarkContext,
    ManualWatermarkContext,
    NonTimestampContext,
    SourceContext,
    TimeCharacteristic,
    source_context,
)
from slackwater.windowing.watermarks.status import (
    ElementOutput,
    StatusOutput,
    WatermarkOutput,
    WatermarkStatus,
)
from slackwater.windowing.watermarks.status_valve import StatusWatermarkValve
from slackwater.windowing.watermarks.strategy import WatermarkStrategy
from slackwater.windowing.watermarks.timestamps_and_watermarks import (
    TimestampsAndWatermarksOperator,
    WatermarkEmitter,
)

__all__ = [
    "AscendingTimestampsWatermarks",
    "AutomaticWatermarkContext",
    "BoundedOutOfOrdernessWatermarks",
    "CombinedInputs",
    "CombinedWatermarkStatus",
    "ElementOutput",
    "ManualWatermarkContext",
    "NoWatermarksGenerator",
    "NonTimestampContext",
    "PartialWatermark",
    "PausableRelativeClock",
    "PunctuatedWatermarks",
    "SourceContext",
    "StatusOutput",
    "StatusWatermarkValve",
    "TimeCharacteristic",
    "TimestampsAndWatermarksOperator",
    "WatermarkEmitter",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkOutputMultiplexer",
    "WatermarkStatus",
    "WatermarkStrategy",
    "WatermarksWithIdleness",
    "source_context",
]
