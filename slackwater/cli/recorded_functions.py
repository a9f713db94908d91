"""The functions of recorded cases as a pipeline's user would write them, of elements with a field `value`;
and the effects of a step, from Flink's record or from a replay, in a form to compare.

What a function emits becomes one column of JSON, so that emitted rows can be compared whatever their types.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from slackwater.conformance import functions
from slackwater.conformance.declarations import PointSessionWindows
from slackwater.conformance.trace import Json
from slackwater.windowing import (
    AggregateFunction,
    DeltaEvictor,
    DeltaTrigger,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    Evictor,
    ProcessingTimeoutTrigger,
    ProcessWindowFunction,
    PurgingTrigger,
    Trigger,
    WindowAssigner,
    WindowFunction,
)
from slackwater.windowing.errors import TraceError

EMISSION = "emitted"
SIDE = "side"


def as_json(value: Any) -> str:
    """What a function emits, as text; without the clock, which moves otherwise here than in the recording."""
    if isinstance(value, dict):
        value = {name: item for name, item in value.items() if name != "processing_time"}
    return json.dumps(value, sort_keys=True)


class Emitting(ProcessWindowFunction):
    """Calls a recorded function with the values of elements, and not its `clear`."""

    def __init__(self, function: ProcessWindowFunction, read: Callable[[Any], Any]) -> None:
        self.function = function
        self.read = read

    def open(self, runtime_context: Any) -> None:
        self.function.open(runtime_context)

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        for row in self.function.process(key, SideContext(context), map(self.read, elements)) or ():
            yield {EMISSION: as_json(row)}


class Clearing(Emitting):
    """`Emitting` for a function with state of a window. What it writes while it clears that is left out."""

    def clear(self, context: Any) -> None:
        self.function.clear(SilentContext(context))


class SideContext:
    """A WindowContext whose side output takes JSON."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def output(self, tag: str, value: Any) -> None:
        self._context.output(tag, {EMISSION: as_json(value)})


class SilentContext(SideContext):
    """A WindowContext without side outputs."""

    def output(self, tag: str, value: Any) -> None:
        pass


class Applying(WindowFunction):
    """`Emitting` for the older kind of function."""

    def __init__(self, function: WindowFunction) -> None:
        self.function = function

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterator[Any]:
        for row in self.function.apply(key, window, map(_value, inputs)) or ():
            yield {EMISSION: as_json(row)}


class Aggregating(AggregateFunction):
    """Calls a recorded aggregate with the values of elements."""

    def __init__(self, function: AggregateFunction) -> None:
        self.function = function

    def create_accumulator(self) -> Any:
        return self.function.create_accumulator()

    def add(self, value: Any, accumulator: Any) -> Any:
        return self.function.add(value.value, accumulator)

    def get_result(self, accumulator: Any) -> Any:
        return self.function.get_result(accumulator)

    def merge(self, a: Any, b: Any) -> Any:
        return self.function.merge(a, b)


class Each(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        return elements


class Reducing:
    """Calls a recorded reduce with the values of elements."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function

    def __call__(self, a: Any, b: Any) -> Any:
        value = self.function(a.value, b.value)
        return None if value is None else a._replace(value=value)


def _value(element: Any) -> Any:
    return None if element is None else element.value


def _itself(result: Any) -> Any:
    return result


def _reduce(function: Callable[[Any, Any], Any], process: ProcessWindowFunction | None = None) -> Json:
    return {"reduce": Reducing(function), "process": Emitting(process or Each(), _value)}


def _aggregate(function: AggregateFunction, process: ProcessWindowFunction | None = None) -> Json:
    return {"aggregate": Aggregating(function), "process": Emitting(process or Each(), _itself)}


def _process(function: ProcessWindowFunction) -> Json:
    return {"process": Emitting(function, _value)}


_DECLARATIONS: dict[str, Callable[[Json], Json]] = {
    "reduce_sum": lambda _: _reduce(functions.add),
    "reduce_concat": lambda _: _reduce(functions.concat, functions.Text()),
    "reduce_null_on_zero": lambda _: _reduce(functions.add_or_none),
    "reduce_then_process": lambda _: _reduce(functions.add, functions.Describe()),
    "aggregate_avg": lambda _: _aggregate(functions.Average()),
    "aggregate_concat": lambda _: _aggregate(functions.Concat()),
    "aggregate_null_when_even": lambda _: _aggregate(functions.NullWhenEven()),
    "aggregate_then_process": lambda _: _aggregate(functions.SumAggregate(), functions.Describe()),
    "process_list": lambda _: _process(functions.ListProcess()),
    "apply_list": lambda _: {"process": Applying(functions.ListApply())},
    "process_multi": lambda _: _process(functions.Multi()),
    "process_state": lambda config: {"process": Clearing(functions.WithState(config["clear"]), _value)},
    "process_global_state": lambda _: _process(functions.WithGlobalState()),
    "process_count_collision": lambda _: _process(functions.CountCollision()),
}


def declarations_of(function: Json) -> Json:
    """What a pipeline declares for a recorded function."""
    if function["type"] not in _DECLARATIONS:
        raise TraceError(f"no function {function['type']!r}")
    return {
        **_DECLARATIONS[function["type"]](function),
        "output": f"{EMISSION} string",
        "side_outputs": {SIDE: f"{EMISSION} string"},
        "columns": ["value"],
    }


class OfValues:
    """A recorded function of values, called with elements."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *elements: Any) -> Any:
        return self.function(*(element.value for element in elements))


def assigner_of_elements(assigner: WindowAssigner) -> WindowAssigner:
    if isinstance(assigner, DynamicEventTimeSessionWindows | DynamicProcessingTimeSessionWindows):
        return type(assigner)(gap_ms_of=OfValues(assigner.gap_ms_of))
    if isinstance(assigner, PointSessionWindows):
        raise TraceError("its assigner looks at plain values")
    return assigner


def trigger_of_elements(trigger: Trigger | None) -> Trigger | None:
    if isinstance(trigger, PurgingTrigger | ProcessingTimeoutTrigger):
        return replace(trigger, trigger=trigger_of_elements(trigger.trigger) or trigger.trigger)
    if isinstance(trigger, DeltaTrigger):
        return DeltaTrigger.of(trigger.threshold, OfValues(trigger.delta))
    return trigger


def evictor_of_elements(evictor: Evictor | None) -> Evictor | None:
    if isinstance(evictor, DeltaEvictor):
        return DeltaEvictor.of(evictor.threshold, OfValues(evictor.delta), evictor.do_evict_after)
    return evictor


def _facts_of_numbers(numbers: list[int]) -> Json:
    return {"n": len(numbers), "total": int(np.sum(numbers)), "least": min(numbers), "greatest": max(numbers)}


def _facts_of_text(text: str) -> Json:
    return _facts_of_numbers([int(number) for number in re.findall(r"-?\d+", text)])


# Recorded function → what a value that it emitted says about the elements of the window, in any order.
FACTS_OF_VALUE: Mapping[str, Callable[[Any], Json]] = {
    "reduce_sum": lambda value: {"total": value},
    "reduce_concat": _facts_of_text,
    "reduce_then_process": lambda value: {"total": value["result"], "watermark": value["watermark"]},
    "aggregate_avg": lambda value: {"total": value["sum"], "n": value["count"], "average": value["avg"]},
    "aggregate_concat": _facts_of_text,
    "aggregate_then_process": lambda value: {"total": value["result"], "watermark": value["watermark"]},
    "process_list": _facts_of_numbers,
    "apply_list": _facts_of_numbers,
    "process_global_state": lambda value: _facts_of_numbers(value["values"]),
}


class StepResult(NamedTuple):
    """What one step of a case caused: emitted rows, late elements, and the number of dropped elements."""

    rows: list[Json]
    late: list[Json]
    dropped_elements: int

    def with_facts(self, names: Set[str]) -> "StepResult":
        """The same, with only the facts `names` of each row: those that the recorded function tells."""
        return self._replace(
            rows=[{name: row[name] for name in row if name in names or name == "side"} for row in self.rows]
        )

    def comparable(self) -> Json:
        """The result as JSON: equal results give equal JSON, whatever the order of their rows."""
        return {
            "rows": sorted(json.dumps(row, sort_keys=True) for row in self.rows),
            "late": sorted(json.dumps(row, sort_keys=True) for row in self.late),
            "dropped": self.dropped_elements,
        }


def value_as_json(value: Any) -> Json:
    return {EMISSION: as_json(value)}


def recorded_result(step: Json, facts: Callable[[Any], Json]) -> StepResult:
    """What Flink did in a step, from its record; `facts` are those that an emitted value tells."""
    rows, late = [], []
    for entry in step["out"]:
        if "error" in entry:
            raise TraceError("Flink refuses a step of it")
        if "late" in entry:
            late.append({name: entry["late"][name] for name in ("key", "value", "timestamp")})
        elif "value" in entry and entry.get("side") != "cleared":
            rows.append(
                {
                    **({"side": entry["side"]} if "side" in entry else {}),
                    "key": entry["key"],
                    "window": entry["window"],
                    "timestamp": entry["timestamp"],
                    **facts(entry["value"]),
                }
            )
    return StepResult(rows, late, step["late_dropped"])
