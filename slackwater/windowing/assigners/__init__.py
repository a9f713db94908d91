"""Window assigners: frozen values that decide into which windows an element falls; see `bind`."""

from slackwater.windowing.assigners.aligned import (
    CumulateEventTimeWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from slackwater.windowing.assigners.assigner import (
    Assign,
    AssignerContext,
    CumulativeGrid,
    Grid,
    MergingWindowAssigner,
    WindowAssigner,
    WindowGrid,
)
from slackwater.windowing.assigners.calendar import CalendarEventTimeWindows
from slackwater.windowing.assigners.count_windows import CountWindows
from slackwater.windowing.assigners.global_windows import GlobalWindows
from slackwater.windowing.assigners.sessions import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
)

__all__ = [
    "Assign",
    "AssignerContext",
    "CalendarEventTimeWindows",
    "CountWindows",
    "CumulateEventTimeWindows",
    "CumulativeGrid",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "GlobalWindows",
    "Grid",
    "MergingWindowAssigner",
    "ProcessingTimeSessionWindows",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "WindowAssigner",
    "WindowGrid",
]
