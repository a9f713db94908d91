"""Windows with the exact semantics of Apache Flink 2.3.0, without an engine.

The user's vocabulary; the machine that runs it is in `slackwater.windowing.runtime`, what it remembers in
`slackwater.windowing.state`.
"""

from slackwater.windowing.assigners import (
    CalendarEventTimeWindows,
    CountWindows,
    CumulateEventTimeWindows,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    MergingWindowAssigner,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from slackwater.windowing.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor, TimestampedValue
from slackwater.windowing.folds import AggregateFunction, ReduceFunction
from slackwater.windowing.functions import (
    AllWindowFunction,
    KeyedProcessFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.own_windows import merge_touching_windows
from slackwater.windowing.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from slackwater.windowing.triggers import *  # noqa: F403 - exactly the names of its __all__
from slackwater.windowing.triggers import __all__ as _TRIGGERS
from slackwater.windowing.watermarks import WatermarkStrategy
from slackwater.windowing.windows import GLOBAL_WINDOW, GlobalWindow, TimeWindow

__all__ = [
    "GLOBAL_WINDOW",
    "AggregateFunction",
    "AggregatingStateDescriptor",
    "AllWindowFunction",
    "CalendarEventTimeWindows",
    "CountEvictor",
    "CountWindows",
    "CumulateEventTimeWindows",
    "DeltaEvictor",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "Evictor",
    "GlobalWindow",
    "GlobalWindows",
    "KeyedProcessFunction",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "MergingWindowAssigner",
    "OrderMode",
    "ProcessAllWindowFunction",
    "ProcessWindowFunction",
    "ProcessingTimeSessionWindows",
    "ReduceFunction",
    "ReducingStateDescriptor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeEvictor",
    "TimeWindow",
    "TimestampedValue",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "ValueStateDescriptor",
    "WatermarkStrategy",
    "WindowAssigner",
    "WindowFunction",
    "merge_touching_windows",
    *_TRIGGERS,
]
