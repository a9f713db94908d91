"""Windows that merge: which are asked, what moves, what is deleted, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.windowing import EventTimeSessionWindows, OrderMode
from slackwater.windowing.errors import MergeIntoPastError, UnknownWindowError
from slackwater.windowing.windows import TimeWindow

from .conftest import Start
from .domains import Domain
from .harness import Late, Row
from .scripted import FIRE, MARK, GivenSessions, GivenWindows, ScriptedTrigger, cleared_row, fired_row

W = TimeWindow
LONG_MAX = 2**63 - 1


def marking(domain: Domain, time: int) -> ScriptedTrigger:
    """A trigger with state and a timer in each window, cleared and merged as a well-behaved one does."""

    def arm(window: Any, context: Any) -> None:
        context.get_partitioned_state(MARK).update("hello")
        domain.register(context, time)

    def disarm(window: Any, context: Any) -> None:
        context.get_partitioned_state(MARK).clear()
        domain.delete(context, time)

    return ScriptedTrigger(element=arm, merge=arm, clear=disarm)


def test_the_assigner_is_asked_to_merge_once_the_key_has_a_session(start: Start, domain: Domain) -> None:
    assigner = GivenSessions(W(2, 4), is_event_time=domain.is_event_time)
    windows = start(assigner, trigger=ScriptedTrigger())
    windows.element("x", 0, contents=1, sessions=1, **domain.timers(1))
    asked_before = len(assigner.asked_to_merge)
    windows.element("y", 0, key="b", contents=2, sessions=2, **domain.timers(2))
    assigner.windows = [W(10, 12)]
    windows.element("z", 0, contents=3, sessions=2, **domain.timers(3))
    assert assigner.asked_to_merge[asked_before:][-1] == {W(2, 4), W(10, 12)}


def test_windows_merge_when_the_element_comes_and_the_old_timers_and_trigger_state_go(
    start: Start, domain: Domain
) -> None:
    assigner = GivenSessions(W(2, 4), is_event_time=domain.is_event_time)
    trigger = marking(domain, 0)
    windows = start(assigner, trigger=trigger)
    domain.advance(windows, -1)
    windows.element("x", 0, contents=1, mark=1, sessions=1, **domain.timers(2))
    assigner.windows = [W(0, 2)]
    trigger.take()
    windows.element("y", 0, contents=1, mark=1, sessions=1, **domain.timers(2))
    assert trigger.take() == [("merge", W(0, 4)), ("clear", W(2, 4)), ("element", W(0, 4))]
    assert windows.sessions() == {W(0, 4): W(2, 4)}
    assert windows.timers()[domain.name] == {(0, "a", W(0, 4)), (3, "a", W(0, 4))}
    assert windows.namespaces("mark") == {W(0, 4)}


def test_merging_two_sessions_keeps_one_state_window_and_deletes_both_cleanup_timers(
    start: Start, domain: Domain
) -> None:
    assigner = GivenSessions(W(0, 2), is_event_time=domain.is_event_time)
    windows = start(assigner, trigger=marking(domain, 0))
    domain.advance(windows, -1)
    windows.element("x", 0, contents=1, mark=1, sessions=1, **domain.timers(2))
    assigner.windows, assigner.merges = [W(3, 5)], []
    windows.element("y", 0, contents=2, mark=2, sessions=1, **domain.timers(4))
    assigner.windows = [W(1, 4)]
    windows.element("z", 0, contents=1, mark=1, sessions=1, **domain.timers(2))
    assert set(windows.sessions()) == {W(0, 5)}
    assert windows.namespaces("window-contents") == set(windows.sessions().values())
    assert windows.timers()[domain.name] == {(0, "a", W(0, 5)), (4, "a", W(0, 5))}


def test_the_trigger_hears_of_the_merge_then_of_each_absorbed_window_then_of_the_element(
    start: Start, domain: Domain
) -> None:
    trigger = ScriptedTrigger()
    windows = start(domain.sessions(10), trigger=trigger)
    times = (0, 20, 10) if domain.is_event_time else (0, 20)
    for number, time in enumerate(times[:2]):
        _element_at(windows, domain, time, number + 1)
    trigger.take()
    if domain.is_event_time:
        windows.element("bridge", 10, contents=1, sessions=1, event=1)
        assert trigger.take() == [
            ("merge", W(0, 30)),
            ("clear", W(20, 30)),
            ("clear", W(0, 10)),
            ("element", W(0, 30)),
        ]
    else:
        windows.clock_service.current_processing_time = 10  # a clock that goes back, without firing
        windows.element("bridge", None, contents=1, sessions=1, processing=1)
        assert trigger.take() == [
            ("merge", W(0, 30)),
            ("clear", W(20, 30)),
            ("clear", W(0, 10)),
            ("element", W(0, 30)),
        ]


def test_an_element_inside_a_session_merges_nothing(start: Start, domain: Domain) -> None:
    assigner = GivenSessions(W(0, 20), is_event_time=domain.is_event_time)
    trigger = ScriptedTrigger()
    windows = start(assigner, trigger=trigger)
    windows.element("x", 0, contents=1, sessions=1, **domain.timers(1))
    assigner.windows = [W(5, 15)]
    trigger.take()
    windows.element("y", 0, contents=1, sessions=1, **domain.timers(1))
    assert trigger.take() == [("element", W(0, 20))]
    domain.advance(windows, 19, out=[cleared_row(W(0, 20))])


def test_sessions_merge_when_the_gap_is_reached_exactly(start: Start) -> None:
    windows = start(EventTimeSessionWindows(gap_ms=10))
    windows.element("x", 0, contents=1, sessions=1, event=1)
    windows.element("y", 10, contents=1, sessions=1, event=1)
    windows.element("z", 21, contents=2, sessions=1, event=2)
    windows.watermark(
        LONG_MAX,
        out=[
            fired_row(W(0, 20), "x", "y"),
            cleared_row(W(0, 20)),
            fired_row(W(21, 31), "z"),
            cleared_row(W(21, 31)),
        ],
    )


@pytest.mark.parametrize("lateness", [0, 10])
def test_a_merge_into_a_window_that_has_passed_is_refused(
    start: Start, domain: Domain, lateness: int
) -> None:
    lateness = lateness if domain.is_event_time else 0
    assigner = GivenSessions(W(0, 22), is_event_time=domain.is_event_time)
    windows = start(assigner, trigger=ScriptedTrigger(), lateness=lateness)
    windows.element("x", 0, contents=1, sessions=1, **domain.timers(1))
    domain.advance(windows, 20, contents=1, sessions=1, **domain.timers(1))
    just_in_time, just_late = W(0, 20 - lateness + 2), W(0, 20 - lateness + 1)
    assigner.windows, assigner.merges = [W(0, 25)], [(just_in_time, [W(0, 22), W(0, 25)])]
    windows.element("y", 0, contents=1, sessions=1, **domain.timers(1))
    assigner.merges = [(just_late, [just_in_time, W(0, 25)])]
    with pytest.raises(MergeIntoPastError) as refusal:
        windows.operator.process_element("a", "z", 0)
    assert refusal.value.flink == "UnsupportedOperationException"
    assert (refusal.value.key, refusal.value.window, refusal.value.timestamp) == ("a", just_late, 0)
    assert str(20) in str(refusal.value)


def test_the_merge_guard_wraps_where_the_cleanup_time_does_not(start: Start) -> None:
    windows = start(EventTimeSessionWindows(gap_ms=10), lateness=5000)
    windows.watermark(0)
    windows.element("x", LONG_MAX - 100, contents=1, sessions=1, event=1)
    with pytest.raises(MergeIntoPastError):
        windows.operator.process_element("a", "y", LONG_MAX - 95)


def test_a_window_merged_into_one_that_is_not_in_flight_is_refused(start: Start) -> None:
    assigner = GivenSessions(W(0, 4))
    windows = start(assigner, trigger=ScriptedTrigger())
    windows.element("x", 0, contents=1, sessions=1, event=1)
    assigner.windows, assigner.merges = [W(10, 14)], [(W(7, 14), [W(7, 9), W(10, 14)])]
    with pytest.raises(UnknownWindowError) as refusal:
        windows.operator.process_element("a", "y", 0)
    assert refusal.value.flink == "IllegalStateException"


def test_a_late_session_of_its_own_is_retired_and_its_element_put_aside(start: Start) -> None:
    windows = start(EventTimeSessionWindows(gap_ms=10), late_output=True)
    windows.element("x", 100, contents=1, sessions=1, event=1)
    windows.watermark(50, contents=1, sessions=1, event=1)
    windows.element("late", 20, out=[Late("late", 20, "a")], contents=1, sessions=1, event=1)
    assert set(windows.sessions()) == {W(100, 110)}


def test_a_late_element_that_merges_into_a_live_session_is_accepted_and_fires(start: Start) -> None:
    windows = start(EventTimeSessionWindows(gap_ms=3000), lateness=10)
    windows.element(1, 11_600, contents=1, sessions=1, event=2)
    windows.watermark(14_599, out=[fired_row(W(11_600, 14_600), 1)], contents=1, sessions=1, event=1)
    windows.element(2, 10_000, out=[fired_row(W(10_000, 14_600), 1, 2)], contents=1, sessions=1, event=1)
    windows.watermark(14_609, out=[cleared_row(W(10_000, 14_600))])


def test_contents_of_merged_sessions_stand_in_hash_order_then_the_new_element(start: Start) -> None:
    windows = start(EventTimeSessionWindows(gap_ms=10))
    for number, time in enumerate((0, 20, 40)):
        windows.element(number + 1, time, contents=number + 1, sessions=1, event=number + 1)
    windows.element(4, 10, contents=2, sessions=1, event=2)
    windows.element(5, 30, contents=1, sessions=1, event=1)
    windows.watermark(49, out=[fired_row(W(0, 50), 3, 2, 1, 4, 5), cleared_row(W(0, 50))])


@pytest.mark.parametrize("evicts", [False], ids=["regular"])
def test_reduced_contents_merge_target_first_on_the_heap_and_last_on_rocksdb(
    start: Start, order_mode: OrderMode
) -> None:
    windows = start(
        EventTimeSessionWindows(gap_ms=10), finish=lambda builder: builder.reduce(lambda a, b: f"({a}{b})")
    )
    windows.element("1", 0, contents=1, sessions=1, event=1)
    windows.element("2", 20, contents=2, sessions=1, event=2)
    windows.element("4", 10, contents=1, sessions=1, event=1)
    folded_value = (
        "((21)4)" if order_mode is OrderMode.HEAP else "((12)4)"
    )  # the state window is that of the second session
    windows.watermark(29, out=[Row(folded_value, W(0, 30), 29, "a")])


@pytest.mark.parametrize("flink_exact", [False, True], ids=["safe", "flink_exact"])
def test_an_element_whose_window_equals_a_merged_session_loses_it_in_flink_only(
    start: Start, flink_exact: bool
) -> None:
    assigner = GivenSessions(W(0, 20))
    windows = start(assigner, trigger=ScriptedTrigger(event=FIRE), flink_exact=flink_exact)
    windows.element(1, 0, contents=1, sessions=1, event=1)
    assigner.windows = [W(10, 31)]
    windows.element(2, 0, contents=1, sessions=1, event=1)
    assigner.windows = [W(0, 31)]
    windows.element(3, 0, contents=2 if flink_exact else 1, sessions=1, event=1)
    elements = (3,) if flink_exact else (1, 2, 3)
    windows.watermark(
        30, out=[fired_row(W(0, 31), *elements), cleared_row(W(0, 31))], contents=1 if flink_exact else 0
    )


def test_each_of_several_windows_of_an_element_may_merge(start: Start) -> None:
    assigner = GivenSessions(W(0, 10), W(20, 30))
    windows = start(assigner, trigger=ScriptedTrigger())
    windows.element("x", 0, contents=2, sessions=1, event=2)
    assigner.windows = [W(5, 12), W(25, 33)]
    windows.element("y", 0, contents=2, sessions=1, event=2)
    windows.watermark(40, out=[cleared_row(W(0, 12)), cleared_row(W(20, 33))])


def test_a_window_of_length_zero_merges_with_the_session_around_it(start: Start) -> None:
    assigner = GivenWindows(W(5, 5))
    unmerged = start(assigner, trigger=ScriptedTrigger(event=FIRE))
    unmerged.element("x", 5, contents=1, event=1)
    unmerged.watermark(4, out=[fired_row(W(5, 5), "x"), cleared_row(W(5, 5))])
    sessions = GivenSessions(W(0, 10))
    merging = start(sessions, trigger=ScriptedTrigger(event=FIRE))
    merging.element("x", 0, contents=1, sessions=1, event=1)
    sessions.windows = [W(10, 10)]
    merging.element("point", 0, contents=1, sessions=1, event=1)
    merging.watermark(9, out=[fired_row(W(0, 10), "x", "point"), cleared_row(W(0, 10))])


def _element_at(windows: Any, domain: Domain, time: int, sessions: int) -> None:
    """An element at `time` of either domain; no session has ended before it."""
    if not domain.is_event_time:
        windows.clock_service.current_processing_time = time  # without calling the timers back
    windows.element(time, time, contents=sessions, sessions=1, **domain.timers(sessions))
