"""What happens to a window when its time comes: firing, purging, collecting, by the watermark and by the
clock alike.
"""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.windowing import GLOBAL_WINDOW, TumblingEventTimeWindows, TumblingProcessingTimeWindows
from slackwater.windowing.windows import TimeWindow

from .conftest import Start
from .domains import Domain
from .scripted import (
    CONTINUE,
    FIRE,
    FIRE_AND_PURGE,
    MARK,
    PURGE,
    GivenSessions,
    GivenWindows,
    ScriptedTrigger,
    cleared_row,
    fired_row,
)

W = TimeWindow
LONG_MAX = 2**63 - 1
FAR = 1000


def arming(domain: Domain, time: int) -> Any:
    """Leave trigger state and a timer."""

    def answer(window: Any, context: Any) -> None:
        context.get_partitioned_state(MARK).update("hello")
        domain.register(context, time)

    return answer


def disarming(domain: Domain, time: int) -> Any:
    """Take both away again."""

    def answer(window: Any, context: Any) -> None:
        context.get_partitioned_state(MARK).clear()
        domain.delete(context, time)

    return answer


@pytest.mark.parametrize("result", [CONTINUE, FIRE, FIRE_AND_PURGE, PURGE], ids=lambda result: result.name)
def test_a_timer_fires_and_purges_as_the_trigger_says_and_leaves_the_rest(
    start: Start, domain: Domain, result: Any
) -> None:
    trigger = ScriptedTrigger(element=arming(domain, 3), **{domain.name: result})
    windows = start(GivenWindows(W(0, 10), is_event_time=domain.is_event_time), trigger=trigger)
    windows.element("x", 1, contents=1, mark=1, **domain.timers(2))
    out = [fired_row(W(0, 10), "x")] if result.is_fire else []
    domain.advance(windows, 3, out=out, contents=0 if result.is_purge else 1, mark=1, **domain.timers(1))
    assert trigger.take() == [("element", W(0, 10)), (domain.name, W(0, 10), 3)]


def test_a_purge_at_a_timer_keeps_the_session(start: Start, domain: Domain) -> None:
    trigger = ScriptedTrigger(
        element=lambda window, context: domain.register(context, 1), **{domain.name: PURGE}
    )
    windows = start(GivenSessions(W(0, 4), is_event_time=domain.is_event_time), trigger=trigger)
    windows.element("x", 0, contents=1, sessions=1, **domain.timers(2))
    domain.advance(windows, 1, sessions=1, **domain.timers(1))
    assert windows.sessions() == {W(0, 4): W(0, 4)}


@pytest.mark.parametrize("assigner", [GivenWindows, GivenSessions])
def test_a_purged_window_asks_its_trigger_and_calls_no_function(
    start: Start, domain: Domain, assigner: type[GivenWindows]
) -> None:
    def purge_and_arm(window: Any, context: Any) -> Any:
        domain.register(context, 3)
        return PURGE

    trigger = ScriptedTrigger(element=purge_and_arm, **{domain.name: FIRE})
    windows = start(assigner(W(0, 10), is_event_time=domain.is_event_time), trigger=trigger)
    sessions = int(assigner is GivenSessions)
    windows.element("x", 1, sessions=sessions, **domain.timers(2))
    domain.advance(windows, 3, sessions=sessions, **domain.timers(1))
    domain.advance(windows, 9, out=[cleared_row(W(0, 10))])
    assert [question for question in trigger.take() if question[0] == domain.name] == [
        (domain.name, W(0, 10), 3),
        (domain.name, W(0, 10), 9),
    ]


def test_a_timer_of_a_collected_session_is_ignored(start: Start, domain: Domain) -> None:
    trigger = ScriptedTrigger(
        element=lambda window, context: domain.register(context, FAR), **{domain.name: FIRE}
    )
    windows = start(GivenSessions(W(0, 4), is_event_time=domain.is_event_time), trigger=trigger)
    windows.element("x", 0, contents=1, sessions=1, **domain.timers(2))
    domain.advance(windows, 3, out=[fired_row(W(0, 4), "x"), cleared_row(W(0, 4))], **domain.timers(1))
    trigger.take()
    domain.advance(windows, FAR)
    assert trigger.take() == []


def test_a_timer_of_a_collected_window_that_does_not_merge_still_reaches_the_trigger(
    start: Start, domain: Domain
) -> None:
    trigger = ScriptedTrigger(
        element=lambda window, context: domain.register(context, FAR), **{domain.name: FIRE}
    )
    windows = start(GivenWindows(W(0, 4), is_event_time=domain.is_event_time), trigger=trigger)
    windows.element("x", 0, contents=1, **domain.timers(2))
    domain.advance(windows, 3, out=[fired_row(W(0, 4), "x"), cleared_row(W(0, 4))], **domain.timers(1))
    trigger.take()
    domain.advance(windows, FAR)
    assert trigger.take() == [(domain.name, W(0, 4), FAR)]


def test_triggers_register_and_delete_timers_of_their_window(start: Start, domain: Domain) -> None:
    trigger = ScriptedTrigger(element=lambda window, context: domain.register(context, 3))
    windows = start(GivenWindows(W(0, 10), is_event_time=domain.is_event_time), trigger=trigger)
    windows.element("x", 1, contents=1, **domain.timers(2))
    windows.element("y", 1, contents=1, **domain.timers(2))
    assert windows.timers()[domain.name] == {(3, "a", W(0, 10)), (9, "a", W(0, 10))}
    trigger.answers["element"] = lambda window, context: domain.delete(context, 3)
    windows.element("z", 1, contents=1, **domain.timers(1))
    windows.element("z", 1, contents=1, **domain.timers(1))
    trigger.take()
    domain.advance(windows, 5, contents=1, **domain.timers(1))
    assert trigger.take() == [], "a deleted timer must not fire"


def test_a_timer_fires_once_at_its_time(start: Start, domain: Domain) -> None:
    trigger = ScriptedTrigger(element=lambda window, context: domain.register(context, 3))
    windows = start(GivenWindows(W(0, 10), is_event_time=domain.is_event_time), trigger=trigger)
    windows.element("x", 1, contents=1, **domain.timers(2))
    trigger.take()
    domain.advance(windows, 2, contents=1, **domain.timers(2))
    assert trigger.take() == []
    domain.advance(windows, 3, contents=1, **domain.timers(1))
    assert trigger.take() == [(domain.name, W(0, 10), 3)]
    domain.advance(windows, 4, contents=1, **domain.timers(1))
    assert trigger.take() == []


def test_equal_timers_of_both_domains_are_two_timers(start: Start) -> None:
    def arm_both(window: Any, context: Any) -> None:
        context.register_event_time_timer(3)
        context.register_processing_time_timer(3)

    trigger = ScriptedTrigger(element=arm_both)
    windows = start(GivenWindows(W(0, 10)), trigger=trigger)
    windows.element("x", 1, contents=1, event=2, processing=1)
    trigger.take()
    windows.watermark(3, contents=1, event=1, processing=1)
    windows.clock(3, contents=1, event=1)
    assert trigger.take() == [("event", W(0, 10), 3), ("processing", W(0, 10), 3)]


def test_a_timer_registered_at_a_timer_for_a_time_that_has_come_fires_in_the_same_advance(
    start: Start, domain: Domain
) -> None:
    trigger = ScriptedTrigger(element=lambda window, context: domain.register(context, 3))
    trigger.answers[domain.name] = lambda window, context: (
        domain.register(context, 2) if len(trigger.questions) < 4 else None
    )
    windows = start(GivenWindows(W(0, 10), is_event_time=domain.is_event_time), trigger=trigger)
    windows.element("x", 1, contents=1, **domain.timers(2))
    domain.advance(windows, 5, contents=1, **domain.timers(1))
    assert [question[2] for question in trigger.take()[1:]] == [3, 2, 2]


def test_the_global_window_has_no_cleanup_timer(start: Start, domain: Domain) -> None:
    windows = start(
        GivenWindows(GLOBAL_WINDOW, is_event_time=domain.is_event_time), trigger=ScriptedTrigger()
    )
    windows.element("x", 1, contents=1)
    domain.advance(windows, LONG_MAX, contents=1)


def test_a_cleanup_time_beyond_the_greatest_timestamp_is_never(start: Start) -> None:
    windows = start(GivenWindows(W(0, LONG_MAX - 10)), trigger=ScriptedTrigger(), lateness=20)
    windows.element("x", 1, contents=1)
    windows.watermark(LONG_MAX - 11, contents=1)
    windows.element("y", 1, contents=1)


def test_in_processing_time_lateness_does_not_move_the_cleanup_timer(start: Start) -> None:
    windows = start(
        GivenWindows(W(0, LONG_MAX - 10), is_event_time=False), trigger=ScriptedTrigger(), lateness=20
    )
    windows.element("x", 1, contents=1, processing=1)
    assert windows.timers()["processing"] == {(LONG_MAX - 11, "a", W(0, LONG_MAX - 10))}
    windows.clock(LONG_MAX - 10, out=[cleared_row(W(0, LONG_MAX - 10))])


def test_the_cleanup_timer_asks_the_trigger_which_may_fire_a_last_time(start: Start, domain: Domain) -> None:
    trigger = ScriptedTrigger(**{domain.name: FIRE})
    lateness = 20 if domain.is_event_time else 0
    windows = start(
        GivenWindows(W(0, 20), is_event_time=domain.is_event_time), trigger=trigger, lateness=lateness
    )
    windows.element("x", 1, contents=1, **domain.timers(1))
    domain.advance(windows, 18 + lateness, contents=1, **domain.timers(1))
    assert trigger.take() == [("element", W(0, 20))]
    domain.advance(windows, 19 + lateness, out=[fired_row(W(0, 20), "x"), cleared_row(W(0, 20))])
    assert trigger.take() == [(domain.name, W(0, 20), 19 + lateness), ("clear", W(0, 20))]


def test_a_trigger_timer_at_the_cleanup_time_is_one_timer_and_one_question(
    start: Start, domain: Domain
) -> None:
    trigger = ScriptedTrigger(element=lambda window, context: domain.register(context, 19))
    windows = start(GivenWindows(W(0, 20), is_event_time=domain.is_event_time), trigger=trigger)
    windows.element("x", 1, contents=1, **domain.timers(1))
    trigger.take()
    domain.advance(windows, 19, out=[cleared_row(W(0, 20))])
    assert trigger.take() == [(domain.name, W(0, 20), 19), ("clear", W(0, 20))]


@pytest.mark.parametrize("purges", [False, True], ids=["accumulating", "purging"])
@pytest.mark.parametrize("assigner", [GivenWindows, GivenSessions])
def test_collecting_a_window_leaves_nothing(
    start: Start, domain: Domain, assigner: type[GivenWindows], purges: bool
) -> None:
    def answer(window: Any, context: Any) -> Any:
        arming(domain, FAR)(window, context)
        return PURGE if purges else CONTINUE

    trigger = ScriptedTrigger(element=answer, clear=disarming(domain, FAR))
    windows = start(assigner(W(0, 20), is_event_time=domain.is_event_time), trigger=trigger, lateness=20)
    sessions = int(assigner is GivenSessions)
    windows.element("x", 1, contents=0 if purges else 1, mark=1, sessions=sessions, **domain.timers(2))
    domain.advance(windows, 39, out=[cleared_row(W(0, 20))])
    assert [question for question in trigger.take() if question[0] == "clear"] == [("clear", W(0, 20))]


def test_collecting_one_session_leaves_the_others(start: Start, domain: Domain) -> None:
    assigner = GivenSessions(W(0, 20), is_event_time=domain.is_event_time)
    windows = start(assigner, trigger=ScriptedTrigger())
    windows.element("x", 1, contents=1, sessions=1, **domain.timers(1))
    assigner.windows = [W(30, 50)]
    windows.element("y", 31, contents=2, sessions=1, **domain.timers(2))
    domain.advance(windows, 19, out=[cleared_row(W(0, 20))], contents=1, sessions=1, **domain.timers(1))
    assert windows.sessions() == {W(30, 50): W(30, 50)}
    domain.advance(windows, 49, out=[cleared_row(W(30, 50))])


def test_an_event_timer_of_a_processing_time_window_collects_nothing(start: Start) -> None:
    trigger = ScriptedTrigger(element=lambda window, context: context.register_event_time_timer(9))
    windows = start(GivenWindows(W(0, 10), is_event_time=False), trigger=trigger)
    windows.element("x", 1, contents=1, event=1, processing=1)
    windows.watermark(9, contents=1, processing=1)
    windows.clock(9, out=[cleared_row(W(0, 10))])


def test_a_processing_timer_of_an_event_time_window_collects_nothing(start: Start) -> None:
    trigger = ScriptedTrigger(element=lambda window, context: context.register_processing_time_timer(9))
    windows = start(GivenWindows(W(0, 10)), trigger=trigger)
    windows.element("x", 1, contents=1, event=1, processing=1)
    windows.clock(9, contents=1, event=1)
    windows.watermark(9, out=[cleared_row(W(0, 10))])


def test_default_triggers_fire_and_collect_at_the_last_instant(start: Start, domain: Domain) -> None:
    windows = start(domain.tumbling(10))
    windows.element("x", 3, contents=1, **domain.timers(1))
    domain.advance(windows, 8, contents=1, **domain.timers(1))
    domain.advance(windows, 9, out=[fired_row(W(0, 10), "x"), cleared_row(W(0, 10))])


def test_late_elements_within_lateness_fire_their_whole_window_at_once(start: Start) -> None:
    windows = start(TumblingEventTimeWindows(size_ms=10), lateness=20)
    windows.element("x", 3, contents=1, event=2)
    windows.watermark(9, out=[fired_row(W(0, 10), "x")], contents=1, event=1)
    windows.element("y", 4, out=[fired_row(W(0, 10), "x", "y")], contents=1, event=1)
    windows.element("z", 5, out=[fired_row(W(0, 10), "x", "y", "z")], contents=1, event=1)
    windows.watermark(28, contents=1, event=1)
    windows.watermark(29, out=[cleared_row(W(0, 10))])


def test_one_watermark_over_both_fires_at_the_last_instant_and_then_collects(start: Start) -> None:
    windows = start(TumblingEventTimeWindows(size_ms=10), lateness=20)
    windows.element("x", 3, contents=1, event=2)
    windows.watermark(LONG_MAX, out=[fired_row(W(0, 10), "x"), cleared_row(W(0, 10))])


def test_a_clock_timer_for_the_past_waits_for_the_next_move_of_the_clock(start: Start) -> None:
    windows = start(TumblingProcessingTimeWindows(size_ms=10))
    windows.clock(9)
    windows.element("x", None, contents=1, processing=1)
    windows.clock(9, out=[fired_row(W(0, 10), "x"), cleared_row(W(0, 10))])
