"""Assigners, triggers and evictors from a case's config, with names and fields as in the recorded traces; an
unknown one raises TraceError, so that it cannot pass unplayed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slackwater.conformance.trace import Json
from slackwater.windowing.assigners import (
    CountWindows,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from slackwater.windowing.errors import TraceError
from slackwater.windowing.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor
from slackwater.windowing.java import wrap_long
from slackwater.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)
from slackwater.windowing.windows import TimeWindow


@dataclass(frozen=True)
class _GapPerValue:
    gap_per_value: int

    def __call__(self, value: int) -> int:
        return wrap_long(value * self.gap_per_value)


class PointSessionWindows(EventTimeSessionWindows):
    """Sessions in which an element of `point_value` has the window [t, t): a user's merging assigner."""

    point_value: int

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        if element == self.point_value:
            return [TimeWindow(timestamp, timestamp)]
        return super().assign_windows(element, timestamp, context)


def assigner_from_json(config: Json) -> WindowAssigner:
    """The assigner of a config; count windows bring their trigger and evictor."""
    kind, is_event_time = config["type"], config.get("time", "event") == "event"
    match kind:
        case "tumbling":
            tumbling = TumblingEventTimeWindows if is_event_time else TumblingProcessingTimeWindows
            return tumbling(size_ms=config["size"], offset_ms=config["offset"])
        case "sliding":
            sliding = SlidingEventTimeWindows if is_event_time else SlidingProcessingTimeWindows
            return sliding(size_ms=config["size"], slide_ms=config["slide"], offset_ms=config["offset"])
        case "session":
            session = EventTimeSessionWindows if is_event_time else ProcessingTimeSessionWindows
            return session(gap_ms=config["gap"])
        case "dynamic_session":
            dynamic = DynamicEventTimeSessionWindows if is_event_time else DynamicProcessingTimeSessionWindows
            return dynamic(gap_ms_of=_GapPerValue(config["gap_per_value"]))
        case "point_session":
            points = PointSessionWindows(gap_ms=config["gap"])
            object.__setattr__(points, "point_value", config["point_value"])
            return points
        case "global":
            return GlobalWindows.create()
        case "count" | "sliding_count":
            return CountWindows.of(config["size"], config.get("slide"))
        case "global_end_of_stream":
            return GlobalWindows.create_with_end_of_stream_trigger()
    raise TraceError(f"no assigner {kind!r}")


def trigger_from_json(config: Json) -> Trigger:
    kind = config["type"]
    match kind:
        case "event_time":
            return EventTimeTrigger()
        case "processing_time":
            return ProcessingTimeTrigger()
        case "never":
            return NeverTrigger()
        case "end_of_stream":
            return EndOfStreamTrigger()
        case "count":
            return CountTrigger.of(config["count"])
        case "continuous_event_time":
            return ContinuousEventTimeTrigger(interval_ms=config["interval"])
        case "continuous_processing_time":
            return ContinuousProcessingTimeTrigger(interval_ms=config["interval"])
        case "delta":
            return DeltaTrigger.of(config["threshold"], _difference(config["signed"]))
        case "processing_timeout":
            return ProcessingTimeoutTrigger(
                trigger=trigger_from_json(config["trigger"]),
                timeout_ms=config["interval"],
                resets_timer_on_new_record=config["reset"],
                clears_on_timeout=config["clear"],
            )
        case "purging":
            return PurgingTrigger.of(trigger_from_json(config["trigger"]))
    raise TraceError(f"no trigger {kind!r}")


def evictor_from_json(config: Json) -> Evictor:
    kind, is_after = config["type"], config["after"]
    match kind:
        case "count":
            return CountEvictor.of(config["count"], is_after)
        case "time":
            return TimeEvictor(size_ms=config["size"], do_evict_after=is_after)
        case "delta":
            return DeltaEvictor.of(config["threshold"], _difference(config["signed"]), is_after)
    raise TraceError(f"no evictor {kind!r}")


def _difference(is_signed: bool) -> Callable[[int, int], int]:
    return (lambda a, b: b - a) if is_signed else (lambda a, b: abs(b - a))
