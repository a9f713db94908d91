"""Pipelines and functions of the workloads of `own_code`; `--pipelines slackwater.bench.own_pipelines`."""

import operator
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.bench.own_code import KEPT, MANY, TOP, own_workload
from slackwater.bench.pipelines import pipeline_of
from slackwater.pipelines import Pipeline, vectorized
from slackwater.windowing import (
    CountEvictor,
    KeyedProcessFunction,
    MapStateDescriptor,
    ProcessWindowFunction,
    ReducingStateDescriptor,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingProcessingTimeWindows,
)
from slackwater.windowing.functions import KeyedProcessContext, OnTimerContext, RuntimeContext, WindowContext
from slackwater.windowing.triggers import TriggerContext

_OUTPUT = "n long, total long"
_SIZE_MS = own_workload("timers").size_ms


class Median(ProcessWindowFunction):
    """How many elements a window has, and their lower median."""

    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterator[tuple[int, int]]:
        values = sorted(element.value for element in elements)
        yield len(values), values[(len(values) - 1) // 2]


@vectorized
def top(firings: pa.Table) -> pa.Table:
    """How many of the greatest values of each firing count, and their sum."""
    values = firings.column("value").combine_chunks()
    owners, flat = pc.list_parent_indices(values).to_numpy(), values.flatten().to_numpy()
    order = np.lexsort((-flat, owners))
    starts = np.searchsorted(owners, np.arange(len(values)))  # owners ascend
    is_top = np.arange(len(owners)) - starts[owners] < TOP
    sums = np.bincount(owners[is_top], flat[order][is_top], len(values)).astype(np.int64)
    return pa.table({"n": np.bincount(owners[is_top], minlength=len(values)), "total": sums})


class Sum(ProcessWindowFunction):
    """How many elements are in a window, and the sum of their values."""

    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterator[tuple[int, int]]:
        values = [element.value for element in elements]
        yield len(values), sum(values)


class WindowsByHand(KeyedProcessFunction):
    """Counts and sums of tumbling windows, kept in state until a timer at the window's end. A row that comes
    later makes a row of its own.
    """

    states = (MapStateDescriptor("windows", key_sql_type="long"),)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._windows = runtime_context.get_map_state(self.states[0])

    def process_element(self, value: Any, context: KeyedProcessContext) -> None:
        assert context.timestamp is not None
        start = context.timestamp - context.timestamp % _SIZE_MS
        n, total = self._windows.get(start) or (0, 0)
        if not n:
            context.timer_service.register_event_time_timer(start + _SIZE_MS - 1)
        self._windows.put(start, (n + 1, total + value.value))

    def on_timer(self, timestamp: int, context: OnTimerContext) -> Iterator[tuple[int, int, int]]:
        start = timestamp + 1 - _SIZE_MS
        n, total = self._windows.get(start)
        self._windows.remove(start)
        yield start, n, total


class AtEndOrMany(Trigger):
    """Fires at the end of a window, for each late element, and whenever the window has MANY more elements."""

    looks_at_elements = False
    states = (ReducingStateDescriptor("count", operator.add, sql_type="long"),)

    def on_element(
        self, element: Any, timestamp: int, window: TimeWindow, context: TriggerContext
    ) -> TriggerResult:
        if window.max_timestamp() <= context.current_watermark:
            return TriggerResult.FIRE
        context.register_event_time_timer(window.max_timestamp())
        count = context.get_partitioned_state(self.states[0])
        count.add(1)
        if count.get() < MANY:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def on_event_time(self, timestamp: int, window: TimeWindow, context: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if timestamp == window.max_timestamp() else TriggerResult.CONTINUE

    def on_processing_time(
        self, timestamp: int, window: TimeWindow, context: TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: TimeWindow, context: TriggerContext) -> None:
        context.delete_event_time_timer(window.max_timestamp())
        context.get_partitioned_state(self.states[0]).clear()


def _pipeline(function: str, process: Any, **changes: Any) -> Pipeline:
    return replace(
        pipeline_of(own_workload(function)),
        **{"select": {}, "process": process, "output": _OUTPUT, **changes},
    )


bench_median = _pipeline("median", Median(), columns=["value"])
bench_top = _pipeline("top", top)
bench_evictor = _pipeline("evictor", Sum(), evictor=CountEvictor.of(KEPT), columns=["value"])
bench_arrivals = _pipeline(
    "arrivals",
    Median(),
    window=TumblingProcessingTimeWindows.of(timedelta(milliseconds=_SIZE_MS)),
    columns=["value"],
)
bench_timers = _pipeline(
    "timers",
    WindowsByHand(),
    window=None,
    allowed_lateness=timedelta(0),
    columns=["value"],
    output=f"start_ms long, {_OUTPUT}",
)
bench_trigger = replace(pipeline_of(own_workload("trigger")), trigger=AtEndOrMany(), columns=["value"])
