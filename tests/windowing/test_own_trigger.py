"""A user's trigger, written with public names only: it works in the operator, its state is parked in columns
of its own, and the next run goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from slackwater import (
    EventTimeSessionWindows,
    EventTimeTrigger,
    ReducingStateDescriptor,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
)
from slackwater.testing import OperatorHarness, RunSequence
from slackwater.windowing.key_types import STRING
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder


def add(first: int, second: int) -> int:
    return first + second


SPENT = ReducingStateDescriptor("spent", add, sql_type="long")


@dataclass(frozen=True)
class BudgetTrigger(Trigger):
    """Fires when the elements since its last firing add up to `budget`, and at the window's last instant."""

    can_merge: ClassVar[bool] = True
    states: ClassVar = (SPENT,)

    budget: int

    def on_element(self, element: Any, timestamp: int, window: Any, context: Any) -> TriggerResult:
        context.register_event_time_timer(window.max_timestamp())
        spent = context.get_partitioned_state(SPENT)
        spent.add(element)
        if spent.get() < self.budget:
            return TriggerResult.CONTINUE
        spent.clear()
        return TriggerResult.FIRE

    def on_event_time(self, timestamp: int, window: Any, context: Any) -> TriggerResult:
        is_end = timestamp == window.max_timestamp()
        return TriggerResult.FIRE if is_end else TriggerResult.CONTINUE

    def on_processing_time(self, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, context: Any) -> None:
        context.merge_partitioned_state(SPENT)
        context.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Any, context: Any) -> None:
        context.get_partitioned_state(SPENT).clear()
        context.delete_event_time_timer(window.max_timestamp())


def operator(assigner: Any) -> Any:
    return WindowOperatorBuilder(STRING, assigner).trigger(BudgetTrigger(10)).reduce(add)


TUMBLING = TumblingEventTimeWindows.of(timedelta(milliseconds=100))
SESSIONS = EventTimeSessionWindows.with_gap(timedelta(milliseconds=10))


def test_a_users_trigger_fires_when_its_state_says_so_and_leaves_nothing_behind() -> None:
    harness = OperatorHarness(operator(TUMBLING))
    for value, timestamp in [(4, 1), (6, 2), (3, 3)]:
        harness.process_element("a", value, timestamp)
    assert harness.panes == [("a", (0, 100), 10)]
    assert harness.state_entries == {"spent": 1, "window-contents": 1}
    harness.process_watermark(99)
    assert harness.panes == [("a", (0, 100), 10), ("a", (0, 100), 13)]
    assert (harness.state_entries, harness.event_timers) == ({}, 0)


def test_merging_sessions_adds_its_states_up() -> None:
    harness = OperatorHarness(operator(SESSIONS))
    harness.process_element("a", 4, 0)
    harness.process_element("a", 4, 15)
    assert harness.panes == []
    harness.process_element("a", 2, 8)
    assert harness.panes == [("a", (0, 25), 10)]


@pytest.mark.parametrize("assigner", [TUMBLING, SESSIONS], ids=["tumbling", "sessions"])
def test_a_users_trigger_goes_on_where_the_run_before_parked_it(assigner: Any) -> None:
    runs = RunSequence(operator(assigner))
    with runs.run() as run:
        run.process_element("a", 6, 1)
    with runs.run() as run:
        run.process_element("a", 4, 2)
        assert [value for _, _, value in run.panes] == [10]


def test_a_users_trigger_has_promised_nothing() -> None:
    trigger = BudgetTrigger(10)
    assert trigger.looks_at_elements and trigger.fires_on_timers
    assert not trigger.fires_at_last_instant and not trigger.arms_once
    assert EventTimeTrigger().fires_at_last_instant
