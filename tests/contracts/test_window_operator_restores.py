"""A window operator that is restored from a snapshot: what survives, what Flink does not restore, and what is
refused.
"""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.windowing import (
    EventTimeSessionWindows,
    TumblingEventTimeWindows,
)
from slackwater.windowing.errors import KeyTypeError
from slackwater.windowing.key_types import LONG
from slackwater.windowing.runtime.operator_snapshot import restore_snapshots, take_snapshot
from slackwater.windowing.windows import TimeWindow

from .backends import VARIANTS
from .conftest import Start
from .domains import Domain
from .harness import ALL_KEY_GROUPS, Late
from .scripted import (
    FIRE,
    MARK,
    GivenSessions,
    GivenWindows,
    ScriptedTrigger,
    cleared_row,
    fired_row,
)

W = TimeWindow


def test_trigger_state_contents_timers_and_sessions_survive_a_restore(start: Start, domain: Domain) -> None:
    def arm(window: Any, context: Any) -> None:
        mark = context.get_partitioned_state(MARK)
        mark.update((mark.value() or 0) + 1)
        domain.register(context, 5)

    marks: list[Any] = []

    def look(window: Any, context: Any) -> Any:
        marks.append(context.get_partitioned_state(MARK).value())
        return FIRE

    assigner = GivenSessions(W(0, 10), is_event_time=domain.is_event_time)
    windows = start(assigner, trigger=ScriptedTrigger(element=arm, merge=arm, **{domain.name: look}))
    windows.element("x", 0, contents=1, mark=1, sessions=1, **domain.timers(2))
    windows.element("y", 0, key="b", contents=2, mark=2, sessions=2, **domain.timers(4))
    assigner.windows = [W(9, 20)]
    windows.element("z", 0, key="b", contents=2, mark=3, sessions=2, **domain.timers(5))
    timers, sessions = windows.timers(), windows.sessions()
    windows.snapshot_and_restore(contents=2, mark=3, sessions=2, **domain.timers(5))
    assert (windows.timers(), windows.sessions()) == (timers, sessions)
    out = [fired_row(W(0, 10), "x"), fired_row(W(0, 20), "y", "z", key="b")]
    domain.advance(windows, 4, contents=2, mark=3, sessions=2, **domain.timers(5))
    windows.operator.process_watermark(5) if domain.is_event_time else windows.clock_service.advance_to(5)
    rows = windows.output.take()
    assert sorted(rows, key=lambda row: row.key) == out
    assert marks == [1, 2] or marks == [2, 1]


def test_after_a_restore_everything_is_on_time_until_the_next_watermark_as_in_flink(start: Start) -> None:
    windows = start(TumblingEventTimeWindows(size_ms=10))
    windows.element(1, 3, contents=1, event=1)
    windows.watermark(9, out=[fired_row(W(0, 10), 1), cleared_row(W(0, 10))])
    windows.snapshot_and_restore()
    assert windows.operator.current_watermark == -(2**63)
    windows.element(2, 4, contents=1, event=1)
    windows.watermark(9, out=[fired_row(W(0, 10), 2), cleared_row(W(0, 10))])


def test_a_restored_watermark_keeps_late_elements_late(start: Start) -> None:
    windows = start(TumblingEventTimeWindows(size_ms=10), late_output=True)
    windows.element(1, 3, contents=1, event=1)
    windows.watermark(9, out=[fired_row(W(0, 10), 1), cleared_row(W(0, 10))])
    windows.snapshot_and_restore(restores_watermark=True)
    windows.element(2, 4, out=[Late(2, 4, "a")])


def test_an_overdue_clock_timer_fires_at_the_first_move_after_a_restore(start: Start) -> None:
    windows = start(GivenWindows(W(0, 10), is_event_time=False), trigger=ScriptedTrigger(processing=FIRE))
    windows.element("x", 1, contents=1, processing=1)
    windows.clock_service.current_processing_time = 50
    windows.snapshot_and_restore(contents=1, processing=1)
    assert windows.clock_service.pending() == 1
    windows.clock(50, out=[fired_row(W(0, 10), "x"), cleared_row(W(0, 10))])


def test_keys_of_another_type_are_refused_at_a_restore(start: Start) -> None:
    text, numbers = (
        start(TumblingEventTimeWindows(size_ms=10)),
        start(TumblingEventTimeWindows(size_ms=10), key_type=LONG),
    )
    text.element("x", 1, contents=1, event=1)
    with pytest.raises(KeyTypeError):
        restore_snapshots(numbers.operator, [take_snapshot(text.operator, ALL_KEY_GROUPS)], ALL_KEY_GROUPS)


def test_state_may_be_restored_into_every_other_place_and_order_mode(start: Start) -> None:
    windows = start(EventTimeSessionWindows(gap_ms=10))
    windows.element("x", 0, contents=1, sessions=1, event=1)
    for variant in VARIANTS:
        windows.snapshot_and_restore(variant=variant, contents=1, sessions=1, event=1)
    windows.watermark(9, out=[fired_row(W(0, 10), "x"), cleared_row(W(0, 10))])
