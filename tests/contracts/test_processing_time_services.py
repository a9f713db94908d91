"""The contract of every clock with timers: the harness's, the replay's and the system's. After each step the
number of pending timers is asserted.

Times come from Flink's rules by hand: a single timer for t is due at t (harness) or t + 1 ms (production), a
periodic task always at its nominal times.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing.errors import ConfigurationError
from slackwater.windowing.processing_time_service import ClockStoppedError, ScheduledTimer
from tests.contracts.clocks import CLOCKS, Clock

Make = Callable[[int], Clock]
PERIODIC = ["schedule_at_fixed_rate", "schedule_with_fixed_delay"]


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


@pytest.mark.parametrize("schedule", PERIODIC)
def test_a_periodic_task_is_called_at_its_nominal_times_without_the_extra_millisecond(
    make: Make, schedule: str
) -> None:
    clock, calls = make(100), list[tuple[int, int]]()
    getattr(clock.service, schedule)(
        lambda time: calls.append((time, clock.service.current_processing_time)), 10, 25
    )
    for now in range(101, 162):
        clock.advance_to(now)
        assert clock.service.pending() == 1
    assert calls == [(110, 110), (135, 135), (160, 160)]


@pytest.mark.parametrize("schedule", PERIODIC)
def test_a_move_over_several_periods_calls_once_for_each(clock: Clock, schedule: str) -> None:
    calls: list[int] = []
    getattr(clock.service, schedule)(calls.append, 0, 10)
    assert calls == []
    clock.advance_to(35)
    assert calls == [0, 10, 20, 30]


@pytest.mark.parametrize("schedule", PERIODIC)
def test_a_periodic_task_cancelled_in_its_own_callback_is_not_called_again(
    clock: Clock, schedule: str
) -> None:
    calls: list[int] = []

    def twice(time: int) -> None:
        calls.append(time)
        if len(calls) == 2:
            task.cancel()

    task = getattr(clock.service, schedule)(twice, 5, 5)
    clock.advance_to(100)
    assert (calls, clock.service.pending()) == ([5, 10], 0)


@pytest.mark.parametrize("schedule", PERIODIC)
@pytest.mark.parametrize("period", [0, -1])
def test_a_period_below_one_millisecond_is_refused(clock: Clock, schedule: str, period: int) -> None:
    with pytest.raises(ConfigurationError, match=f"at least 1 ms, got {period} ms"):
        getattr(clock.service, schedule)(lambda _: None, 5, period)
    assert clock.service.pending() == 0


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


def test_after_quiescing_nothing_is_called_and_what_is_pending_stays_so(clock: Clock) -> None:
    calls: list[int] = []
    clock.service.register_timer(10, calls.append)
    clock.service.schedule_at_fixed_rate(calls.append, 5, 5)
    clock.advance_to(7)
    clock.service.quiesce()
    clock.service.quiesce()
    clock.advance_to(100)
    assert (calls, clock.service.pending()) == ([5], 2)
    assert clock.service.current_processing_time == 100


def test_registrations_after_quiescing_give_a_timer_that_is_never_due(clock: Clock) -> None:
    calls: list[int] = []
    clock.service.quiesce()
    timers = [clock.service.register_timer(5, calls.append)]
    timers += [getattr(clock.service, schedule)(calls.append, 5, 5) for schedule in PERIODIC]
    assert clock.service.pending() == 0
    clock.advance_to(100)
    for timer in timers:
        timer.cancel()
    assert calls == []


def test_a_callback_that_quiesces_comes_to_its_end_and_is_the_last(clock: Clock) -> None:
    calls: list[str] = []

    def last(time: int) -> None:
        clock.service.quiesce()
        calls.append("to its end")

    clock.service.schedule_at_fixed_rate(last, 10, 10)
    clock.service.schedule_with_fixed_delay(lambda _: calls.append("another"), 10, 10)
    clock.advance_to(100)
    assert (calls, clock.service.pending()) == (["to its end"], 1)


def test_shutdown_drops_what_is_pending_and_refuses_what_comes(clock: Clock) -> None:
    calls: list[int] = []
    timer = clock.service.register_timer(10, calls.append)
    clock.service.schedule_at_fixed_rate(calls.append, 5, 5)
    clock.service.shutdown()
    clock.service.shutdown()
    assert clock.service.pending() == 0
    with pytest.raises(ClockStoppedError, match="takes no timer for 20"):
        clock.service.register_timer(20, calls.append)
    for schedule in PERIODIC:
        with pytest.raises(ClockStoppedError):
            getattr(clock.service, schedule)(calls.append, 5, 5)
    clock.advance_to(100)
    timer.cancel()
    assert calls == []


def test_shutdown_follows_quiescing_and_not_the_other_way_round(clock: Clock) -> None:
    clock.service.register_timer(10, lambda _: None)
    clock.service.quiesce()
    clock.service.shutdown()
    clock.service.quiesce()
    assert clock.service.pending() == 0
    with pytest.raises(ClockStoppedError):
        clock.service.register_timer(20, lambda _: None)


def test_a_callback_may_shut_its_clock_down(clock: Clock) -> None:
    calls: list[int] = []

    def last(time: int) -> None:
        clock.service.shutdown()
        calls.append(time)

    clock.service.schedule_with_fixed_delay(last, 10, 10)
    clock.service.register_timer(11, calls.append)
    clock.advance_to(100)
    assert (calls, clock.service.pending()) == ([10], 0)


class Registration(NamedTuple):
    """At clock 0. It cancels itself in its call number `calls`."""

    verb: str
    time: int
    period: int
    calls: int


REGISTRATIONS = st.lists(
    st.builds(
        Registration,
        st.sampled_from(["register_timer", *PERIODIC]),
        st.integers(0, 30),
        period=st.integers(1, 9),
        calls=st.integers(1, 5),
    ),
    max_size=8,
)


def calls_by_brute_force(
    registrations: list[Registration], end: int, lateness_ms: int
) -> list[tuple[int, int]]:
    """The expected calls as (number of the registration, timestamp), found millisecond by millisecond; of
    timers that are due together the one that has waited longest comes first.
    """
    waiting = []
    for number, (verb, time, _, calls) in enumerate(registrations):
        waiting.append(
            (number, time, time + lateness_ms, 1) if verb == "register_timer" else (number, time, time, calls)
        )
    calls = []
    for now in range(end + 1):
        for entry in [entry for entry in waiting if entry[2] == now]:
            number, timestamp, _, calls_left = entry
            calls.append((number, timestamp))
            waiting.remove(entry)
            if calls_left > 1:
                next_timestamp = timestamp + registrations[number].period
                waiting.append((number, next_timestamp, next_timestamp, calls_left - 1))
    return calls


@pytest.mark.parametrize("make_clock", CLOCKS)
@given(registrations=REGISTRATIONS, moves=st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_any_registrations_are_called_as_by_brute_force_however_the_clock_is_moved(
    make_clock: Make, registrations: list[Registration], moves: list[int]
) -> None:
    clock, timers, calls_made = make_clock(0), list[ScheduledTimer](), list[tuple[int, int]]()

    def call(number: int, timestamp: int) -> None:
        calls_made.append((number, timestamp))
        if [each for each, _ in calls_made].count(number) == registrations[number].calls:
            timers[number].cancel()

    for number, (verb, time, period, _) in enumerate(registrations):
        callback = partial(call, number)
        if verb == "register_timer":
            timers.append(clock.service.register_timer(time, callback))
        else:
            timers.append(getattr(clock.service, verb)(callback, time, period))
    now = 0
    for move in moves:
        now += move
        clock.advance_to(now)
        assert calls_made == calls_by_brute_force(registrations, now, clock.lateness_ms)
