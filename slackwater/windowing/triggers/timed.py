"""Stateless triggers that fire at a window's last instant, at the end of the stream, or never."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from slackwater.windowing.errors import WindowTypeError
from slackwater.windowing.java import LONG_MAX
from slackwater.windowing.triggers.trigger import OnMergeContext, Trigger, TriggerContext, TriggerResult
from slackwater.windowing.windows import GlobalWindow, Window

CONTINUE, FIRE = TriggerResult.CONTINUE, TriggerResult.FIRE


@dataclass(frozen=True)
class EventTimeTrigger(Trigger):
    """Fires when the watermark reaches the window's last instant, and at once for each later element (Flink:
    EventTimeTrigger).
    """

    can_merge: ClassVar[bool] = True
    arms_once: ClassVar[bool] = True
    fires_at_last_instant: ClassVar[bool] = True
    looks_at_elements: ClassVar[bool] = False

    def on_element(
        self, element: Any, timestamp: int, window: Window, context: TriggerContext
    ) -> TriggerResult:
        last_instant = window.max_timestamp()
        if last_instant <= context.current_watermark:
            return FIRE
        context.register_event_time_timer(last_instant)
        return CONTINUE

    def on_event_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        return FIRE if timestamp == window.max_timestamp() else CONTINUE

    def on_processing_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_merge(self, window: Window, context: OnMergeContext) -> None:
        last_instant = window.max_timestamp()
        if last_instant > context.current_watermark:
            context.register_event_time_timer(last_instant)

    def clear(self, window: Window, context: TriggerContext) -> None:
        context.delete_event_time_timer(window.max_timestamp())


@dataclass(frozen=True)
class ProcessingTimeTrigger(Trigger):
    """Fires when the clock reaches the window's last instant, and at any other clock timer of the window
    (Flink: ProcessingTimeTrigger).
    """

    can_merge: ClassVar[bool] = True
    looks_at_elements: ClassVar[bool] = False

    def on_element(
        self, element: Any, timestamp: int, window: Window, context: TriggerContext
    ) -> TriggerResult:
        context.register_processing_time_timer(window.max_timestamp())
        return CONTINUE

    def on_event_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_processing_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        return FIRE

    def on_merge(self, window: Window, context: OnMergeContext) -> None:
        last_instant = window.max_timestamp()
        if last_instant > context.current_processing_time:
            context.register_processing_time_timer(last_instant)

    def clear(self, window: Window, context: TriggerContext) -> None:
        context.delete_processing_time_timer(window.max_timestamp())


def _check_global(trigger: Trigger, window: Window) -> None:
    if not isinstance(window, GlobalWindow):
        raise WindowTypeError(
            f"{type(trigger).__name__} is made for the global window and met {window!r}; use it with "
            "GlobalWindows."
        )


@dataclass(frozen=True)
class NeverTrigger(Trigger):
    """Never fires: the default of GlobalWindows (Flink: GlobalWindows.NeverTrigger)."""

    fires_on_timers: ClassVar[bool] = False
    looks_at_elements: ClassVar[bool] = False

    def on_element(
        self, element: Any, timestamp: int, window: Window, context: TriggerContext
    ) -> TriggerResult:
        _check_global(self, window)
        return CONTINUE

    def on_event_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_processing_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_merge(self, window: Window, context: OnMergeContext) -> None: ...

    def clear(self, window: Window, context: TriggerContext) -> None: ...


@dataclass(frozen=True)
class EndOfStreamTrigger(Trigger):
    """Fires at the final watermark, Long.MAX (Flink: GlobalWindows.EndOfStreamTrigger)."""

    looks_at_elements: ClassVar[bool] = False

    def on_element(
        self, element: Any, timestamp: int, window: Window, context: TriggerContext
    ) -> TriggerResult:
        _check_global(self, window)
        context.register_event_time_timer(LONG_MAX)
        return CONTINUE

    def on_event_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        return FIRE if timestamp == LONG_MAX else CONTINUE

    def on_processing_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_merge(self, window: Window, context: OnMergeContext) -> None: ...

    def clear(self, window: Window, context: TriggerContext) -> None:
        """The timer at Long.MAX stays, as in Flink."""
