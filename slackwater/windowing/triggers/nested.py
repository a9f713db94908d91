"""Triggers that wrap another one: they forward every call to it and change its result."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from slackwater.windowing.durations import require_duration_ms
from slackwater.windowing.errors import ConfigurationError
from slackwater.windowing.java import wrap_long
from slackwater.windowing.state.descriptors import StateDescriptor, ValueStateDescriptor
from slackwater.windowing.triggers.trigger import OnMergeContext, Trigger, TriggerContext, TriggerResult
from slackwater.windowing.windows import Window

TIMEOUT = ValueStateDescriptor("timeout", sql_type="long")


@dataclass(frozen=True, kw_only=True)
class PurgingTrigger(Trigger):
    """Turns each FIRE of the inner trigger into FIRE_AND_PURGE (Flink: PurgingTrigger)."""

    purges: ClassVar[bool] = True

    trigger: Trigger

    def __post_init__(self) -> None:
        _check_inner(self, self.trigger)

    @classmethod
    def of(cls, trigger: Trigger) -> PurgingTrigger:
        return cls(trigger=trigger)

    @property
    def can_merge(self) -> bool:  # type: ignore[override]  # as the inner trigger has it
        return self.trigger.can_merge

    @property
    def arms_once(self) -> bool:  # type: ignore[override]  # what it purges has no contents any more
        return self.trigger.arms_once

    @property
    def states(self) -> tuple[StateDescriptor, ...]:  # type: ignore[override]  # as the inner trigger has it
        return self.trigger.states

    @property
    def fires_on_timers(self) -> bool:  # type: ignore[override]  # as the inner trigger has it
        return self.trigger.fires_on_timers

    @property
    def fires_at_last_instant(self) -> bool:  # type: ignore[override]  # as the inner trigger has it
        return self.trigger.fires_at_last_instant

    @property
    def looks_at_elements(self) -> bool:  # type: ignore[override]  # as the inner trigger has it
        return self.trigger.looks_at_elements

    @property
    def firing_trigger(self) -> Trigger:
        return self.trigger.firing_trigger

    @property
    def innermost(self) -> Trigger:
        return self.trigger.innermost

    def on_element(
        self, element: Any, timestamp: int, window: Window, context: TriggerContext
    ) -> TriggerResult:
        return _purging(self.trigger.on_element(element, timestamp, window, context))

    def on_event_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        return _purging(self.trigger.on_event_time(timestamp, window, context))

    def on_processing_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        return _purging(self.trigger.on_processing_time(timestamp, window, context))

    def on_merge(self, window: Window, context: OnMergeContext) -> None:
        self.trigger.on_merge(window, context)

    def clear(self, window: Window, context: TriggerContext) -> None:
        self.trigger.clear(window, context)


def _check_inner(outer: Trigger, inner: object) -> None:
    if not isinstance(inner, Trigger):
        raise ConfigurationError(f"{type(outer).__name__} goes around a Trigger, got {inner!r}.")


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire else result


@dataclass(frozen=True, kw_only=True)
class ProcessingTimeoutTrigger(Trigger):
    """Fires when the inner trigger does, and when `timeout` of processing time has passed (Flink:
    ProcessingTimeoutTrigger). As in Flink any timer of the window fires it, the operator's cleanup timer too.

    Attributes:
        timeout_ms: counted from the first element, or from the newest with `resets_timer_on_new_record`.
        clears_on_timeout: whether the inner trigger starts afresh after a timeout.
    """

    trigger: Trigger
    timeout_ms: int
    resets_timer_on_new_record: bool = False
    clears_on_timeout: bool = True

    def __post_init__(self) -> None:
        _check_inner(self, self.trigger)

    @classmethod
    def of(
        cls,
        trigger: Trigger,
        timeout: timedelta,
        resets_timer_on_new_record: bool = False,
        clears_on_timeout: bool = True,
    ) -> ProcessingTimeoutTrigger:
        return cls(
            trigger=trigger,
            timeout_ms=require_duration_ms("The timeout", timeout),
            resets_timer_on_new_record=resets_timer_on_new_record,
            clears_on_timeout=clears_on_timeout,
        )

    @property
    def purges(self) -> bool:  # type: ignore[override]  # as the inner trigger has it
        return self.trigger.purges

    @property
    def states(self) -> tuple[StateDescriptor, ...]:  # type: ignore[override]  # the inner trigger's besides
        return (*self.trigger.states, TIMEOUT)

    @property
    def looks_at_elements(self) -> bool:  # type: ignore[override]  # as the inner trigger has it
        return self.trigger.looks_at_elements

    @property
    def innermost(self) -> Trigger:
        return self.trigger.innermost

    def on_element(
        self, element: Any, timestamp: int, window: Window, context: TriggerContext
    ) -> TriggerResult:
        result = self.trigger.on_element(element, timestamp, window, context)
        if result.is_fire:
            self.clear(window, context)
            return result
        timeout = context.get_partitioned_state(TIMEOUT)
        due = timeout.value()
        if due is not None and self.resets_timer_on_new_record:
            context.delete_processing_time_timer(due)
            timeout.clear()
            due = None
        if due is None:
            due = wrap_long(context.current_processing_time + self.timeout_ms)
            timeout.update(due)
            context.register_processing_time_timer(due)
        return result

    def on_event_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        return self._on_timer(self.trigger.on_event_time(timestamp, window, context), window, context)

    def on_processing_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        return self._on_timer(self.trigger.on_processing_time(timestamp, window, context), window, context)

    def clear(self, window: Window, context: TriggerContext) -> None:
        timeout = context.get_partitioned_state(TIMEOUT)
        due = timeout.value()
        if due is not None:
            context.delete_processing_time_timer(due)
            timeout.clear()
        self.trigger.clear(window, context)

    def _on_timer(self, result: TriggerResult, window: Window, context: TriggerContext) -> TriggerResult:
        if self.clears_on_timeout:
            self.clear(window, context)
        return TriggerResult.FIRE_AND_PURGE if result.is_purge else TriggerResult.FIRE
