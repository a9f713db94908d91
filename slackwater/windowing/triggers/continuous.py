"""Triggers that fire again and again while a window is open, at every interval of event or processing time.
The next firing is reducing state named "fire-time", which merges to the earliest.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Self

from slackwater.windowing.durations import require_duration_ms
from slackwater.windowing.errors import ConfigurationError, TriggerStateError
from slackwater.windowing.java import remainder, wrap_long
from slackwater.windowing.state.descriptors import ReducingStateDescriptor, StateDescriptor
from slackwater.windowing.state.handles import ReducingState
from slackwater.windowing.triggers.trigger import OnMergeContext, Trigger, TriggerContext, TriggerResult
from slackwater.windowing.windows import Window

CONTINUE, FIRE = TriggerResult.CONTINUE, TriggerResult.FIRE

FIRE_TIME = ReducingStateDescriptor("fire-time", min, sql_type="long")


@dataclass(frozen=True, kw_only=True)
class _ContinuousTrigger(Trigger):
    can_merge: ClassVar[bool] = True
    states: ClassVar[tuple[StateDescriptor, ...]] = (FIRE_TIME,)

    interval_ms: int

    @classmethod
    def of(cls, interval: timedelta) -> Self:
        return cls(interval_ms=require_duration_ms("The firing interval", interval))

    def __post_init__(self) -> None:
        if self.interval_ms <= 0:
            raise ConfigurationError(f"{type(self).__name__} needs interval > 0, got {self.interval_ms} ms.")

    def _floor(self, time: int) -> int:
        """`time` rounded towards zero to a multiple of the interval, by Java's remainder."""
        return wrap_long(time - remainder(time, self.interval_ms))

    def _arm(self, time: int, window: Window, context: TriggerContext, fire_time: ReducingState) -> None:
        """Fire next one interval after `time`, at the latest at the window's last instant."""
        next_firing = int(min(wrap_long(time + self.interval_ms), window.max_timestamp()))
        fire_time.add(next_firing)
        self._register(next_firing, context)

    def on_merge(self, window: Window, context: OnMergeContext) -> None:
        context.merge_partitioned_state(FIRE_TIME)
        next_firing = context.get_partitioned_state(FIRE_TIME).get()
        if next_firing is not None:
            self._register(next_firing, context)

    def clear(self, window: Window, context: TriggerContext) -> None:
        fire_time = context.get_partitioned_state(FIRE_TIME)
        next_firing = fire_time.get()
        if next_firing is not None:
            self._delete(next_firing, context)
            fire_time.clear()

    def _register(self, time: int, context: TriggerContext) -> None:
        raise NotImplementedError

    def _delete(self, time: int, context: TriggerContext) -> None:
        raise NotImplementedError


class ContinuousEventTimeTrigger(_ContinuousTrigger):
    """Fires at each multiple of the interval that the watermark passes, and at the window's last instant
    (Flink: ContinuousEventTimeTrigger). A late element fires at once and arms nothing. As in Flink, `clear`
    leaves timers at the last instant behind.
    """

    looks_at_elements: ClassVar[bool] = False

    def on_element(
        self, element: Any, timestamp: int, window: Window, context: TriggerContext
    ) -> TriggerResult:
        last_instant = window.max_timestamp()
        if last_instant <= context.current_watermark:
            return FIRE
        context.register_event_time_timer(last_instant)
        fire_time = context.get_partitioned_state(FIRE_TIME)
        if fire_time.get() is None:
            self._arm(self._floor(timestamp), window, context, fire_time)
        return CONTINUE

    def on_event_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        if timestamp == window.max_timestamp():
            return FIRE
        fire_time = context.get_partitioned_state(FIRE_TIME)
        if fire_time.get() != timestamp:
            return CONTINUE
        fire_time.clear()
        self._arm(timestamp, window, context, fire_time)
        return FIRE

    def on_processing_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        return CONTINUE

    def _register(self, time: int, context: TriggerContext) -> None:
        context.register_event_time_timer(time)

    def _delete(self, time: int, context: TriggerContext) -> None:
        context.delete_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger):
    """Fires at each multiple of the interval that the clock passes, and at the window's last instant (Flink:
    ContinuousProcessingTimeTrigger).
    """

    looks_at_elements: ClassVar[bool] = False

    def on_element(
        self, element: Any, timestamp: int, window: Window, context: TriggerContext
    ) -> TriggerResult:
        fire_time = context.get_partitioned_state(FIRE_TIME)
        if fire_time.get() is None:
            self._arm(self._floor(context.current_processing_time), window, context, fire_time)
        return CONTINUE

    def on_event_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_processing_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        if timestamp == window.max_timestamp():
            return FIRE
        fire_time = context.get_partitioned_state(FIRE_TIME)
        next_firing = fire_time.get()
        if next_firing is None:
            raise TriggerStateError(
                f"ContinuousProcessingTimeTrigger has no fire time at a timer for {timestamp}; Flink fails "
                "here, too."
            )
        if next_firing != timestamp:
            return CONTINUE
        fire_time.clear()
        self._arm(timestamp, window, context, fire_time)
        return FIRE

    def _register(self, time: int, context: TriggerContext) -> None:
        context.register_processing_time_timer(time)

    def _delete(self, time: int, context: TriggerContext) -> None:
        context.delete_processing_time_timer(time)
