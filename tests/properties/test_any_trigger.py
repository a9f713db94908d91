"""Under any trigger windows leave the same, whether they hold numbers of elements or the elements themselves,
in memory or on disk, and this may change between any two runs: sessions that fire before their end, triggers
of deltas and timeouts, and functions that keep state.
"""

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing import (
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeTrigger,
    GlobalWindows,
    ListStateDescriptor,
    MapStateDescriptor,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    ProcessWindowFunction,
    ReducingStateDescriptor,
    Trigger,
    TriggerResult,
    ValueStateDescriptor,
)
from slackwater.windowing.errors import StateAccessError
from slackwater.windowing.order_modes import OrderMode
from tests.model import records as model
from tests.properties.search import searched
from tests.properties.slices import pipeline_of, replay_pipeline
from tests.properties.test_engines import (
    AT_THE_END,
    CONTINUOUS,
    COUNTED,
    FIXED,
    OPERATOR,
    SESSIONS,
    purging_or_not,
    replays,
)
from tests.properties.test_firings_on_columns import (
    ALL_FUNCTIONS,
    SESSION_WINDOWS,
)
from tests.properties.test_functions_on_columns import ON_COLUMNS, check_engines
from tests.properties.test_split_and_parallelism import START, TICK

ROWS = ListStateDescriptor("rows")
FIRINGS = ValueStateDescriptor("firings")
PARITIES = MapStateDescriptor("parities")


def distance(a: Any, b: Any) -> int:
    return abs((a.x or 0) - (b.x or 0))


DELTAS = st.builds(DeltaTrigger, threshold=st.sampled_from([0.0, 2.0, 9.0]), delta=st.just(distance))


def timeouts(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        ProcessingTimeoutTrigger,
        trigger=inner,
        timeout_ms=st.sampled_from([0, 3, 40]),
        resets_timer_on_new_record=st.booleans(),
        clears_on_timeout=st.booleans(),
    )


class Remembering(ProcessWindowFunction):
    """Shows what it keeps for its key and for its window."""

    def open(self, runtime_context: Any) -> None:
        self.parities = runtime_context.get_map_state(PARITIES)

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        rows, firings = context.global_state().get_list_state(ROWS), self.firings(context)
        if firings is not None:
            firings.update((firings.value() or 0) + 1)
        for element in elements:
            parity = getattr(element, "x", None) or 0
            self.parities.put(parity % 2, (self.parities.get(parity % 2) or 0) + 1)
            rows.add(getattr(element, "row", -1))
        if len(rows.get()) > 9:
            rows.clear()
        facts = [*rows.get(), *sorted(self.parities.items()), context.current_processing_time]
        yield {"seen": repr(facts), "times": 0 if firings is None else firings.value()}

    def firings(self, context: Any) -> Any:
        """The state of the window; None where windows merge."""
        return context.window_state().get_state(FIRINGS)


class Forgetting(Remembering):
    """Forgets some of it when a window is collected."""

    def clear(self, context: Any) -> None:
        firings = self.firings(context)
        if firings is not None:
            context.output("ended", {"times": firings.value(), "watermark_then": context.current_watermark})
            if (firings.value() or 0) % 2:
                firings.clear()
        elif self.parities.contains(1):
            self.parities.remove(1)


class ForgettingSessions(Forgetting):
    def firings(self, context: Any) -> None:
        return None


def with_state(process: ProcessWindowFunction) -> dict[str, Any]:
    return {
        "process": process,
        "output": "seen string, times long",
        "side_outputs": {"ended": "times long, watermark_then long"},
    }


@pytest.mark.slow
@given(st.data())
@searched(4, long=40)
def test_sessions_that_fire_early_leave_the_same(data: st.DataObject) -> None:
    rules, events = data.draw(replays(SESSIONS), label="replay")
    trigger = data.draw(purging_or_not(COUNTED | CONTINUOUS), label="trigger")
    name = data.draw(st.sampled_from(sorted(ALL_FUNCTIONS)), label="function")
    window = data.draw(SESSION_WINDOWS, label="window")
    order_mode = data.draw(st.sampled_from([*OrderMode]), label="order mode")
    declarations = {"trigger": trigger, "window": window, **ALL_FUNCTIONS[name]}
    pipeline = replace(pipeline_of(rules, False), select={}, **declarations)
    check_engines(pipeline, rules, events, data, order_mode=order_mode)


@pytest.mark.slow
@given(st.data())
@searched(4, long=30)
def test_deltas_and_timeouts_leave_the_same(data: st.DataObject) -> None:
    rules, events = data.draw(replays(FIXED), label="replay")
    is_global = data.draw(st.booleans(), label="global windows")
    others = COUNTED | CONTINUOUS | (AT_THE_END if is_global else st.just(EventTimeTrigger()))
    trigger = data.draw(purging_or_not(DELTAS | timeouts(purging_or_not(DELTAS | others))), label="trigger")
    name = data.draw(st.sampled_from(sorted(ALL_FUNCTIONS)), label="function")
    pipeline = replace(pipeline_of(rules, False), select={}, trigger=trigger, **ALL_FUNCTIONS[name])
    if is_global:
        pipeline = replace(pipeline, window=GlobalWindows.create(), allowed_lateness=timedelta(0))
    check_engines(pipeline, rules, events, data)


ACTS = (
    "due_then",
    "no_longer_due",
    "due_by_clock",
    "no_longer_due_by_clock",
    "count",
    "note",
    "forget",
    "nothing",
)


@dataclass(frozen=True)
class Erratic(Trigger):
    """Does at each call what a table says of the call's facts: timers of any time, those that have passed
    included, state of several kinds, and every answer.
    """

    can_merge = True
    purges = True
    states = (ReducingStateDescriptor("calls", operator.add), ListStateDescriptor("notes"))

    acts: tuple[str, ...]
    answers: tuple[TriggerResult, ...]
    moves_ms: tuple[int, ...]

    def on_element(self, element: Any, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return self._act(context, timestamp + (element.x or 0), may_be_past=True)

    def on_event_time(self, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return self._act(context, timestamp, may_be_past=False)

    def on_processing_time(self, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return self._act(context, timestamp + 1, may_be_past=False)

    def on_merge(self, window: Any, context: Any) -> None:
        for state in self.states:
            context.merge_partitioned_state(state)

    def clear(self, window: Any, context: Any) -> None:
        for state in self.states:
            context.get_partitioned_state(state).clear()

    def _act(self, context: Any, fact: int, *, may_be_past: bool) -> TriggerResult:
        """`may_be_past`: whether a timer may have passed; one that registers such timers would never end."""
        calls, notes = (context.get_partitioned_state(state) for state in self.states)
        number = fact + (calls.get() or 0) + len(notes.get() or ())
        act, move = self.acts[number % len(self.acts)], self.moves_ms[number % len(self.moves_ms)]
        moment, now = fact + move, context.current_processing_time
        if act == "due_then":
            context.register_event_time_timer(moment if may_be_past else max(moment, fact + 5))
        elif act == "no_longer_due":
            context.delete_event_time_timer(moment)
        elif act == "due_by_clock":
            context.register_processing_time_timer(now + (move if may_be_past else max(move, 5)))
        elif act == "no_longer_due_by_clock":
            context.delete_processing_time_timer(now + move)
        elif act == "count":
            calls.add(1)
        elif act == "note":
            notes.add(fact % 5)
        elif act == "forget":
            calls.clear()
            notes.clear()
        return self.answers[number % len(self.answers)]


class Blind(Erratic):
    """Looks at no element."""

    def on_element(self, element: Any, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return self._act(context, timestamp, may_be_past=True)


ERRATIC, BLIND = (
    st.builds(
        kind,
        acts=st.lists(st.sampled_from(ACTS), min_size=1, max_size=7).map(tuple),
        answers=st.lists(st.sampled_from([*TriggerResult]), min_size=1, max_size=5).map(tuple),
        moves_ms=st.lists(st.sampled_from([1, 9, 30, 200, -1, -40, 0]), min_size=1, max_size=4).map(tuple),
    )
    for kind in (Erratic, Blind)
)
BY_CLOCK = st.just(ProcessingTimeTrigger()) | st.builds(
    ContinuousProcessingTimeTrigger, interval_ms=st.sampled_from([10, 35])
)


@pytest.mark.slow
@given(st.data())
@searched(8, long=80)
def test_own_triggers_and_those_of_the_clock_leave_the_same(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["fixed", "sessions", "global"]), label="windows")
    rules, events = data.draw(replays(SESSIONS if kind == "sessions" else FIXED), label="replay")
    trigger = data.draw(ERRATIC | purging_or_not(ERRATIC | BY_CLOCK), label="trigger")
    name = data.draw(st.sampled_from(sorted(ALL_FUNCTIONS)), label="function")
    pipeline = replace(pipeline_of(rules, False), select={}, trigger=trigger, **ALL_FUNCTIONS[name])
    if kind == "global":
        pipeline = replace(pipeline, window=GlobalWindows.create(), allowed_lateness=timedelta(0))
    check_engines(pipeline, rules, events, data)


@pytest.mark.slow
@given(st.data())
@searched(8, long=80)
def test_aggregates_under_any_trigger_leave_the_same(data: st.DataObject) -> None:
    is_global = data.draw(st.booleans(), label="global windows")
    rules, events = data.draw(replays(FIXED), label="replay")
    others = COUNTED | CONTINUOUS | (AT_THE_END if is_global else st.just(EventTimeTrigger()))
    triggers = BLIND | purging_or_not(BY_CLOCK | timeouts(purging_or_not(others)))
    pipeline = replace(pipeline_of(rules, False), trigger=data.draw(triggers, label="trigger"))
    if is_global:
        pipeline = replace(pipeline, window=GlobalWindows.create(), allowed_lateness=timedelta(0))
    check_engines(pipeline, rules, events, data)


@pytest.mark.slow
@given(st.data())
@searched(4, long=30)
def test_functions_that_keep_state_leave_the_same(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["fixed", "global", "sessions"]), label="windows")
    rules, events = data.draw(replays(SESSIONS if kind == "sessions" else FIXED), label="replay")
    triggers = COUNTED | CONTINUOUS | st.just(NeverTrigger() if kind == "global" else EventTimeTrigger())
    trigger = data.draw(purging_or_not(triggers), label="trigger")
    functions = [ForgettingSessions()] if kind == "sessions" else [Remembering(), Forgetting()]
    process = data.draw(st.sampled_from(functions), label="function")
    pipeline = replace(pipeline_of(rules, False), select={}, trigger=trigger, **with_state(process))
    if kind == "global":
        pipeline = replace(pipeline, window=GlobalWindows.create(), allowed_lateness=timedelta(0))
    check_engines(pipeline, rules, events, data)


class Collided(ProcessWindowFunction):
    """Counts in the state of the trigger, which has the same name."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        count = context.window_state().get_reducing_state(CountTrigger.states[0])
        count.add(1)
        yield (count.get(), len(list(elements)))


def test_a_function_does_not_share_the_state_of_the_trigger() -> None:
    rules = model.Replay(START, START + 400, TICK, 0, model.Tumbling(100), 0, None)
    events = [model.Event(START + at, START + at, "s", at, "a", {"x": at}) for at in (0, 10, 120)]
    declarations = {"process": Collided(), "output": "count long, n long", "trigger": CountTrigger.of(2)}
    pipeline = replace(pipeline_of(rules, False), select={}, **declarations)
    for engine in (OPERATOR, ON_COLUMNS):
        with pytest.raises(StateAccessError, match="'count' of a window is its trigger's; give") as failure:
            replay_pipeline(pipeline, events, rules, [], [1], engines=[engine])
        assert failure.value.key == "a"
