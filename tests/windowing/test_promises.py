"""The promises of triggers, assigners and evictors about themselves, which a user's subclass does not
inherit.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from slackwater import (
    GLOBAL_WINDOW,
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    CumulateEventTimeWindows,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from slackwater.windowing.assigners import CumulativeGrid, Grid

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
HOUR_MS, MINUTE_MS = 3_600_000, 60_000
TUMBLING = TumblingEventTimeWindows.of(HOUR)


class EagerTrigger(EventTimeTrigger):
    """Fires for each element."""

    def on_element(self, element: Any, timestamp: int, window: Any, context: Any) -> TriggerResult:
        super().on_element(element, timestamp, window, context)
        return TriggerResult.FIRE


class DeafTrigger(EventTimeTrigger):
    """Fires at no timer."""

    def on_event_time(self, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return TriggerResult.CONTINUE


class Eager:
    def on_element(self, element: Any, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return TriggerResult.FIRE


class MixedTrigger(Eager, EventTimeTrigger):  # type: ignore[misc]
    """Has another `on_element`, though its own body holds none."""


class UnchangedTrigger(EventTimeTrigger):
    """Has a name of its own and nothing else."""


class SelectiveCount(CountTrigger):
    """Counts some elements only."""

    def on_element(self, element: Any, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return super().on_element(element, timestamp, window, context) if element else TriggerResult.CONTINUE


class TimedCount(CountTrigger):
    """Fires at a timer too."""

    def on_event_time(self, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return TriggerResult.FIRE


class ReluctantPurging(PurgingTrigger):
    """Forgets nothing at a timer."""

    def on_event_time(self, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return self.trigger.on_event_time(timestamp, window, context)


class ShiftedWindows(TumblingEventTimeWindows):
    """Windows one minute later than their timestamps say."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        return super().assign_windows(element, timestamp + MINUTE_MS, context)


class NarrowSlide(SlidingEventTimeWindows):
    def aligned_windows(self, time: int) -> list[TimeWindow]:
        return super().aligned_windows(time)[:1]


class SeparateSessions(EventTimeSessionWindows):
    """Sessions that never merge."""

    def merge_windows(self, windows: Any, callback: Any) -> None:
        return None


class LongSessions(EventTimeSessionWindows):
    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        return [TimeWindow(timestamp, timestamp + 10 * self.gap_ms)]


class EvictorOfMarked(CountEvictor):
    def evict(self, elements: Any, size: int) -> None:
        elements[:] = [element for element in elements if element.value != "marked"]


def promises(trigger: Trigger) -> tuple[bool, bool, bool, bool]:
    return (
        trigger.arms_once,
        trigger.fires_at_last_instant,
        trigger.fires_on_timers,
        trigger.looks_at_elements,
    )


CAUTIOUS = (False, False, True, True)


def test_the_event_time_trigger_waits_for_the_last_instant_and_ignores_elements() -> None:
    assert promises(EventTimeTrigger()) == (True, True, True, False)


@pytest.mark.parametrize("trigger", [EagerTrigger(), MixedTrigger()])
def test_a_subclass_with_another_on_element_has_promised_nothing(trigger: Trigger) -> None:
    assert promises(trigger) == CAUTIOUS


def test_a_subclass_keeps_a_promise_about_methods_that_it_does_not_override() -> None:
    assert promises(DeafTrigger()) == (True, False, True, True)
    assert promises(UnchangedTrigger()) == (True, True, True, True)


@pytest.mark.parametrize("trigger", [SelectiveCount.of(2), TimedCount.of(2)])
def test_a_subclass_of_the_count_trigger_may_fire_on_timers_and_look_at_elements(trigger: Trigger) -> None:
    assert promises(CountTrigger.of(2)) == (False, False, False, False)
    assert promises(trigger) == CAUTIOUS


def test_a_subclass_makes_its_own_promises() -> None:
    class Promising(SelectiveCount):
        fires_on_timers = False

    assert promises(Promising.of(2)) == (False, False, False, True)


@pytest.mark.parametrize("inner", [EventTimeTrigger(), CountTrigger.of(2), EagerTrigger(), NeverTrigger()])
def test_a_purging_trigger_promises_what_the_one_inside_it_does(inner: Trigger) -> None:
    purging = PurgingTrigger.of(inner)
    assert promises(purging) == promises(inner)
    assert purging.states == inner.states
    assert purging.firing_trigger is purging.innermost is inner


def test_a_subclass_of_the_purging_trigger_decides_itself() -> None:
    trigger = ReluctantPurging.of(EventTimeTrigger())
    assert trigger.firing_trigger is trigger
    assert promises(trigger) == (True, False, True, True)


def test_a_timeout_decides_besides_its_inner_trigger_and_has_state_besides_its_own() -> None:
    trigger = ProcessingTimeoutTrigger.of(PurgingTrigger.of(CountTrigger.of(2)), HOUR)
    assert trigger.firing_trigger is trigger
    assert trigger.innermost == CountTrigger.of(2)
    assert promises(trigger) == (False, False, True, False)
    assert [state.name for state in trigger.states] == ["count", "timeout"]


@pytest.mark.parametrize(
    ("trigger", "names"),
    [
        (EventTimeTrigger(), []),
        (ProcessingTimeTrigger(), []),
        (CountTrigger.of(1), ["count"]),
        (SelectiveCount.of(1), ["count"]),
        (ContinuousEventTimeTrigger.of(HOUR), ["fire-time"]),
        (DeltaTrigger.of(1.0, lambda a, b: b - a), ["last-element"]),
    ],
)
def test_a_trigger_names_its_states(trigger: Trigger, names: list[str]) -> None:
    assert [state.name for state in trigger.states] == names


def test_aligned_windows_of_event_time_are_a_grid() -> None:
    assert TumblingEventTimeWindows.of(HOUR, MINUTE).grid == Grid(HOUR_MS, HOUR_MS, MINUTE_MS)
    assert SlidingEventTimeWindows.of(HOUR, MINUTE).grid == Grid(HOUR_MS, MINUTE_MS, 0)
    assert CumulateEventTimeWindows.of(HOUR, MINUTE).grid == CumulativeGrid(HOUR_MS, MINUTE_MS, 0)
    assert TumblingProcessingTimeWindows.of(HOUR).grid is None


@pytest.mark.parametrize(
    "assigner",
    [ShiftedWindows.of(HOUR), NarrowSlide.of(HOUR, MINUTE), LongSessions.with_gap(HOUR)],
)
def test_a_subclass_of_an_assigner_has_promised_nothing_of_its_windows(assigner: WindowAssigner) -> None:
    assert (assigner.grid, assigner.session_gap_ms, assigner.looks_at_elements) == (None, None, True)


def test_sessions_tell_their_gap_and_merge_on_touch_unless_a_subclass_merges_itself() -> None:
    sessions, separate = EventTimeSessionWindows.with_gap(HOUR), SeparateSessions(gap_ms=HOUR_MS)
    long = LongSessions(gap_ms=HOUR_MS)
    assert (sessions.session_gap_ms, sessions.merges_on_touch) == (HOUR_MS, True)
    assert (separate.session_gap_ms, separate.merges_on_touch) == (None, False)
    assert (long.session_gap_ms, long.merges_on_touch) == (None, True)


def test_an_evictor_of_a_user_may_look_at_elements() -> None:
    assert not CountEvictor.of(3).looks_at_elements
    assert EvictorOfMarked.of(3).looks_at_elements


def test_the_global_window_is_no_grid() -> None:
    assert GlobalWindows.create().grid is None
    assert GLOBAL_WINDOW.max_timestamp() == 2**63 - 1
