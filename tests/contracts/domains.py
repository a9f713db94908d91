"""The two domains of time behind one interface, so that a claim about both is written once."""

from __future__ import annotations

from typing import Any

from slackwater.windowing import (
    EventTimeSessionWindows,
    EventTimeTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    Trigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)

from .harness import WindowHarness


class EventDomain:
    """Time passes by watermarks."""

    name = "event"
    is_event_time = True

    def timers(self, count: int) -> dict[str, int]:
        """`count` timers in this domain, as a step of the harness takes it."""
        return {"event": count}

    def advance(self, harness: WindowHarness, time: int, /, **expected: Any) -> None:
        harness.watermark(time, **expected)

    def register(self, context: Any, time: int) -> None:
        context.register_event_time_timer(time)

    def delete(self, context: Any, time: int) -> None:
        context.delete_event_time_timer(time)

    def now(self, context: Any) -> int:
        return int(context.current_watermark)

    def trigger(self) -> Trigger:
        return EventTimeTrigger()

    def tumbling(self, size_ms: int) -> WindowAssigner:
        return TumblingEventTimeWindows(size_ms=size_ms)

    def sessions(self, gap_ms: int) -> WindowAssigner:
        return EventTimeSessionWindows(gap_ms=gap_ms)


class ProcessingDomain(EventDomain):
    """Time passes by the clock. The harness's clock is due at t, not after it."""

    name = "processing"
    is_event_time = False

    def timers(self, count: int) -> dict[str, int]:
        return {"processing": count}

    def advance(self, harness: WindowHarness, time: int, /, **expected: Any) -> None:
        harness.clock(time, **expected)

    def register(self, context: Any, time: int) -> None:
        context.register_processing_time_timer(time)

    def delete(self, context: Any, time: int) -> None:
        context.delete_processing_time_timer(time)

    def now(self, context: Any) -> int:
        return int(context.current_processing_time)

    def trigger(self) -> Trigger:
        return ProcessingTimeTrigger()

    def tumbling(self, size_ms: int) -> WindowAssigner:
        return TumblingProcessingTimeWindows(size_ms=size_ms)

    def sessions(self, gap_ms: int) -> WindowAssigner:
        return ProcessingTimeSessionWindows(gap_ms=gap_ms)


Domain = EventDomain

DOMAINS: list[Domain] = [EventDomain(), ProcessingDomain()]
