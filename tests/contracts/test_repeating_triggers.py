"""Triggers that fire while their window is open: continuous triggers and processing-time timeouts."""

from __future__ import annotations

import pytest

from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
)
from slackwater.windowing.errors import TriggerStateError
from slackwater.windowing.windows import TimeWindow

from .conftest import Ask
from .scripted import FIRE, FIRE_AND_PURGE

W = TimeWindow
A, B, BOTH = W(0, 2), W(2, 4), W(0, 4)
HOUR = W(0, 3600)
LONG_MAX = 2**63 - 1


def event_time(interval: int) -> ContinuousEventTimeTrigger:
    return ContinuousEventTimeTrigger(interval_ms=interval)


def processing_time(interval: int) -> ContinuousProcessingTimeTrigger:
    return ContinuousProcessingTimeTrigger(interval_ms=interval)


def test_continuous_event_time_without_state_neither_fails_nor_fires_at_a_foreign_timer(ask: Ask) -> None:
    harness = ask(event_time(5))
    harness.watermark(10)
    harness.element(1, A, gives=FIRE)
    harness.timer("event", 20, A)
    harness.timer("event", 1, A, gives=FIRE)
    harness.timer("processing", 1, A)
    harness.clear(A)


def test_continuous_event_time_fires_each_interval_and_at_the_last_instant(ask: Ask) -> None:
    harness = ask(event_time(1000))
    harness.element(1500, HOUR, event=2, fire_time=1)
    assert harness.timers("event") == {(2000, HOUR), (3599, HOUR)}
    harness.element(200, HOUR, event=2, fire_time=1)
    harness.watermark(1999, event=2, fire_time=1)
    harness.watermark(2000, gives=[(HOUR, FIRE)], event=2, fire_time=1)
    assert harness.timers("event") == {(3000, HOUR), (3599, HOUR)}
    harness.watermark(3000, gives=[(HOUR, FIRE)], event=1, fire_time=1)
    assert harness.timers("event") == {(3599, HOUR)}, "the next interval ends after the window"
    harness.watermark(3599, gives=[(HOUR, FIRE)], fire_time=1)


def test_continuous_event_time_keeps_windows_apart(ask: Ask) -> None:
    harness = ask(event_time(1000))
    late_hour = W(3600, 7200)
    harness.element(100, HOUR, event=2, fire_time=1)
    harness.element(3700, late_hour, event=4, fire_time=2)
    assert harness.timers("event") == {(1000, HOUR), (3599, HOUR), (4000, late_hour), (7199, late_hour)}
    harness.watermark(1000, gives=[(HOUR, FIRE)], event=4, fire_time=2)


def test_continuous_event_time_fires_a_late_element_without_arming(ask: Ask) -> None:
    harness = ask(event_time(1))
    harness.watermark(2)
    harness.element(1, A, gives=FIRE)


def test_continuous_event_time_leaves_the_timer_at_the_last_instant_behind_when_cleared(ask: Ask) -> None:
    harness = ask(event_time(1000))
    harness.element(100, HOUR, event=2, fire_time=1)
    harness.clear(HOUR, event=1)
    assert harness.timers("event") == {(3599, HOUR)}


def test_continuous_event_time_moves_the_earliest_fire_time_to_the_merged_window_and_forgets_old_timers(
    ask: Ask,
) -> None:
    harness = ask(event_time(1000))
    first, second, both = W(0, 3000), W(2500, 6000), W(0, 6000)
    harness.element(100, first, event=2, fire_time=1)
    harness.element(2600, second, event=4, fire_time=2)
    harness.merge(both, [first, second], event=5, fire_time=1)
    assert (1000, both) in harness.timers("event")
    harness.clear(first, event=5, fire_time=1)
    harness.clear(second, event=5, fire_time=1)
    harness.element(2600, both, event=6, fire_time=1)
    assert harness.timers("event") == {
        (1000, first),
        (2999, first),
        (3000, second),
        (5999, second),
        (1000, both),
        (5999, both),
    }


def test_continuous_event_time_without_a_fire_time_registers_nothing_at_a_merge(ask: Ask) -> None:
    harness = ask(event_time(1000))
    harness.merge(BOTH, [A, B])


def test_continuous_event_time_rounds_towards_zero_below_zero(ask: Ask) -> None:
    harness = ask(event_time(20))
    window = W(-100, 100)
    harness.element(-35, window, event=2, fire_time=1)
    assert harness.timers("event") == {(0, window), (99, window)}


def test_a_jump_over_several_intervals_fires_each_of_them(ask: Ask) -> None:
    harness = ask(event_time(20))
    window = W(0, 100)
    harness.element(5, window, event=2, fire_time=1)
    harness.watermark(90, gives=[(window, FIRE)] * 4, event=1, fire_time=1)
    harness.watermark(99, gives=[(window, FIRE)], fire_time=1)
    harness.clear(window)


def test_a_continuous_fire_time_wraps_and_is_then_in_the_past(ask: Ask) -> None:
    harness = ask(event_time(1000))
    window = W(LONG_MAX - 100, LONG_MAX)
    harness.element(LONG_MAX - 50, window, event=2, fire_time=1)
    fire_times = {timestamp for timestamp, _ in harness.timers("event")} - {LONG_MAX - 1}
    floor = (LONG_MAX - 50) // 1000 * 1000
    assert fire_times == {floor + 1000 - 2**64}


def test_continuous_processing_time_fires_each_interval_and_at_a_timer_at_the_last_instant(ask: Ask) -> None:
    harness = ask(processing_time(1000))
    harness.clock(1500)
    harness.element(0, HOUR, processing=1, fire_time=1)
    harness.element(0, HOUR, processing=1, fire_time=1)
    assert harness.timers("processing") == {(2000, HOUR)}
    harness.clock(2000, gives=[(HOUR, FIRE)], processing=1, fire_time=1)
    harness.clock(3000, gives=[(HOUR, FIRE)], processing=1, fire_time=1)
    assert harness.timers("processing") == {(3599, HOUR)}
    harness.clock(3599, gives=[(HOUR, FIRE)], fire_time=1)
    harness.timer("event", 3599, HOUR, fire_time=1)
    harness.clear(HOUR)


def test_continuous_processing_time_continues_at_a_clock_timer_that_is_not_its_own(ask: Ask) -> None:
    harness = ask(processing_time(1000))
    harness.element(0, HOUR, processing=1, fire_time=1)
    harness.timer("processing", 17, HOUR, processing=1, fire_time=1)


def test_continuous_processing_time_without_state_fails_at_a_foreign_timer_as_in_flink(ask: Ask) -> None:
    harness = ask(processing_time(1000))
    with pytest.raises(TriggerStateError) as refusal:
        harness.timer("processing", 17, HOUR)
    assert refusal.value.flink == "NullPointerException"
    harness.timer("processing", 3599, HOUR, gives=FIRE)


def test_continuous_processing_time_merges_to_the_earliest_fire_time(ask: Ask) -> None:
    harness = ask(processing_time(1000))
    first, second, both = W(0, 3000), W(2500, 6000), W(0, 6000)
    harness.element(0, first, processing=1, fire_time=1)
    harness.clock(999, processing=1, fire_time=1)
    harness.clock(1000, gives=[(first, FIRE)], processing=1, fire_time=1)
    harness.element(0, second, processing=2, fire_time=2)
    harness.merge(both, [first, second], processing=3, fire_time=1)
    harness.clear(first, processing=3, fire_time=1)
    harness.clear(second, processing=3, fire_time=1)
    assert harness.timers("processing") == {(2000, first), (2000, second), (2000, both)}
    harness.clear(both, processing=2)


def timeout(inner, *, resets: bool = False, clears: bool = True) -> ProcessingTimeoutTrigger:
    return ProcessingTimeoutTrigger(
        trigger=inner, timeout_ms=50, resets_timer_on_new_record=resets, clears_on_timeout=clears
    )


def test_a_timeout_counts_from_the_first_element_and_starts_afresh(ask: Ask) -> None:
    harness = ask(timeout(CountTrigger.of(3)))
    harness.element(0, HOUR, processing=1, timeout=1, count=1)
    harness.clock(20, processing=1, timeout=1, count=1)
    harness.element(0, HOUR, processing=1, timeout=1, count=1)
    assert harness.timers("processing") == {(50, HOUR)}
    harness.clock(50, gives=[(HOUR, FIRE)])
    harness.element(0, HOUR, processing=1, timeout=1, count=1)
    assert harness.timers("processing") == {(100, HOUR)}


def test_when_the_inner_trigger_fires_the_timeout_goes(ask: Ask) -> None:
    harness = ask(timeout(CountTrigger.of(2)))
    harness.element(0, HOUR, processing=1, timeout=1, count=1)
    harness.element(0, HOUR, gives=FIRE)
    harness.clock(100)


def test_a_timeout_that_resets_counts_from_the_newest_element(ask: Ask) -> None:
    harness = ask(timeout(CountTrigger.of(9), resets=True))
    harness.element(0, HOUR, processing=1, timeout=1, count=1)
    harness.clock(20, processing=1, timeout=1, count=1)
    harness.element(0, HOUR, processing=1, timeout=1, count=1)
    assert harness.timers("processing") == {(70, HOUR)}
    harness.clock(69, processing=1, timeout=1, count=1)
    harness.clock(70, gives=[(HOUR, FIRE)])


def test_a_timeout_that_does_not_clear_leaves_the_inner_state_and_fires_once(ask: Ask) -> None:
    harness = ask(timeout(CountTrigger.of(3), clears=False))
    harness.element(0, HOUR, processing=1, timeout=1, count=1)
    harness.clock(50, gives=[(HOUR, FIRE)], timeout=1, count=1)
    harness.element(0, HOUR, timeout=1, count=1)
    harness.element(0, HOUR, gives=FIRE)


def test_a_timeout_purges_when_its_inner_trigger_purges(ask: Ask) -> None:
    harness = ask(timeout(PurgingTrigger.of(CountTrigger.of(2))))
    harness.element(0, HOUR, processing=1, timeout=1, count=1)
    harness.element(0, HOUR, gives=FIRE_AND_PURGE)
    harness.element(0, HOUR, processing=1, timeout=1, count=1)
    harness.clock(
        50, gives=[(HOUR, FIRE)]
    )  # the inner one continues at a timer, so there is nothing to purge with
    assert timeout(PurgingTrigger.of(CountTrigger.of(2))).purges


def test_a_timeout_around_a_purge_that_fires_at_the_timer_fires_and_purges(ask: Ask) -> None:
    harness = ask(timeout(PurgingTrigger.of(EventTimeTrigger())))
    harness.element(0, A, event=1, processing=1, timeout=1)
    harness.watermark(1, gives=[(A, FIRE_AND_PURGE)])


def test_any_timer_of_its_window_makes_a_timeout_fire(ask: Ask) -> None:
    harness = ask(timeout(CountTrigger.of(3)))
    harness.element(0, HOUR, processing=1, timeout=1, count=1)
    harness.timer("event", 3599, HOUR, gives=FIRE)


def test_a_timeout_cannot_merge() -> None:
    assert not timeout(CountTrigger.of(3)).can_merge


def test_clearing_a_timeout_clears_both(ask: Ask) -> None:
    harness = ask(timeout(EventTimeTrigger()))
    harness.element(0, HOUR, event=1, processing=1, timeout=1)
    harness.clear(HOUR)
    harness.clear(HOUR)
