"""The two clocks that are moved by hand: when a timer is due, what the clock reads during a callback, and
where an error of a callback is raised.
"""

import pytest

from slackwater.windowing.errors import ConfigurationError
from slackwater.windowing.processing_time_service import (
    HarnessProcessingTimeService,
    ReplayProcessingTimeService,
)

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


def test_the_harness_clock_calls_back_at_the_time_itself_and_reads_where_it_was_moved_to() -> None:
    clock, calls = HarnessProcessingTimeService(), []
    for timestamp in (20, 10, 30):
        clock.register_timer(timestamp, lambda time: calls.append((time, clock.current_processing_time)))
    clock.advance_to(20)
    assert calls == [(10, 20), (20, 20)]
    assert clock.pending() == 1


def test_a_harness_timer_for_the_past_waits_for_the_next_move() -> None:
    clock, calls = HarnessProcessingTimeService(50), []
    clock.register_timer(10, calls.append)
    assert calls == []
    clock.advance_to(50)
    assert calls == [10]


def test_the_harness_clock_may_go_back_and_calls_what_is_due_there_alone() -> None:
    clock, calls = HarnessProcessingTimeService(50), []
    for timestamp in (20, 40):
        clock.register_timer(timestamp, calls.append)
    clock.advance_to(30)
    assert (calls, clock.pending(), clock.current_processing_time) == ([20], 1, 30)


def test_the_harness_clock_reaches_long_max() -> None:
    clock, calls = HarnessProcessingTimeService(LONG_MIN), []
    clock.register_timer(LONG_MAX, calls.append)
    clock.advance_to(LONG_MAX - 1)
    assert calls == []
    clock.advance_to(LONG_MAX)
    assert calls == [LONG_MAX]


def test_the_replay_clock_calls_back_one_millisecond_later_and_stops_at_each_moment() -> None:
    clock, calls = ReplayProcessingTimeService(0), []
    for timestamp in (20, 10):
        clock.register_timer(timestamp, lambda time: calls.append((time, clock.current_processing_time)))
    clock.advance_to(20)
    assert calls == [(10, 11)]
    assert clock.current_processing_time == 20
    clock.advance_to(21)
    assert calls == [(10, 11), (20, 21)]


def test_a_replay_timer_for_the_past_is_due_one_millisecond_after_its_registration() -> None:
    clock, calls = ReplayProcessingTimeService(100), []
    clock.register_timer(5, lambda time: calls.append((time, clock.current_processing_time)))
    clock.advance_to(100)
    assert calls == []
    clock.advance_to(200)
    assert calls == [(100, 101)]


def test_a_replay_callback_that_registers_for_the_past_lets_the_clock_go_on() -> None:
    clock, moments = ReplayProcessingTimeService(0), []

    def register_again(time: int) -> None:
        moments.append(clock.current_processing_time)
        clock.register_timer(0, register_again)

    clock.register_timer(0, register_again)
    clock.advance_to(4)
    assert moments == [1, 2, 3, 4]


def test_a_replay_timer_at_long_max_is_never_due() -> None:
    clock, calls = ReplayProcessingTimeService(0), []
    clock.register_timer(LONG_MAX, calls.append)
    clock.advance_to(LONG_MAX)
    assert (calls, clock.pending()) == ([], 1)


def test_a_callback_may_register_again_on_the_way() -> None:
    clock, moments = ReplayProcessingTimeService(0), []

    def register_again(time: int) -> None:
        moments.append(clock.current_processing_time)
        clock.register_timer(clock.current_processing_time + 9, register_again)

    clock.register_timer(9, register_again)
    clock.advance_to(35)
    assert moments == [10, 20, 30]


def test_the_replay_clock_never_goes_back() -> None:
    clock = ReplayProcessingTimeService(10)
    with pytest.raises(ConfigurationError, match="cannot go back from 10 to 9"):
        clock.advance_to(9)


@pytest.mark.parametrize("clock", [HarnessProcessingTimeService(), ReplayProcessingTimeService(0)])
def test_cancelled_timers_are_not_called(
    clock: HarnessProcessingTimeService | ReplayProcessingTimeService,
) -> None:
    calls: list[int] = []
    clock.register_timer(1, calls.append).cancel()
    clock.register_timer(2, calls.append)
    clock.register_timer(10, calls.append)
    clock.advance_to(5)
    assert calls == [2]
    assert clock.pending() == 1


@pytest.mark.parametrize("clock", [HarnessProcessingTimeService(), ReplayProcessingTimeService(0)])
def test_an_error_of_a_callback_reaches_the_mover_of_the_clock_and_the_next_move_goes_on(
    clock: HarnessProcessingTimeService | ReplayProcessingTimeService,
) -> None:
    calls: list[int] = []

    def fails(time: int) -> None:
        raise ZeroDivisionError(f"at {time}")

    clock.register_timer(5, fails)
    clock.register_timer(6, calls.append)
    with pytest.raises(ZeroDivisionError, match="at 5"):
        clock.advance_to(20)
    assert clock.pending() == 1
    clock.advance_to(20)
    assert (calls, clock.pending()) == ([6], 0)
