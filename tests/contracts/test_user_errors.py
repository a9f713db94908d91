"""A user's function that raises: the error says where it happened, and either all that the element had
changed is undone, or the operator cannot be used any more.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from slackwater.windowing import (
    AggregateFunction,
    DeltaEvictor,
    DeltaTrigger,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    Evictor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessWindowFunction,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from slackwater.windowing.errors import UserCodeError
from slackwater.windowing.windows import TimeWindow

from .conftest import Run, Start
from .domains import Domain
from .harness import Row, WindowHarness
from .scripted import FIRE, MARK, Contents, GivenSessions, GivenWindows, ScriptedTrigger, fired_row

W = TimeWindow
FIRST = W(0, 10)
BAD = 13  # the element on which everything raises


class Thirteen(Exception):
    """What the functions of these tests raise."""


def boom(*arguments: Any) -> Any:
    raise Thirteen("thirteen")


class Sum(AggregateFunction):
    """Sums, and raises in the method that is named."""

    def __init__(self, fails_in: str) -> None:
        self.fails_in = fails_in

    def create_accumulator(self) -> int:
        return boom() if self.fails_in == "create" else 0

    def add(self, value: int, accumulator: int) -> int:
        return boom() if self.fails_in == "add" and value == BAD else accumulator + value

    def get_result(self, accumulator: int) -> int:
        return boom() if self.fails_in == "result" and accumulator >= BAD else accumulator

    def merge(self, a: int, b: int) -> int:
        return boom() if self.fails_in == "merge" else a + b


class Raising(ProcessWindowFunction):
    """Raises before its first row, after it, or when it is cleared."""

    def __init__(self, fails: str) -> None:
        self.fails = fails

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        if BAD in elements and self.fails == "at once":
            boom()
        yield tuple(elements)
        if BAD in elements and self.fails == "after a row":
            boom()

    def clear(self, context: Any) -> None:
        if self.fails == "clear":
            boom()


class Evicting(Evictor):
    """Raises before or after the function."""

    def __init__(self, fails: str) -> None:
        self.fails = fails

    def evict_before(self, elements: Any, size: int, window: Any, context: Any) -> None:
        if self.fails == "before" and any(element.value == BAD for element in elements):
            boom()

    def evict_after(self, elements: Any, size: int, window: Any, context: Any) -> None:
        if self.fails == "after" and any(element.value == BAD for element in elements):
            boom()


class Unassignable(GivenWindows):
    """Raises for the bad element."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        return boom() if element == BAD else [W(0, 10)]


class Unmergeable(GivenSessions):
    """Raises when asked to merge."""

    merge_windows = boom  # type: ignore[assignment]


@dataclass(frozen=True)
class Place:
    """Where a user's function raises, when the bad element comes at 3 after an element 1 at 2 of the same key
    and window [0, 10).

    Attributes:
        name: of the place.
        choices: for `start`.
        window: that the error names.
        is_undone: whether the operator can go on: not after a firing, a merge or a timer.
        evicts: kinds of operator in which it exists.
        watermark: that brings it about, when it is not the element.
    """

    name: str
    choices: Callable[[], dict[str, Any]]
    window: Any = FIRST
    is_undone: bool = True
    evicts: tuple[bool, ...] = (False, True)
    watermark: int | None = None


def on(**answers: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"assigner": GivenWindows(W(0, 10)), "trigger": ScriptedTrigger(**answers)}


def folding(fails_in: str, assigner: Any = None, **answers: Any) -> Callable[[], dict[str, Any]]:
    """An aggregate that raises in the method that is named; with an evictor it runs at the firing."""
    return lambda: {
        "assigner": assigner or GivenWindows(W(0, 10)),
        "trigger": ScriptedTrigger(**answers),
        "finish": lambda b: b.aggregate(Sum(fails_in)),
    }


def third_time(answer: Callable[..., Any]) -> Callable[..., Any]:
    """Does `answer` at the third question of its kind."""
    questions = itertools.count(1)
    return lambda window, context: answer(window, context) if next(questions) == 3 else None


def gap(element: Any) -> int:
    return boom() if element == BAD else 10


def distance(old: Any, new: Any) -> float:
    return boom() if new == BAD else 0.0


PLACES = [
    Place("assigner", lambda: {"assigner": Unassignable()}, window=None),
    Place("dynamic gap", lambda: {"assigner": DynamicEventTimeSessionWindows(gap_ms_of=gap)}, window=None),
    Place("merge_windows", lambda: {"assigner": Unmergeable(W(0, 10))}),
    Place(
        "reduce",
        lambda: {"assigner": GivenWindows(W(0, 10)), "finish": lambda b: b.reduce(boom)},
        evicts=(False,),
    ),
    Place("aggregate add", folding("add"), evicts=(False,)),
    Place("aggregate result", folding("result", element=FIRE), is_undone=False),
    Place("aggregate add with evictor", folding("add", element=FIRE), is_undone=False, evicts=(True,)),
    Place(
        "reduce with evictor",
        lambda: {**on(element=FIRE)(), "finish": lambda b: b.reduce(boom)},
        is_undone=False,
        evicts=(True,),
    ),
    Place(
        "on_element",
        lambda: {"assigner": GivenWindows(W(0, 10)), "trigger": ScriptedTrigger(element=third_time(boom))},
    ),
    Place(
        "delta of a trigger",
        lambda: {"assigner": GivenWindows(W(0, 10)), "trigger": DeltaTrigger.of(1, distance)},
    ),
    Place("process", lambda: {**on(element=FIRE)(), "function": Raising("at once")}, is_undone=False),
    Place(
        "process, after a row",
        lambda: {**on(element=FIRE)(), "function": Raising("after a row")},
        is_undone=False,
    ),
    Place(
        "evict_before",
        lambda: {**on(element=FIRE)(), "evictor": Evicting("before")},
        is_undone=False,
        evicts=(True,),
    ),
    Place(
        "evict_after",
        lambda: {**on(element=FIRE)(), "evictor": Evicting("after")},
        is_undone=False,
        evicts=(True,),
    ),
    Place(
        "delta of an evictor",
        lambda: {**on(element=FIRE)(), "evictor": DeltaEvictor.of(1, distance)},
        is_undone=False,
        evicts=(True,),
    ),
    Place(
        "on_merge",
        lambda: {"assigner": EventTimeSessionWindows(gap_ms=8), "trigger": ScriptedTrigger(merge=boom)},
        window=W(2, 11),
        is_undone=False,
    ),
    Place(
        "clear of an absorbed window",
        lambda: {"assigner": EventTimeSessionWindows(gap_ms=8), "trigger": ScriptedTrigger(clear=boom)},
        window=W(2, 10),
        is_undone=False,
    ),
    Place("on_event_time", on(event=boom), is_undone=False, watermark=9),
    Place("aggregate result at a timer", folding("result", event=FIRE), is_undone=False, watermark=9),
    Place(
        "process at a timer",
        lambda: {**on(event=FIRE)(), "function": Raising("at once")},
        is_undone=False,
        watermark=9,
    ),
    Place("clear of a trigger", on(clear=boom), is_undone=False, watermark=9),
    Place(
        "clear of a function", lambda: {**on()(), "function": Raising("clear")}, is_undone=False, watermark=9
    ),
]


def provoke(windows: WindowHarness, place: Place) -> UserCodeError:
    """Bring the error about, and return it."""
    windows.output.take()
    with pytest.raises(UserCodeError) as error_info:
        windows.operator.process_element("a", BAD, 3)
        if place.watermark is not None:
            windows.output.take()
            windows.operator.process_watermark(place.watermark)
    return error_info.value


def state_of_function(windows: WindowHarness) -> Any:
    """All state and timers, in an order of their own."""
    entries = sorted(repr(entry) for entry in windows.operator.backend.entries())
    return entries, {domain: sorted(map(repr, timers)) for domain, timers in windows.timers().items()}


@pytest.mark.parametrize("on_error", ["fail", "quarantine"])
@pytest.mark.parametrize(
    ("place", "evicts"),
    [
        pytest.param(place, evicts, id=f"{place.name}-{'evicting' if evicts else 'regular'}")
        for place in PLACES
        for evicts in place.evicts
    ],
)
def test_an_error_names_key_window_and_timestamp_and_undoes_an_element_alone(
    start: Start, evicts: bool, place: Place, on_error: str
) -> None:
    choices = place.choices()
    windows = start(choices.pop("assigner"), on_error=on_error, **choices)
    windows.operator.process_element("a", 1, 2)
    windows.operator.process_element("b", 1, 2)
    before = state_of_function(windows)
    error = provoke(windows, place)
    timestamp = 3 if place.watermark is None else place.watermark
    assert error.key in ("a", "b") if place.watermark else error.key == "a"
    assert (error.window, error.timestamp, error.fault) == (place.window, timestamp, "user")
    during = "processing an element" if place.watermark is None else "handling a timer of event time"
    assert error.during == during
    assert isinstance(error.__cause__, Thirteen)
    assert f"A user function raised Thirteen while {during}: thirteen" in str(error)
    assert f"key {error.key!r}, window {place.window!r}, timestamp {timestamp}" in str(error)
    assert error.undone is (on_error == "quarantine" and place.is_undone)
    if error.undone:
        assert state_of_function(windows) == before
        assert windows.output.take() == []


def test_an_undone_element_takes_merges_trigger_state_timers_and_rows_with_it(start: Start) -> None:
    """An element of two windows: the first merges two sessions, arms, and fires; the second raises."""
    assigner = GivenSessions(W(0, 10))

    def arm(window: Any, context: Any) -> Any:
        mark = context.get_partitioned_state(MARK)
        if window == W(100, 110):
            boom()
        mark.update((mark.value() or 0) + 1)
        context.register_event_time_timer(77)
        context.register_processing_time_timer(78)
        context.delete_event_time_timer(5)
        return FIRE

    def disarm(window: Any, context: Any) -> None:
        context.get_partitioned_state(MARK).clear()
        context.delete_event_time_timer(77)
        context.delete_processing_time_timer(78)

    trigger = ScriptedTrigger(element=arm, clear=disarm)
    windows = start(assigner, trigger=trigger, on_error="quarantine")
    windows.element(1, 1, out=[fired_row(W(0, 10), 1)], contents=1, sessions=1, mark=1, event=2, processing=1)
    assigner.windows = [W(20, 30)]
    windows.element(
        2, 1, out=[fired_row(W(20, 30), 2)], contents=2, sessions=1, mark=2, event=4, processing=2
    )
    sessions, timers = windows.sessions(), windows.timers()
    assigner.windows = [W(5, 25), W(100, 110)]
    with pytest.raises(UserCodeError) as error_info:
        windows.operator.process_element("a", 3, 1)
    assert error_info.value.undone
    assert error_info.value.window == W(100, 110)
    windows.check(contents=2, sessions=1, mark=2, event=4, processing=2)
    assert (windows.sessions(), windows.timers()) == (sessions, timers)
    assigner.windows = [W(5, 25)]
    merged_row = fired_row(W(0, 30), 2, 1, 4)
    windows.element(4, 1, out=[merged_row], contents=1, sessions=1, mark=1, event=2, processing=1)


def test_rows_of_a_good_element_come_out_in_order_when_it_is_done(start: Start) -> None:
    windows = start(
        GivenWindows(W(0, 10), W(5, 15)), trigger=ScriptedTrigger(element=FIRE), on_error="quarantine"
    )
    windows.element("x", 1, out=[fired_row(W(0, 10), "x"), fired_row(W(5, 15), "x")], contents=2, event=2)


def test_a_watermark_works_as_ever_when_elements_are_quarantined(start: Start, domain: Domain) -> None:
    windows = start(domain.tumbling(10), on_error="quarantine", evictor=None, function=Contents())
    windows.element("x", 1, contents=1, **domain.timers(1))
    windows.snapshot_and_restore(contents=1, **domain.timers(1))
    windows.operator.process_watermark(9) if domain.is_event_time else windows.clock_service.advance_to(9)
    assert windows.output.take()[0] == fired_row(W(0, 10), "x")
    windows.check()


class Storing(KeyedProcessFunction):
    """Changes every kind of state, in place where that is possible, registers and deletes timers, emits, and
    then may raise.
    """

    def open(self, runtime_context: Any) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value"))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list"))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map"))
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b))

    def process_element(self, value: Any, context: Any) -> Any:
        elements = self.value.value() or []
        elements.append(value)
        self.value.update(elements)
        self.list.add(value)
        numbers = self.map.get("numbers") or []
        numbers.append(value)
        self.map.put("numbers", numbers)
        self.map.put(value, value)
        self.map.remove(1)
        self.sum.add(value)
        context.timer_service.register_event_time_timer(value)
        context.timer_service.register_processing_time_timer(value)
        context.timer_service.delete_event_time_timer(1)
        context.output("side", value)
        yield value
        if value == BAD:
            boom()

    def on_timer(self, timestamp: int, context: Any) -> Any:
        if timestamp == BAD + 1:
            boom()
        return [(timestamp, context.time_domain)]


ENTRIES = {"value": 1, "list": 1, "map": 1, "sum": 1}


def test_an_undone_element_of_a_keyed_process_function_has_never_been(run: Run) -> None:
    running = run(Storing(), on_error="quarantine")
    running.operator.process_element("a", 2, 1)
    running.output.take()
    running.check(**ENTRIES, event=1, processing=1)
    before = sorted(repr(entry) for entry in running.operator.backend.entries())
    with pytest.raises(UserCodeError) as error_info:
        running.operator.process_element("a", BAD, 3)
    assert error_info.value.undone
    assert (error_info.value.key, error_info.value.window, error_info.value.timestamp) == ("a", None, 3)
    running.check(**ENTRIES, event=1, processing=1)
    assert sorted(repr(entry) for entry in running.operator.backend.entries()) == before
    running.watermark(2, out=[Row((2, "event"), None, 2, "a")], **ENTRIES, processing=1)


@pytest.mark.parametrize("on_error", ["fail", "quarantine"])
def test_an_error_in_a_timer_is_never_undone(run: Run, domain: Domain, on_error: str) -> None:
    running = run(Storing(), on_error=on_error)
    running.operator.process_element("a", BAD + 1, 3)
    with pytest.raises(UserCodeError) as error_info:
        if domain.is_event_time:
            running.operator.process_watermark(BAD + 1)
        else:
            running.clocks[0].advance_to(BAD + 1)
    error = error_info.value
    assert (error.key, error.timestamp, error.undone) == ("a", BAD + 1, False)
    assert error.during == f"handling a timer of {domain.name} time"


def test_in_fail_mode_an_element_is_not_undone(run: Run) -> None:
    running = run(Storing())
    with pytest.raises(UserCodeError) as error_info:
        running.operator.process_element("a", BAD, 3)
    assert not error_info.value.undone
    assert running.output.take() != []
