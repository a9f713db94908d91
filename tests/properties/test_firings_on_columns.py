"""What functions are handed is the same on columns and in the operator, in memory and on disk: of windows
whose trigger fires early, that a reduce or an aggregate folds, or that merge; and so is what stays of them.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing import (
    AggregateFunction,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessWindowFunction,
)
from slackwater.windowing.order_modes import OrderMode
from tests.properties.search import searched
from tests.properties.slices import pipeline_of
from tests.properties.test_engines import (
    AT_THE_END,
    CONTINUOUS,
    COUNTED,
    FIXED,
    SESSIONS,
    purging_or_not,
    replays,
)
from tests.properties.test_functions_on_columns import FUNCTIONS, check_engines


def newest(a: Any, b: Any) -> Any:
    """Shows the order of the calls, and begins anew now and then, also in sessions that are merged."""
    if a is None or b is None:
        return a or b
    x = ((a.x or 0) * 31 + (b.x or 0)) % 1009
    return None if x % 7 == 3 else b._replace(x=x)


class Trail(AggregateFunction):
    """A list that is changed in its place, and no result for some."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        accumulator.append((value.row, value.x))
        return accumulator

    def get_result(self, accumulator: list[Any]) -> Any:
        return None if len(accumulator) % 5 == 2 else accumulator

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        return a + b


class LastElement(AggregateFunction):
    """The newest element, as it is."""

    def create_accumulator(self) -> tuple[Any, ...]:
        return ()

    def add(self, value: Any, accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*accumulator[-1:], value)

    def get_result(self, accumulator: tuple[Any, ...]) -> Any:
        return [element.row for element in accumulator]

    def merge(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        return (a + b)[-2:]


class Shown(ProcessWindowFunction):
    """What it is handed, and when."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        for element in elements:
            text = repr(tuple(element)) if hasattr(element, "row") else repr(element)
            yield (text, context.current_watermark, context.current_processing_time)


SHOWN = {"process": Shown(), "output": "text string, watermark_then long, clock long"}
FOLDS = {
    "reduce": {"reduce": newest, "columns": ["x", "row"], "output": "x int, row long"},
    "reduce, process": {"reduce": newest, **SHOWN},
    "aggregate": {"aggregate": LastElement(), "output": "rows array<long>"},
    "aggregate, process": {"aggregate": Trail(), **SHOWN},
}
ALL_FUNCTIONS = FUNCTIONS | FOLDS


@st.composite
def triggers_and_windows(draw: st.DrawFn) -> dict[str, Any]:
    """Declarations of a trigger, and of the global window where the trigger is for that alone."""
    is_global = draw(st.booleans(), label="global windows")
    kinds = COUNTED | CONTINUOUS | (AT_THE_END if is_global else st.just(EventTimeTrigger()))
    trigger = draw(purging_or_not(kinds), label="trigger")
    return {
        "trigger": trigger,
        **({"window": GlobalWindows.create(), "allowed_lateness": timedelta(0)} if is_global else {}),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_FUNCTIONS)
@given(st.data())
@searched(2, long=3)
def test_firings_hand_over_the_same(name: str, data: st.DataObject) -> None:
    rules, events = data.draw(replays(FIXED), label="replay")
    declarations = data.draw(triggers_and_windows(), label="windows")
    pipeline = replace(pipeline_of(rules, False), select={}, **declarations, **ALL_FUNCTIONS[name])
    check_engines(pipeline, rules, events, data)


@pytest.mark.slow
@given(st.data())
@searched(3, long=12)
def test_folds_come_to_the_same(data: st.DataObject) -> None:
    rules, events = data.draw(replays(FIXED), label="replay")
    name = data.draw(st.sampled_from(sorted(FOLDS)), label="function")
    purging = data.draw(st.booleans(), label="purging")
    check_engines(replace(pipeline_of(rules, purging), select={}, **FOLDS[name]), rules, events, data)


def gap_of(element: Any) -> int:
    """Gaps whose sessions merge in many ways, and may come to equal bounds."""
    return 1 + (element.x or 0) % 4 * 20


SESSION_WINDOWS = st.one_of(
    st.sampled_from([10, 20, 40, 80]).map(lambda gap: EventTimeSessionWindows(gap_ms=gap)),
    st.just(DynamicEventTimeSessionWindows(gap_ms_of=gap_of)),
)


@pytest.mark.slow
@given(st.data())
@searched(4, long=24)
def test_sessions_hand_over_the_same(data: st.DataObject) -> None:
    rules, events = data.draw(replays(SESSIONS), label="replay")
    purging = data.draw(st.booleans(), label="purging")
    name = data.draw(st.sampled_from(sorted(ALL_FUNCTIONS)), label="function")
    order_mode = data.draw(st.sampled_from([*OrderMode]), label="order mode")
    window = data.draw(SESSION_WINDOWS, label="window")
    declarations = {"window": window, **ALL_FUNCTIONS[name]}
    pipeline = replace(pipeline_of(rules, purging), select={}, **declarations)
    check_engines(pipeline, rules, events, data, order_mode=order_mode)
