"""The contract of every clock with timers: the harness's and the replay's. After each step the number of
pending timers is asserted.

Times come from Flink's rules by hand: a timer for t is due at t (harness) or t + 1 ms (production).
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing.processing_time_service import ScheduledTimer
from tests.contracts.clocks import CLOCKS, Clock

Make = Callable[[int], Clock]


@pytest.fixture(params=CLOCKS)
def make(request: pytest.FixtureRequest) -> Make:
    return request.param


@pytest.fixture
def clock(make: Make) -> Clock:
    return make(0)


def test_a_timer_is_called_once_at_its_time_by_the_clocks_rule(clock: Clock) -> None:
    calls: list[int] = []
    clock.service.register_timer(10, calls.append)
    clock.advance_to(9 + clock.lateness_ms)
    assert (calls, clock.service.pending()) == ([], 1)
    clock.advance_to(10 + clock.lateness_ms)
    assert (calls, clock.service.pending()) == ([10], 0)
    clock.advance_to(1_000)
    assert calls == [10]


def test_timers_are_called_in_order_of_time_and_equal_ones_in_order_of_registration(clock: Clock) -> None:
    calls: list[str] = []
    for name, time in (("late", 30), ("first", 10), ("second", 10), ("between", 20), ("third", 10)):
        clock.service.register_timer(time, lambda _, name=name: calls.append(name))
    clock.advance_to(100)
    assert calls == ["first", "second", "third", "between", "late"]


def test_a_callback_sees_the_moment_or_where_the_harness_was_moved_to(clock: Clock) -> None:
    readings: list[int] = []
    for time in (10, 20):
        clock.service.register_timer(time, lambda _: readings.append(clock.service.current_processing_time))
    clock.advance_to(50)
    assert readings == ([11, 21] if clock.stops else [50, 50])
    assert clock.service.current_processing_time == 50


def test_a_timer_for_the_past_is_never_called_inside_its_registration(make: Make) -> None:
    clock, calls = make(100), list[int]()
    clock.service.register_timer(5, calls.append)
    assert (calls, clock.service.pending()) == ([], 1)
    if clock.past_ms:
        clock.advance_to(100)
        assert calls == []
    clock.advance_to(100 + clock.past_ms)
    assert (len(calls), clock.service.pending()) == (1, 0)


def test_a_callback_may_register_again_on_the_way(clock: Clock) -> None:
    moments: list[int] = []

    def register_again(time: int) -> None:
        moments.append(time)
        clock.service.register_timer(time + 10, register_again)

    clock.service.register_timer(10, register_again)
    clock.advance_to(31)
    assert (moments, clock.service.pending()) == ([10, 20, 30], 1)


def test_a_cancelled_timer_is_not_called_and_may_be_cancelled_again(clock: Clock) -> None:
    calls: list[int] = []
    first, second = (
        clock.service.register_timer(10, calls.append),
        clock.service.register_timer(11, calls.append),
    )
    first.cancel()
    first.cancel()
    assert clock.service.pending() == 1
    clock.advance_to(20)
    assert calls == [11]
    second.cancel()
    assert clock.service.pending() == 0


def test_a_callback_may_cancel_a_timer_that_is_due_at_the_same_moment(clock: Clock) -> None:
    calls: list[int] = []
    clock.service.register_timer(10, lambda _: victim.cancel())
    victim = clock.service.register_timer(10, calls.append)
    clock.advance_to(20)
    assert (calls, clock.service.pending()) == ([], 0)


@pytest.mark.first_fast
def test_cancelled_timers_do_not_pile_up(clock: Clock) -> None:
    gc.collect()
    before = sum(isinstance(thing, ScheduledTimer) for thing in gc.get_objects())
    for time in range(5_000, 0, -1):
        clock.service.register_timer(time + 1_000, lambda _: None).cancel()
    assert sum(isinstance(thing, ScheduledTimer) for thing in gc.get_objects()) - before < 200


def test_the_timers_among_many_cancelled_ones_keep_their_order(clock: Clock) -> None:
    calls: list[int] = []
    times = [37 * number % 1_009 for number in range(1_000)]
    live_times = []
    for time in times:
        timer = clock.service.register_timer(time, calls.append)
        if time % 3:
            timer.cancel()
        else:
            live_times.append(time)
    assert clock.service.pending() == len(live_times)
    clock.advance_to(2_000)
    assert calls == sorted(live_times)


REGISTRATIONS = st.lists(st.integers(0, 30), max_size=8)


def calls_by_brute_force(times: list[int], end: int, lateness_ms: int) -> list[tuple[int, int]]:
    """The expected calls as (number of the registration, timestamp), found millisecond by millisecond."""
    return [
        (number, time)
        for now in range(end + 1)
        for number, time in enumerate(times)
        if time + lateness_ms == now
    ]


@pytest.mark.parametrize("make_clock", CLOCKS)
@given(times=REGISTRATIONS, moves=st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_any_registrations_are_called_as_by_brute_force_however_the_clock_is_moved(
    make_clock: Make, times: list[int], moves: list[int]
) -> None:
    clock, calls_made = make_clock(0), list[tuple[int, int]]()

    def call(number: int, timestamp: int) -> None:
        calls_made.append((number, timestamp))

    for number, time in enumerate(times):
        clock.service.register_timer(time, partial(call, number))
    now = 0
    for move in moves:
        now += move
        clock.advance_to(now)
        assert calls_made == calls_by_brute_force(times, now, clock.lateness_ms)
