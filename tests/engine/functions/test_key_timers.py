"""Timers of processing time of one key for times that have passed: when they are due, by the rules of
`ReplayProcessingTimeService` (a timer for t, registered when the clock reads c, is due at max(t, c) + 1) and
of Flink's InternalTimerServiceImpl, which calls what is registered meanwhile with the timers that are due.
"""

from slackwater.engine.functions.walk_context import KeyTimers
from slackwater.windowing.windows import TimeWindow

WINDOW = TimeWindow(0, 10)


def timers_at(clock: int) -> KeyTimers:
    return KeyTimers(0, clock)


def test_one_that_an_element_registers_waits_for_the_next_millisecond() -> None:
    timers = timers_at(20)
    timers.add_processing(15, WINDOW)
    assert timers.poll_processing() is None
    assert timers.next_moment() == 21


def test_one_that_a_timer_registers_is_called_with_it() -> None:
    timers = timers_at(3)
    timers.add_processing(5, WINDOW)
    timers.current_processing_time, timers.is_calling_back = timers.next_moment(), True
    assert timers.poll_processing() == (5, WINDOW)
    timers.add_processing(4, WINDOW)
    timers.add_processing(6, WINDOW)
    assert timers.poll_processing() == (4, WINDOW)
    assert timers.poll_processing() is None, "6 has not passed at 6"
    timers.is_calling_back = False
    assert timers.next_moment() == 7


def test_one_that_was_deleted_and_comes_again_is_due_by_its_second_registration() -> None:
    timers = timers_at(3)
    timers.add_processing(15, WINDOW)
    timers.remove_processing(15, WINDOW)
    timers.current_processing_time = 20
    timers.add_processing(15, WINDOW)
    assert timers.next_moment() == 21
