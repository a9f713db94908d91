"""What one element does: assigners and triggers asked, contents kept, results obeyed, rows stamped, lateness
judged.
"""

from __future__ import annotations

import operator

import pytest

from slackwater.windowing import (
    GLOBAL_WINDOW,
    EventTimeTrigger,
    ProcessWindowFunction,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from slackwater.windowing.windows import TimeWindow

from .conftest import Start
from .domains import Domain
from .harness import Late, Row, Side
from .scripted import (
    FIRE,
    FIRE_AND_PURGE,
    MARK,
    PURGE,
    Contents,
    GivenSessions,
    GivenWindows,
    ScriptedTrigger,
    cleared_row,
    fired_row,
)

W = TimeWindow


def test_the_assigner_is_asked_once_for_each_element(start: Start, domain: Domain) -> None:
    assigner = GivenWindows(W(0, 10), is_event_time=domain.is_event_time)
    windows = start(assigner)
    windows.element("x", 3, contents=1, **domain.timers(1))
    windows.element("y", None, contents=1, **domain.timers(1))
    assert assigner.questions == [("x", 3), ("y", -(2**63))]


def test_each_window_of_an_element_has_contents_timer_and_firing_of_its_own(
    start: Start, domain: Domain
) -> None:
    assigner = GivenWindows(W(0, 10), W(5, 15), is_event_time=domain.is_event_time)
    windows = start(assigner, trigger=ScriptedTrigger(event=FIRE, processing=FIRE))
    windows.element("x", 6, contents=2, **domain.timers(2))
    assigner.windows = [W(5, 15)]
    windows.element("y", 12, contents=2, **domain.timers(2))
    domain.advance(
        windows, 9, out=[fired_row(W(0, 10), "x"), cleared_row(W(0, 10))], contents=1, **domain.timers(1)
    )
    domain.advance(windows, 14, out=[fired_row(W(5, 15), "x", "y"), cleared_row(W(5, 15))])


def test_keys_share_a_window_and_nothing_in_it(start: Start, domain: Domain) -> None:
    windows = start(GivenWindows(W(0, 10), is_event_time=domain.is_event_time), trigger=ScriptedTrigger())
    windows.element("x", 1, key="a", contents=1, **domain.timers(1))
    windows.element("y", 1, key="b", contents=2, **domain.timers(2))
    windows.operator.config.trigger.answers["element"] = FIRE_AND_PURGE
    windows.element(
        "z", 1, key="b", out=[fired_row(W(0, 10), "y", "z", key="b")], contents=1, **domain.timers(2)
    )
    assert {key for _, key, _ in windows.timers()[domain.name]} == {"a", "b"}


def test_the_trigger_is_asked_once_for_each_window_in_the_order_of_the_assigner(
    start: Start, domain: Domain
) -> None:
    trigger = ScriptedTrigger()
    windows = start(
        GivenWindows(W(5, 15), W(0, 10), W(7, 9), is_event_time=domain.is_event_time), trigger=trigger
    )
    windows.element("x", 7, contents=3, **domain.timers(3))
    assert trigger.take() == [("element", W(5, 15)), ("element", W(0, 10)), ("element", W(7, 9))]


class Impatient(EventTimeTrigger):
    """Event time, and at once for each element above 5."""

    def on_element(self, element, timestamp, window, context):
        result = super().on_element(element, timestamp, window, context)
        return FIRE if element > 5 else result


def test_a_trigger_made_from_a_built_in_one_is_asked_for_every_element(start: Start) -> None:
    windows = start(TumblingEventTimeWindows(size_ms=10), trigger=Impatient())
    windows.element(1, 1, contents=1, event=1)
    windows.element(6, 1, out=[fired_row(W(0, 10), 1, 6)], contents=1, event=1)
    windows.element(2, 1, contents=1, event=1)
    windows.watermark(9, out=[fired_row(W(0, 10), 1, 6, 2), cleared_row(W(0, 10))])


def test_an_element_is_in_the_contents_before_its_trigger_is_asked(start: Start, domain: Domain) -> None:
    windows = start(
        GivenWindows(W(0, 10), is_event_time=domain.is_event_time), trigger=ScriptedTrigger(element=FIRE)
    )
    windows.element("x", 1, out=[fired_row(W(0, 10), "x")], contents=1, **domain.timers(1))
    windows.element("y", 1, out=[fired_row(W(0, 10), "x", "y")], contents=1, **domain.timers(1))


def test_continue_at_an_element_keeps_contents_timers_and_trigger_state(start: Start, domain: Domain) -> None:
    windows = start(
        GivenWindows(W(0, 10), is_event_time=domain.is_event_time),
        trigger=ScriptedTrigger(element=_mark_and_arm(domain, 0)),
    )
    windows.element("x", 1, contents=1, mark=1, **domain.timers(2))


@pytest.mark.parametrize("result", [FIRE, FIRE_AND_PURGE, PURGE], ids=lambda result: result.name)
def test_fire_and_purge_at_an_element_leave_trigger_state_and_timers(
    start: Start, domain: Domain, result
) -> None:
    def answer(window, context):
        _mark_and_arm(domain, 0)(window, context)
        return result

    windows = start(
        GivenWindows(W(0, 10), is_event_time=domain.is_event_time), trigger=ScriptedTrigger(element=answer)
    )
    out = [fired_row(W(0, 10), "x")] if result.is_fire else []
    windows.element("x", 1, out=out, contents=0 if result.is_purge else 1, mark=1, **domain.timers(2))


def test_a_purge_at_an_element_keeps_the_session_and_its_cleanup_timer(start: Start, domain: Domain) -> None:
    windows = start(
        GivenSessions(W(0, 2), is_event_time=domain.is_event_time), trigger=ScriptedTrigger(element=PURGE)
    )
    windows.element("x", 0, sessions=1, **domain.timers(1))
    assert windows.sessions() == {W(0, 2): W(0, 2)}


def test_firing_comes_before_purging(start: Start) -> None:
    windows = start(GivenWindows(W(0, 10)), trigger=ScriptedTrigger(element=FIRE_AND_PURGE))
    windows.element("x", 1, out=[fired_row(W(0, 10), "x")], event=1)
    windows.element("y", 1, out=[fired_row(W(0, 10), "y")], event=1)


class Twice(ProcessWindowFunction):
    """Two rows and a side row for each firing."""

    def process(self, key, context, elements):
        yield "first"
        context.output("side", "between")
        yield "second"


@pytest.mark.parametrize("moment", ["element", "event", "processing"])
def test_every_row_of_a_firing_carries_the_last_instant_of_its_window(start: Start, moment: str) -> None:
    windows = start(
        GivenWindows(W(2, 8), is_event_time=moment != "processing"),
        trigger=ScriptedTrigger(**{moment: FIRE}),
        function=Twice(),
    )
    rows = [
        Row("first", W(2, 8), 7, "a"),
        Side("side", "between", W(2, 8), 7, "a"),
        Row("second", W(2, 8), 7, "a"),
    ]
    if moment == "element":
        windows.element("x", 3, out=rows, contents=1, event=1)
    elif moment == "event":
        windows.element("x", 3, contents=1, event=1)
        windows.watermark(7, out=rows)
    else:
        windows.element("x", 3, contents=1, processing=1)
        windows.clock(7, out=rows)


def test_rows_of_the_global_window_carry_the_greatest_timestamp(start: Start) -> None:
    windows = start(GivenWindows(GLOBAL_WINDOW), trigger=ScriptedTrigger(element=FIRE))
    windows.element("x", 3, out=[Row(("x",), GLOBAL_WINDOW, 2**63 - 1, "a")], contents=1)


@pytest.mark.parametrize("evicts", [False], ids=["regular"])
def test_reduced_contents_are_handed_over_as_one_value(start: Start, domain: Domain) -> None:
    trigger = ScriptedTrigger(element=FIRE)
    windows = start(
        GivenWindows(W(0, 10), is_event_time=domain.is_event_time),
        trigger=trigger,
        finish=lambda b: b.reduce(operator.add, Contents()),
    )
    windows.element(1, 1, out=[fired_row(W(0, 10), 1)], contents=1, **domain.timers(1))
    windows.element(2, 1, out=[fired_row(W(0, 10), 3)], contents=1, **domain.timers(1))
    trigger.answers["element"] = FIRE_AND_PURGE
    windows.element(3, 1, out=[fired_row(W(0, 10), 6)], **domain.timers(1))
    windows.element(4, 1, out=[fired_row(W(0, 10), 4)], **domain.timers(1))


def test_an_element_without_windows_that_is_not_late_vanishes(start: Start) -> None:
    windows = start(GivenWindows(), trigger=ScriptedTrigger(), late_output=True)
    windows.watermark(0)
    windows.element("x", 1)


def test_a_late_element_without_windows_goes_to_the_late_output(start: Start) -> None:
    windows = start(GivenWindows(), trigger=ScriptedTrigger(), late_output=True)
    windows.watermark(5)
    windows.element("x", 5, out=[Late("x", 5, "a")])
    windows.element("y", 6)


def test_a_late_element_goes_to_the_late_output_as_it_came(start: Start) -> None:
    trigger = ScriptedTrigger()
    windows = start(TumblingEventTimeWindows(size_ms=10), trigger=trigger, lateness=5, late_output=True)
    windows.watermark(14)
    windows.element("x", 3, key="b", out=[Late("x", 3, "b")])
    assert trigger.take() == []


def test_a_late_element_without_late_output_is_counted(start: Start) -> None:
    windows = start(TumblingEventTimeWindows(size_ms=10), trigger=ScriptedTrigger())
    windows.watermark(9)
    windows.element("x", 3, dropped=1)
    windows.element("y", 10, contents=1, event=1)


def test_a_window_may_be_late_though_its_element_is_not_and_then_nobody_hears_of_it(start: Start) -> None:
    windows = start(GivenWindows(W(0, 10)), trigger=ScriptedTrigger(), late_output=True)
    windows.watermark(20)
    windows.element("x", 25)


def test_an_element_late_for_some_of_its_windows_is_neither_dropped_nor_put_aside(start: Start) -> None:
    windows = start(
        SlidingEventTimeWindows(size_ms=30, slide_ms=10),
        trigger=ScriptedTrigger(event=FIRE),
        late_output=True,
    )
    windows.watermark(29)
    windows.element("x", 25, contents=2, event=2)
    assert windows.namespaces("window-contents") == {W(10, 40), W(20, 50)}


def test_sliding_windows_are_taken_newest_first(start: Start) -> None:
    trigger = ScriptedTrigger()
    windows = start(SlidingEventTimeWindows(size_ms=30, slide_ms=10), trigger=trigger)
    windows.element("x", 25, contents=3, event=3)
    assert [window for _, window in trigger.take()] == [W(20, 50), W(10, 40), W(0, 30)]


def test_with_slide_above_size_an_element_in_a_gap_has_no_window(start: Start) -> None:
    windows = start(
        SlidingEventTimeWindows(size_ms=10, slide_ms=30), trigger=ScriptedTrigger(), late_output=True
    )
    windows.element("in the gap", 15)
    windows.element("in a window", 35, contents=1, event=1)
    windows.watermark(29, contents=1, event=1)
    windows.element(
        "in the gap, and late", 15, out=[Late("in the gap, and late", 15, "a")], contents=1, event=1
    )


def test_elements_in_processing_time_are_never_late(start: Start) -> None:
    windows = start(
        GivenWindows(W(0, 10), is_event_time=False),
        trigger=ScriptedTrigger(processing=FIRE),
        late_output=True,
    )
    windows.watermark(100)
    windows.clock(9)
    windows.element("x", 3, contents=1, processing=1)
    windows.clock(9, out=[fired_row(W(0, 10), "x"), cleared_row(W(0, 10))])
    windows.element("y", 3, contents=1, processing=1)
    windows.clock(10, out=[fired_row(W(0, 10), "y"), cleared_row(W(0, 10))])


def test_lateness_ends_exactly_at_the_cleanup_time(start: Start) -> None:
    windows = start(
        TumblingEventTimeWindows(size_ms=10), trigger=ScriptedTrigger(), lateness=20, late_output=True
    )
    windows.watermark(28)
    windows.element("x", 3, contents=1, event=1)
    windows.watermark(29, out=[cleared_row(W(0, 10))])
    windows.element("y", 3, out=[Late("y", 3, "a")])


def _mark_and_arm(domain: Domain, time: int):
    """Leave trigger state and a timer."""

    def answer(window, context):
        context.get_partitioned_state(MARK).update("hello")
        domain.register(context, time)

    return answer
