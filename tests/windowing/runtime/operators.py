"""A window operator whose life a test hears, and functions for it."""

from __future__ import annotations

from typing import Any

from slackwater.windowing import (
    AggregateFunction,
    ProcessWindowFunction,
    Trigger,
    TriggerResult,
)
from slackwater.windowing.assigners import TumblingEventTimeWindows
from slackwater.windowing.functions import WindowContext
from slackwater.windowing.key_types import STRING
from slackwater.windowing.processing_time_service import ReplayProcessingTimeService
from slackwater.windowing.runtime.window_operator import WindowOperator
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder
from slackwater.windowing.windows import TimeWindow

TUMBLING = TumblingEventTimeWindows(size_ms=10)
W0, W1 = TimeWindow(0, 10), TimeWindow(10, 20)


class Heard:
    """Output and listener in one: every call in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *arguments: self.calls.append((name, *arguments))

    def take(self) -> list[tuple[Any, ...]]:
        calls, self.calls = self.calls, []
        return calls

    def calls_named(self, *names: str) -> list[tuple[Any, ...]]:
        return [call for call in self.calls if call[0] in names]


class Values(ProcessWindowFunction):
    def process(self, key: Any, context: WindowContext, elements: Any) -> Any:
        yield list(elements)


class Total(AggregateFunction):
    """The sum; adding "boom" fails, and so does a result above 100."""

    def create_accumulator(self) -> list[int]:
        return [0]

    def add(self, value: Any, accumulator: list[int]) -> list[int]:
        accumulator[0] += 1000
        accumulator[0] += value
        accumulator[0] -= 1000
        return accumulator

    def get_result(self, accumulator: list[int]) -> int:
        if accumulator[0] > 100:
            raise OverflowError("too much")
        return accumulator[0]

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return [a[0] + b[0]]


def tumbling() -> WindowOperatorBuilder:
    return WindowOperatorBuilder(STRING, TUMBLING)


def operator_of(config: Any, heard: Heard | None = None, **options: Any) -> tuple[WindowOperator, Heard]:
    heard = heard or Heard()
    operator = WindowOperator(config, heard, ReplayProcessingTimeService(0), listener=heard, **options)
    operator.open()
    return operator, heard


class FiresAlways(Trigger):
    def on_element(self, element: Any, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return TriggerResult.PURGE

    def on_event_time(self, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return TriggerResult.FIRE

    def clear(self, window: Any, context: Any) -> None:
        """Nothing."""
