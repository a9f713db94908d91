"""Random pipelines: any assigner, trigger and evictor with a select or a function of the user's own, over
events of a few columns.

Strategies and the functions that they draw from; what is run with them is others' business.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from slackwater.pipelines import Pipeline
from slackwater.windowing import (
    AggregateFunction,
    MergingWindowAssigner,
    ProcessWindowFunction,
    ReducingStateDescriptor,
    TimeWindow,
    Trigger,
    TriggerResult,
    ValueStateDescriptor,
    WindowAssigner,
    WindowFunction,
)
from tests.model import records as model
from tests.properties import windowing_choices
from tests.properties.own_windows import Spans, SpanSessions
from tests.properties.slices import SELECT, declared

START = 1_000_000
KEYS = ["a", "b", "key1", "ключ"]


def gap_of(element: Any) -> int:
    return 4 + (element.x or 0) % 5 * 6


def distance(a: Any, b: Any) -> int:
    return abs((a.x or 0) - (b.x or 0))


@dataclass(frozen=True)
class ByValue(WindowAssigner):
    """Two windows whose length the element decides, none for an element without a value."""

    length_ms: int

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        if element.x is None:
            return []
        start = timestamp - timestamp % self.length_ms
        return [
            TimeWindow(start, start + self.length_ms),
            TimeWindow(start, start + (2 + element.x % 2) * self.length_ms),
        ]


ODD = ReducingStateDescriptor("odd-seen", operator.add, sql_type="long")


@dataclass(frozen=True)
class Odd(Trigger):
    """Fires at every second odd value, a while after an even one by the clock, and at the window's end."""

    can_merge = True
    states = (ODD,)

    pause_ms: int = 7

    def on_element(self, element: Any, timestamp: int, window: Any, context: Any) -> TriggerResult:
        context.register_event_time_timer(window.max_timestamp())
        odd = context.get_partitioned_state(ODD)
        if (element.x or 0) % 2 == 0:
            context.register_processing_time_timer(context.current_processing_time + self.pause_ms)
            return TriggerResult.CONTINUE
        odd.add(1)
        return TriggerResult.FIRE if odd.get() % 2 == 0 else TriggerResult.CONTINUE

    def on_event_time(self, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return TriggerResult.FIRE if timestamp == window.max_timestamp() else TriggerResult.CONTINUE

    def on_processing_time(self, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return TriggerResult.FIRE

    def on_merge(self, window: Any, context: Any) -> None:
        context.merge_partitioned_state(ODD)
        context.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Any, context: Any) -> None:
        context.get_partitioned_state(ODD).clear()
        context.delete_event_time_timer(window.max_timestamp())


class Trail(ProcessWindowFunction):
    """A row for each element in its order, odd ones in a side output, too; tells of the window's end."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        for position, element in enumerate(elements):
            yield (key, position, element.x, element.event_time)
            if (element.x or 0) % 2:
                context.output("odd", {"x": element.x, "key": key})

    def clear(self, context: Any) -> None:
        context.output("cleared", (context.current_watermark, context.current_processing_time))


class Seen(ProcessWindowFunction):
    """What a fold has come to, with the time of both domains."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        for element in elements:
            seen = f"{element.row}: {element.x}" if hasattr(element, "row") else element
            yield (seen, context.current_watermark, context.current_processing_time)


class Rows(WindowFunction):
    """The rows of the elements in their order, as one list."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
        return [[element.row for element in inputs]]


class Remembering(ProcessWindowFunction):
    """Chains what the key has seen in its state, and counts firings in the window's state, where there is
    any: order shows.
    """

    def __init__(self, has_window_state: bool) -> None:
        self.has_window_state = has_window_state

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        chain = context.global_state().get_state(ValueStateDescriptor("chain"))
        chain.update(((chain.value() or "") + "|" + ",".join(str(element.row) for element in elements))[-60:])
        firings = None
        if self.has_window_state:
            counter = context.window_state().get_reducing_state(FIRINGS)
            counter.add(1)
            firings = counter.get()
        return [{"chain": chain.value(), "fired": firings}]

    def clear(self, context: Any) -> None:
        if self.has_window_state:
            context.window_state().get_reducing_state(FIRINGS).clear()


FIRINGS = ReducingStateDescriptor("firings", operator.add)


def latest(a: Any, b: Any) -> Any:
    """An element that shows the order in which it was folded."""
    return b._replace(x=((a.x or 0) * 31 + (b.x or 0)) % 1009)


class Concat(AggregateFunction):
    """Text that shows the order of calls, and no result for a text of even length."""

    def create_accumulator(self) -> str:
        return ""

    def add(self, value: Any, accumulator: str) -> str:
        return f"{accumulator}{value.x},"

    def get_result(self, accumulator: str) -> str | None:
        return accumulator if len(accumulator) % 2 else None

    def merge(self, a: str, b: str) -> str:
        return f"[{a}|{b}]"


SEEN = "seen string, watermark_then long, clock long"
FUNCTIONS: dict[str, dict[str, Any]] = {
    "select": {"select": SELECT},
    "process": {
        "process": Trail(),
        "output": "key string, position long, x int, at_time timestamp",
        "side_outputs": {"odd": "key string, x int", "cleared": "watermark_then long, clock long"},
    },
    "apply": {"process": Rows(), "output": "rows array<long>", "columns": ["row"]},
    "reduce": {"reduce": latest, "output": "x int, row long", "columns": ["x", "row"]},
    "reduce, process": {"reduce": latest, "process": Seen(), "output": SEEN},
    "aggregate": {"aggregate": Concat(), "output": "trail string"},
    "aggregate, process": {"aggregate": Concat(), "process": Seen(), "output": SEEN},
    "process with state": {"output": "chain string, fired long"},
}


@st.composite
def pipelines(draw: st.DrawFn, rules: model.Replay) -> Pipeline:
    """Any pipeline whose parts go together, with the watermarks, lateness and bounds of the rules."""
    assigner = draw(windowing_choices.assigners(gap_of) | st.just(ByValue(12)))
    merges = isinstance(assigner, MergingWindowAssigner)
    name = draw(st.sampled_from(sorted(FUNCTIONS)), label="function")
    function = FUNCTIONS[name]
    if name == "process with state":
        function = {**function, "process": Remembering(has_window_state=not merges)}
    if "columns" in function and name in ("apply", "reduce"):
        function = {
            **function,
            "columns": [*function["columns"], "x"],
        }  # which dynamic gaps, triggers and evictors read
    return declared(
        rules,
        window=assigner,
        trigger=draw(windowing_choices.triggers(assigner, distance) | st.just(Odd())),
        evictor=draw(windowing_choices.evictors(distance)),
        flink_exact=draw(st.booleans()),
        **function,
    )


@st.composite
def pipelines_and_mimics(draw: st.DrawFn, rules: model.Replay) -> tuple[Pipeline, Pipeline]:
    """Any pipeline with time windows, and the same with windows of a class that mimics them."""
    plain = draw(pipelines(rules).filter(lambda pipeline: pipeline.windows.window_type is TimeWindow))
    assigner = plain.windows
    merges = isinstance(assigner, MergingWindowAssigner)
    mimic = SpanSessions(assigner) if merges else Spans(assigner)
    return plain, replace(plain, window=mimic, trigger=plain.effective_trigger)


@st.composite
def replays(draw: st.DrawFn) -> tuple[model.Replay, list[model.Event]]:
    """A range of some windows, and events out of order, with ties, idle source partitions and a few unusable
    rows.
    """
    length = draw(st.sampled_from([100, 60, 30, 7]))
    rules = model.Replay(
        start=START,
        to=START + length,
        tick=draw(st.sampled_from([4, 10])),
        bound=draw(st.sampled_from([0, 5, 15])),
        assigner=model.Tumbling(10),
        allowed_lateness=draw(st.sampled_from([0, 7, 30])),
        idle_timeout=draw(st.sampled_from([None, 12])),
    )
    row = st.tuples(
        st.one_of(
            st.integers(-15, 5), st.integers(-40, 30), st.integers(-15, 5) | st.none()
        ),  # event time after arrival
        st.integers(-5, length + 5),
        st.sampled_from(["s", "s", "t"]),
        st.sampled_from(["a", "a", "a", *KEYS, None]),
        st.one_of(st.none(), st.integers(0, 9)),
        st.one_of(st.none(), st.sampled_from([0.1, -0.0, 1e300, 2.5])),
    )
    size = draw(st.sampled_from([20, 12, 30, 3]))
    rows = draw(st.lists(row, min_size=size, max_size=size))
    return rules, [
        model.Event(
            None if ahead is None else START + arrival + ahead,
            START + arrival,
            source,
            number,
            key,
            {"x": x, "y": y},
        )
        for number, (ahead, arrival, source, key, x, y) in enumerate(rows)
    ]
