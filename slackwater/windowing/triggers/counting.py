"""Triggers that go by the number of elements, or by the distance of the newest from the last one that fired.
They register no timer: elements that have not fired when their window is collected are dropped.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from slackwater.windowing.state.descriptors import (
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from slackwater.windowing.triggers.trigger import OnMergeContext, Trigger, TriggerContext, TriggerResult
from slackwater.windowing.windows import Window

CONTINUE, FIRE = TriggerResult.CONTINUE, TriggerResult.FIRE

COUNT = ReducingStateDescriptor("count", operator.add, sql_type="long")
LAST_ELEMENT = ValueStateDescriptor("last-element")


class _ElementTrigger(Trigger):
    def on_event_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_processing_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        return CONTINUE


@dataclass(frozen=True, kw_only=True)
class CountTrigger(_ElementTrigger):
    """Fires after `max_count` elements since the last firing; merging adds counts (Flink: CountTrigger)."""

    can_merge: ClassVar[bool] = True
    states: ClassVar[tuple[StateDescriptor, ...]] = (COUNT,)
    fires_on_timers: ClassVar[bool] = False
    looks_at_elements: ClassVar[bool] = False

    max_count: int

    @classmethod
    def of(cls, max_count: int) -> CountTrigger:
        return cls(max_count=max_count)

    def on_element(
        self, element: Any, timestamp: int, window: Window, context: TriggerContext
    ) -> TriggerResult:
        count = context.get_partitioned_state(COUNT)
        count.add(1)
        if count.get() < self.max_count:
            return CONTINUE
        count.clear()
        return FIRE

    def on_merge(self, window: Window, context: OnMergeContext) -> None:
        context.merge_partitioned_state(COUNT)

    def clear(self, window: Window, context: TriggerContext) -> None:
        context.get_partitioned_state(COUNT).clear()


@dataclass(frozen=True, kw_only=True)
class DeltaTrigger(_ElementTrigger):
    """Fires when delta(last element that fired, new element) > threshold, never for a window's first element
    (Flink: DeltaTrigger).
    """

    states: ClassVar[tuple[StateDescriptor, ...]] = (LAST_ELEMENT,)
    fires_on_timers: ClassVar[bool] = False

    threshold: float
    delta: Callable[[Any, Any], float]

    @classmethod
    def of(cls, threshold: float, delta: Callable[[Any, Any], float]) -> DeltaTrigger:
        return cls(threshold=threshold, delta=delta)

    def on_element(
        self, element: Any, timestamp: int, window: Window, context: TriggerContext
    ) -> TriggerResult:
        last = context.get_partitioned_state(LAST_ELEMENT)
        if last.value() is None:
            last.update(element)
            return CONTINUE
        if self.delta(last.value(), element) > self.threshold:
            last.update(element)
            return FIRE
        return CONTINUE

    def clear(self, window: Window, context: TriggerContext) -> None:
        context.get_partitioned_state(LAST_ELEMENT).clear()
