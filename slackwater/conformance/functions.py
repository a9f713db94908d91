"""The functions that the recorded window operators ran, by name, each as a user would write it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from slackwater.conformance.trace import Json
from slackwater.windowing.errors import TraceError
from slackwater.windowing.folds import AggregateFunction
from slackwater.windowing.functions import (
    ProcessWindowFunction,
    Results,
    RuntimeContext,
    WindowContext,
    WindowFunction,
)
from slackwater.windowing.java import wrap_long
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.state.descriptors import ReducingStateDescriptor, ValueStateDescriptor
from slackwater.windowing.windows import Window

FIRINGS = ValueStateDescriptor("firings")
TOTAL = ValueStateDescriptor("total")
COUNT = ReducingStateDescriptor("count", operator.add)


def add(a: int, b: int) -> int:
    return wrap_long(a + b)


def concat(a: Any, b: Any) -> str:
    return f"({a}+{b})"


def add_or_none(a: int, b: int) -> int | None:
    return wrap_long(a + b) or None


class SumAggregate(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return wrap_long(accumulator + value)

    def get_result(self, accumulator: int) -> int | None:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return wrap_long(a + b)


class NullWhenEven(SumAggregate):
    def get_result(self, accumulator: int) -> int | None:
        return accumulator if accumulator % 2 else None


class Average(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return (0, 0)

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return (wrap_long(accumulator[0] + value), accumulator[1] + 1)

    def get_result(self, accumulator: tuple[int, int]) -> Json:
        total, count = accumulator
        return {"sum": total, "count": count, "avg": total / count if count else None}

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return (wrap_long(a[0] + b[0]), a[1] + b[1])


class Concat(AggregateFunction):
    def create_accumulator(self) -> str:
        return ""

    def add(self, value: int, accumulator: str) -> str:
        return f"{accumulator}{value},"

    def get_result(self, accumulator: str) -> str:
        return f"<{accumulator}>"

    def merge(self, a: str, b: str) -> str:
        return f"[{a}|{b}]"


class Describe(ProcessWindowFunction):
    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterator[Any]:
        for element in elements:
            yield {"result": element, **self._now(context)}

    def clear(self, context: WindowContext) -> None:
        context.output("cleared", self._now(context))

    def _now(self, context: WindowContext) -> Json:
        return {"watermark": context.current_watermark, "processing_time": context.current_processing_time}


class Text(ProcessWindowFunction):
    """The reduced value as text: a window of one element has not been through `concat`."""

    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Results:
        return [None if element is None else str(element) for element in elements]


class ListProcess(ProcessWindowFunction):
    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Results:
        return [list(elements)]


class ListApply(WindowFunction):
    def apply(self, key: Any, window: Window, inputs: Iterable[Any]) -> Results:
        return [list(inputs)]


class Multi(ProcessWindowFunction):
    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterator[Any]:
        for element in elements:
            yield element
            if element % 2:
                context.output("side", element)


class WithState(ProcessWindowFunction):
    def __init__(self, clears: bool) -> None:
        self.clears = clears

    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Results:
        values = list(elements)
        firings = context.window_state().get_state(FIRINGS)
        firings.update((firings.value() or 0) + 1)
        total = context.global_state().get_state(TOTAL)
        total.update((total.value() or 0) + len(values))
        return [{"values": values, "firing": firings.value(), "total": total.value()}]

    def clear(self, context: WindowContext) -> None:
        firings, total = context.window_state().get_state(FIRINGS), context.global_state().get_state(TOTAL)
        context.output(
            "cleared",
            {"firings": firings.value(), "total": total.value(), "watermark": context.current_watermark},
        )
        if self.clears:
            firings.clear()


class WithGlobalState(ProcessWindowFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(TOTAL)

    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Results:
        values = list(elements)
        total = context.global_state().get_state(TOTAL)
        total.update((total.value() or 0) + len(values))
        return [{"values": values, "total": self.total.value()}]

    def clear(self, context: WindowContext) -> None:
        context.output("cleared", {"total": context.global_state().get_state(TOTAL).value()})


class CountCollision(ProcessWindowFunction):
    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Results:
        context.window_state().get_reducing_state(COUNT).add(100)
        return [list(elements)]


_FUNCTIONS: dict[str, Callable[[WindowOperatorBuilder, Json], WindowOperatorConfig]] = {
    "reduce_sum": lambda builder, _: builder.reduce(add),
    "reduce_concat": lambda builder, _: builder.reduce(concat, Text()),
    "reduce_null_on_zero": lambda builder, _: builder.reduce(add_or_none),
    "reduce_then_process": lambda builder, _: builder.reduce(add, Describe()),
    "aggregate_avg": lambda builder, _: builder.aggregate(Average()),
    "aggregate_concat": lambda builder, _: builder.aggregate(Concat()),
    "aggregate_null_when_even": lambda builder, _: builder.aggregate(NullWhenEven()),
    "aggregate_then_process": lambda builder, _: builder.aggregate(SumAggregate(), Describe()),
    "process_list": lambda builder, _: builder.process(ListProcess()),
    "apply_list": lambda builder, _: builder.apply(ListApply()),
    "process_multi": lambda builder, _: builder.process(Multi()),
    "process_state": lambda builder, config: builder.process(WithState(config["clear"])),
    "process_global_state": lambda builder, _: builder.process(WithGlobalState()),
    "process_count_collision": lambda builder, _: builder.process(CountCollision()),
}


def with_function(builder: WindowOperatorBuilder, config: Json) -> WindowOperatorConfig:
    if config["type"] not in _FUNCTIONS:
        raise TraceError(f"no function {config['type']!r}")
    return _FUNCTIONS[config["type"]](builder, config)
