"""No timer fires twice, none is lost, none fires early: random commands against a model of three sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing import KeyedProcessFunction, OrderMode
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.key_types import STRING
from slackwater.windowing.processing_time_service import ReplayProcessingTimeService
from slackwater.windowing.runtime.keyed_process_operator import KeyedProcessOperator
from slackwater.windowing.runtime.window_log import OperatorLog
from tests.properties.search import searched
from tests.properties.windowing_replays import KEYS, MAX_PARALLELISM, Play, Step, elements, scripts

Domain = str
Event = tuple[str, Domain, int, Any]  # (register, delete or fired; domain; time; key)

DOMAINS = ["event", "processing"]
TIMES = st.integers(-3, 70)
COMMANDS = st.lists(
    st.tuples(st.sampled_from(["register", "register", "delete"]), st.sampled_from(DOMAINS), TIMES),
    max_size=4,
)


class Commanded(KeyedProcessFunction):
    """Runs an element's commands, and at each timer those of the next entry of `at_timers`, until they are
    used up.

    Attributes:
        log: every command and every timer, in order. All operators share it.
        clock: at each timer, what the clock read.
    """

    def __init__(self, at_timers: list[list[tuple[str, Domain, int]]]) -> None:
        self._at_timers = list(at_timers)
        self.log: list[Event] = []
        self.clock: list[int] = []

    def __deepcopy__(self, memo: Any) -> Commanded:
        return self

    def process_element(self, value: Any, context: Any) -> None:
        self._run(value, context)

    def on_timer(self, timestamp: int, context: Any) -> None:
        self.log.append(("fired", context.time_domain, timestamp, context.current_key))
        self.clock.append(context.timer_service.current_processing_time)
        if self._at_timers:
            self._run(self._at_timers.pop(0), context)

    def _run(self, commands: list[tuple[str, Domain, int]], context: Any) -> None:
        for name, domain, time in commands:
            getattr(context.timer_service, f"{name}_{domain}_time_timer")(time)
            self.log.append((name, domain, time, context.current_key))

    def take(self) -> Iterator[Event]:
        log, self.log = self.log, []
        return iter(log)


def timers_of(playing: Play) -> dict[Domain, set[tuple[int, Any]]]:
    """(time, key) of every timer of every operator, after a check that each is there once."""
    services = [operator.timer_service for operator in playing.operators]
    found = {
        "event": [list(service.event_timers) for service in services],
        "processing": [list(s.processing_timers) for s in services],
    }
    flat = {
        domain: [(time, key) for part in parts for time, key, _ in part] for domain, parts in found.items()
    }
    assert all(len(set(timers)) == len(timers) for timers in flat.values())
    return {domain: set(timers) for domain, timers in flat.items()}


@pytest.mark.parametrize("order_mode", OrderMode)
@searched(40, long=160)
@given(
    script=scripts(elements(st.none() | TIMES, COMMANDS)),
    at_timers=st.lists(COMMANDS, max_size=12),
    cuts=st.dictionaries(st.integers(0, 25), st.integers(1, 4), max_size=3),
)
def test_every_timer_fires_once_at_the_first_step_that_reaches_it(
    order_mode: OrderMode, script: list[Step], at_timers: Any, cuts: dict[int, int]
) -> None:
    function = Commanded(at_timers)

    def make(output: Any, clock: Any, owned: KeyGroupRange) -> Any:
        return KeyedProcessOperator(
            function,
            STRING,
            output,
            clock,
            key_groups=owned,
            max_parallelism=MAX_PARALLELISM,
            order_mode=order_mode,
        )

    playing = Play(make)
    model: dict[Domain, set[tuple[int, Any]]] = {"event": set(), "processing": set()}
    now = {"event": -(2**63), "processing": 0}
    for number, step in enumerate(script):
        if number in cuts:
            playing.cut(cuts[number])
            assert timers_of(playing) == model
        domain = {"watermark": "event", "clock": "processing"}.get(step[0])
        if domain is not None:
            now[domain] = step[1]
        assert playing.step(step).error is None
        for name, of, time, key in function.take():
            if name == "register":
                model[of].add((time, key))
            elif name == "delete":
                model[of].discard((time, key))
            else:
                assert of == domain, (
                    "an element fires nothing, a clock no event timer, a watermark no clock timer"
                )
                assert (time, key) in model[of], "not registered, deleted meanwhile, or fired before"
                assert time <= now[of]
                if len(playing.operators) == 1:
                    assert time == min(model[of])[0], "an earlier one was due"
                model[of].remove((time, key))
        if domain is not None:
            assert all(time > now[domain] for time, _ in model[domain]), (
                "a timer that was reached has not fired"
            )
        assert timers_of(playing) == model
    playing.close()


@searched(60, long=240)
@given(
    registrations=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(KEYS), TIMES), max_size=12),
    at_timers=st.lists(
        st.lists(st.tuples(st.just("register"), st.just("processing"), TIMES), max_size=2), max_size=6
    ),
    order_mode=st.sampled_from(OrderMode),
)
def test_in_a_replay_each_timer_sees_the_millisecond_after_its_time_or_registration(
    registrations: Any, at_timers: Any, order_mode: OrderMode
) -> None:
    """A timer for t that an element registers at clock c fires at max(t, c) + 1; one that a timer registers
    at c, at max(t + 1, c).
    """
    function, clock = Commanded(at_timers), ReplayProcessingTimeService(0)
    operator = KeyedProcessOperator(function, STRING, OperatorLog(), clock, order_mode=order_mode)
    operator.open()
    due: dict[tuple[int, Any], int] = {}

    def check() -> None:
        """Play the log: each timer at its own moment, which may register more."""
        moments, moment = iter(function.clock), 0
        for name, _, time, key in function.take():
            if name == "fired":
                moment = next(moments)
                assert moment == due.pop((time, key))
            else:
                due.setdefault((time, key), max(time + 1, moment))
        function.clock = []

    now = 0
    for wait, key, time in registrations:
        now += wait * 10
        clock.advance_to(now)
        check()
        operator.process_element(key, [("register", "processing", time)], None)
        due.setdefault((time, key), max(time, now) + 1)
        next(function.take())
    clock.advance_to(1000)
    check()
    assert due == {}
    operator.close()
