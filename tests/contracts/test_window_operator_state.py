"""The state that a window operator keeps for its users, per window and for all windows, and what the contexts
of their functions show.
"""

from __future__ import annotations

import operator
from typing import Any

import pytest

from slackwater.windowing import (
    AggregateFunction,
    AggregatingStateDescriptor,
    CountTrigger,
    EventTimeTrigger,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    PurgingTrigger,
    ReducingStateDescriptor,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WindowFunction,
)
from slackwater.windowing.errors import StateAccessError
from slackwater.windowing.windows import TimeWindow

from .conftest import Start
from .domains import Domain
from .harness import Row, Side
from .scripted import (
    FIRE,
    FIRE_AND_PURGE,
    Contents,
    GivenSessions,
    GivenWindows,
    ScriptedTrigger,
    cleared_row,
    fired_row,
)

W = TimeWindow
FIRINGS = ValueStateDescriptor("firings")
TOTAL = ValueStateDescriptor("total")


class Sum(AggregateFunction):
    """Sums numbers; the result of an even sum is None."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int | None:
        return accumulator if accumulator % 2 else None

    def merge(self, a: int, b: int) -> int:
        return a + b


class Remembering(ProcessWindowFunction):
    """Counts firings in per-window state and elements in global state; `clear` tells both and removes the
    former.
    """

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        firings, total = context.window_state().get_state(FIRINGS), context.global_state().get_state(TOTAL)
        firings.update((firings.value() or 0) + 1)
        total.update((total.value() or 0) + len(list(elements)))
        return [(firings.value(), total.value())]

    def clear(self, context: Any) -> None:
        firings, total = context.window_state().get_state(FIRINGS), context.global_state().get_state(TOTAL)
        context.output("cleared", (firings.value(), total.value()))
        firings.clear()


def test_per_window_state_survives_a_purge_and_goes_when_the_users_clear_removes_it(
    start: Start, domain: Domain
) -> None:
    windows = start(
        GivenWindows(W(0, 20), is_event_time=domain.is_event_time),
        trigger=ScriptedTrigger(element=FIRE_AND_PURGE),
        function=Remembering(),
    )
    windows.element("x", 1, out=[Row((1, 1), W(0, 20), 19, "a")], firings=1, total=1, **domain.timers(1))
    windows.element("y", 1, out=[Row((2, 2), W(0, 20), 19, "a")], firings=1, total=1, **domain.timers(1))
    domain.advance(windows, 19, out=[Side("cleared", (2, 2), W(0, 20), 19, "a")], total=1)
    windows.element(
        "z",
        1,
        key="b",
        out=_none_if(domain.is_event_time, Row((1, 1), W(0, 20), 19, "b")),
        **_second_key(domain),
    )


def test_the_users_clear_is_called_once_and_not_at_a_purge(start: Start, domain: Domain) -> None:
    trigger = ScriptedTrigger(element=FIRE_AND_PURGE, **{domain.name: FIRE})
    windows = start(GivenWindows(W(0, 20), is_event_time=domain.is_event_time), trigger=trigger)
    windows.element("x", 1, out=[fired_row(W(0, 20), "x")], **domain.timers(1))
    windows.element("y", 1, out=[fired_row(W(0, 20), "y")], **domain.timers(1))
    domain.advance(windows, 19, out=[cleared_row(W(0, 20))])


def test_at_the_users_clear_the_contents_and_trigger_state_are_gone_and_window_state_is_there(
    start: Start,
) -> None:
    namespaces: list[Any] = []
    trigger = ScriptedTrigger(
        event=FIRE, clear=lambda window, context: namespaces.append(windows.namespaces("window-contents"))
    )
    windows = start(GivenWindows(W(0, 20)), trigger=trigger, function=Remembering())
    windows.element("x", 1, contents=1, event=1)
    rows = [Row((1, 1), W(0, 20), 19, "a"), Side("cleared", (1, 1), W(0, 20), 19, "a")]
    windows.watermark(19, out=rows, total=1)
    assert namespaces == [set()]


FIVE_KINDS = [
    ValueStateDescriptor("value"),
    ListStateDescriptor("list"),
    MapStateDescriptor("map"),
    ReducingStateDescriptor("reducing", operator.add),
    AggregatingStateDescriptor("aggregating", Sum()),
]
_GETTERS = {"value": "get_state", "list": "get_list_state", "map": "get_map_state"}


def handle(store: Any, descriptor: Any) -> Any:
    return getattr(store, _GETTERS.get(descriptor.kind, f"get_{descriptor.kind}_state"))(descriptor)


class Asking(ProcessWindowFunction):
    """Asks one store for the state of one descriptor, uses it, and emits what it reads."""

    def __init__(self, store: str, descriptor: Any) -> None:
        self.store, self.descriptor = store, descriptor

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        state = handle(getattr(context, self.store)(), self.descriptor)
        match self.descriptor.kind:
            case "value":
                state.update(7)
                return [state.value()]
            case "map":
                state.put("k", 7)
                return [dict(state.items())]
            case _:
                state.add(7)
                return [state.get()]


@pytest.mark.parametrize("descriptor", FIVE_KINDS, ids=lambda descriptor: descriptor.kind)
def test_window_and_global_state_offer_the_same_five_kinds(start: Start, descriptor: Any) -> None:
    expected = {"list": [7], "map": {"k": 7}}.get(descriptor.kind, 7)
    for store in ("window_state", "global_state"):
        windows = start(
            GivenWindows(W(0, 20)), trigger=ScriptedTrigger(element=FIRE), function=Asking(store, descriptor)
        )
        windows.element(
            "x", 1, out=[Row(expected, W(0, 20), 19, "a")], contents=1, event=1, **{descriptor.kind: 1}
        )
        assert windows.namespaces(descriptor.kind) == {W(0, 20) if store == "window_state" else None}


@pytest.mark.parametrize("descriptor", FIVE_KINDS, ids=lambda descriptor: descriptor.kind)
def test_windows_that_merge_have_no_window_state_but_global_state(start: Start, descriptor: Any) -> None:
    trigger = ScriptedTrigger(element=FIRE)
    windows = start(GivenSessions(W(0, 20)), trigger=trigger, function=Asking("window_state", descriptor))
    with pytest.raises(StateAccessError) as refusal:
        windows.operator.process_element("a", "x", 1)
    assert refusal.value.flink == "UnsupportedOperationException"
    assert refusal.value.window == W(0, 20)
    others = start(GivenSessions(W(0, 20)), trigger=trigger, function=Asking("global_state", descriptor))
    expected = {"list": [7], "map": {"k": 7}}.get(descriptor.kind, 7)
    others.element(
        "x",
        1,
        out=[Row(expected, W(0, 20), 19, "a")],
        contents=1,
        sessions=1,
        event=1,
        **{descriptor.kind: 1},
    )


class ThroughRuntimeContext(ProcessWindowFunction):
    """Writes through the runtime context and reads through the global state."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(TOTAL)

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        self.total.update((self.total.value() or 0) + 1)
        return [context.global_state().get_state(TOTAL).value()]


def test_state_of_the_runtime_context_is_the_global_state_of_the_current_key(start: Start) -> None:
    windows = start(
        GivenWindows(W(0, 20)), trigger=ScriptedTrigger(element=FIRE), function=ThroughRuntimeContext()
    )
    windows.element("x", 1, out=[Row(1, W(0, 20), 19, "a")], contents=1, total=1, event=1)
    windows.element("y", 1, key="b", out=[Row(1, W(0, 20), 19, "b")], contents=2, total=2, event=2)
    windows.element("z", 1, out=[Row(2, W(0, 20), 19, "a")], contents=2, total=2, event=2)


class Telling(ProcessWindowFunction):
    """Emits the times that its context tells, also when a window is cleared."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return [(context.window, context.current_watermark, context.current_processing_time)]

    def clear(self, context: Any) -> None:
        context.output(
            "cleared", (context.window, context.current_watermark, context.current_processing_time)
        )


def test_triggers_functions_and_assigners_see_the_current_watermark_and_clock(
    start: Start, domain: Domain
) -> None:
    times: list[Any] = []

    def look(window: Any, context: Any) -> Any:
        times.append((context.current_watermark, context.current_processing_time))
        return FIRE

    trigger = ScriptedTrigger(element=look, clear=look, **{domain.name: look})
    windows = start(
        GivenWindows(W(0, 20), is_event_time=domain.is_event_time), trigger=trigger, function=Telling()
    )
    windows.clock(7)
    windows.watermark(5)
    windows.element("x", 1, out=[Row((W(0, 20), 5, 7), W(0, 20), 19, "a")], contents=1, **domain.timers(1))
    now = (19, 7) if domain.is_event_time else (5, 19)
    row, side = Row((W(0, 20), *now), W(0, 20), 19, "a"), Side("cleared", (W(0, 20), *now), W(0, 20), 19, "a")
    domain.advance(windows, 19, out=[row, side])
    assert times == [(5, 7), now, now]


def test_a_timer_sees_the_watermark_that_was_jumped_to(start: Start) -> None:
    windows = start(TumblingEventTimeWindows(size_ms=10), function=Telling())
    windows.element("x", 1, contents=1, event=1)
    windows.watermark(
        500,
        out=[
            Row((W(0, 10), 500, 0), W(0, 10), 9, "a"),
            Side("cleared", (W(0, 10), 500, 0), W(0, 10), 9, "a"),
        ],
    )


class Poking(ProcessWindowFunction):
    """Adds 100 to the per-window reducing state "count", which is the count trigger's own."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        context.window_state().get_reducing_state(ReducingStateDescriptor("count", operator.add)).add(100)
        return [tuple(elements)]


def test_trigger_state_and_window_state_of_one_name_are_one_state(start: Start) -> None:
    windows = start(GivenWindows(W(0, 20)), trigger=CountTrigger.of(2), function=Poking())
    windows.element(1, 1, contents=1, count=1, event=1)
    windows.element(2, 1, out=[fired_row(W(0, 20), 1, 2)], contents=1, count=1, event=1)
    windows.element(3, 1, out=[fired_row(W(0, 20), 1, 2, 3)], contents=1, count=1, event=1)
    windows.element(4, 1, out=[fired_row(W(0, 20), 1, 2, 3, 4)], contents=1, count=1, event=1)
    windows.watermark(19)


def test_one_name_for_two_kinds_of_state_is_refused(start: Start) -> None:
    windows = start(
        GivenWindows(W(0, 20)),
        trigger=CountTrigger.of(1),
        function=Asking("window_state", ListStateDescriptor("count")),
    )
    with pytest.raises(StateAccessError, match="'count' is reducing state already and cannot be list state"):
        windows.operator.process_element("a", 1, 1)


@pytest.mark.parametrize("evicts", [False], ids=["regular"])
def test_a_result_of_none_emits_nothing(start: Start) -> None:
    windows = start(
        GivenWindows(W(0, 20)),
        trigger=ScriptedTrigger(element=FIRE),
        finish=lambda builder: builder.aggregate(Sum()),
    )
    windows.element(1, 1, out=[Row(1, W(0, 20), 19, "a")], contents=1, event=1)
    windows.element(1, 1, contents=1, event=1)
    windows.element(1, 1, out=[Row(3, W(0, 20), 19, "a")], contents=1, event=1)


@pytest.mark.parametrize("evicts", [False], ids=["regular"])
def test_an_element_of_none_clears_folded_contents(start: Start) -> None:
    for finish in (lambda builder: builder.reduce(operator.add), lambda builder: builder.aggregate(Sum())):
        windows = start(GivenWindows(W(0, 20)), trigger=ScriptedTrigger(element=FIRE), finish=finish)
        windows.element(1, 1, out=[Row(1, W(0, 20), 19, "a")], contents=1, event=1)
        windows.element(None, 1, event=1)
        windows.element(5, 1, out=[Row(5, W(0, 20), 19, "a")], contents=1, event=1)


@pytest.mark.parametrize("evicts", [False], ids=["regular"])
def test_a_reduce_that_returns_none_leaves_an_entry_that_reads_as_no_contents(start: Start) -> None:
    windows = start(
        GivenWindows(W(0, 20)),
        trigger=ScriptedTrigger(element=FIRE),
        finish=lambda builder: builder.reduce(lambda a, b: a + b or None),
    )
    windows.element(1, 1, out=[Row(1, W(0, 20), 19, "a")], contents=1, event=1)
    windows.element(-1, 1, contents=1, event=1)
    windows.element(4, 1, out=[Row(4, W(0, 20), 19, "a")], contents=1, event=1)


def test_a_purging_refire_holds_only_what_came_since(start: Start) -> None:
    windows = start(
        TumblingEventTimeWindows(size_ms=10), trigger=PurgingTrigger.of(EventTimeTrigger()), lateness=20
    )
    windows.element(1, 3, contents=1, event=2)
    windows.watermark(9, out=[fired_row(W(0, 10), 1)], event=1)
    windows.element(2, 4, out=[fired_row(W(0, 10), 2)], event=1)
    windows.watermark(29, out=[cleared_row(W(0, 10))])


class All(ProcessAllWindowFunction):
    """Tells what a function over all elements is given."""

    def process(self, context: Any, elements: Any) -> Any:
        assert not hasattr(context, "key")
        return [(context.window, tuple(elements))]

    def clear(self, context: Any) -> None:
        context.output("cleared", None)


def test_functions_over_all_elements_get_no_key(start: Start) -> None:
    windows = start(TumblingEventTimeWindows(size_ms=10), function=All())
    windows.element(1, 3, contents=1, event=1)
    windows.watermark(9, out=[Row((W(0, 10), (1,)), W(0, 10), 9, "a"), cleared_row(W(0, 10))])


class Older(WindowFunction):
    """A function without a context, thus without `clear`."""

    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return [(key, window, tuple(inputs))]


def test_the_older_window_function_gets_key_window_and_elements(start: Start) -> None:
    windows = start(TumblingEventTimeWindows(size_ms=10), finish=lambda builder: builder.apply(Older()))
    windows.element(1, 3, contents=1, event=1)
    windows.watermark(9, out=[Row(("a", W(0, 10), (1,)), W(0, 10), 9, "a")])


class OpenedOnce(Contents):
    """Counts how often it was opened and closed, over all its copies."""

    calls: list[str]

    def open(self, runtime_context: Any) -> None:
        self.calls.append("open")

    def close(self) -> None:
        self.calls.append("close")

    def __deepcopy__(self, memo: Any) -> OpenedOnce:
        copy = OpenedOnce()
        copy.calls = self.calls
        return copy


def test_a_function_is_opened_once_and_closed_once(start: Start) -> None:
    function = OpenedOnce()
    function.calls = []
    windows = start(TumblingEventTimeWindows(size_ms=10), function=function)
    windows.element(1, 3, contents=1, event=1)
    assert function.calls == ["open"]
    windows.snapshot_and_restore(contents=1, event=1)
    assert function.calls == ["open", "close", "open"]


def test_operators_do_not_share_what_a_function_keeps_in_itself(start: Start) -> None:
    class Counting(ProcessWindowFunction):
        def __init__(self) -> None:
            self.firings = 0

        def process(self, key: Any, context: Any, elements: Any) -> Any:
            self.firings += 1
            return [self.firings]

    function = Counting()
    for _ in range(2):
        windows = start(GivenWindows(W(0, 20)), trigger=ScriptedTrigger(element=FIRE), function=function)
        windows.element(1, 3, out=[Row(1, W(0, 20), 19, "a")], contents=1, event=1)
    assert function.firings == 0


def _none_if(is_late: bool, row: Row) -> list[Row]:
    return [] if is_late else [row]


def _second_key(domain: Domain) -> dict[str, int]:
    """After the cleanup: in event time a further element is late, in processing time it opens the window
    anew.
    """
    return {"total": 1, "dropped": 1} if domain.is_event_time else {"total": 2, "firings": 1, "processing": 1}
