"""Each leak of the list is real, is what the list says, and goes when the list says; the random search for
others is a property.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DynamicEventTimeSessionWindows,
    EndOfStreamTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeoutTrigger,
    ProcessingTimeSessionWindows,
    ProcessWindowFunction,
    PurgingTrigger,
    Trigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    ValueStateDescriptor,
    WindowAssigner,
)
from slackwater.windowing.windows import TimeWindow

from . import leaks
from .conftest import Start
from .harness import Row, WindowHarness
from .leaks import LEAKS, Leak, LeftOver
from .scripted import cleared_row, fired_row

W = TimeWindow
LONG_MAX = 2**63 - 1


def is_explained(leak: Leak, windows: WindowHarness, left_over: LeftOver) -> bool:
    """Whether this leak of the list, and no other one, is the reason."""
    config = windows.operator.config

    class Declarations:
        assigner: WindowAssigner = config.assigner
        trigger: Trigger | None = config.trigger
        lateness: int = config.allowed_lateness_ms

    reasons = [
        other for other in LEAKS if other.explains is not None and other.explains(Declarations(), left_over)
    ]
    return reasons == [leak]


def test_the_list_names_each_leak_its_reason_and_its_source() -> None:
    assert [leak for name, leak in vars(leaks).items() if isinstance(leak, Leak)] == list(LEAKS)
    for leak in LEAKS:
        assert leak.what and leak.why and leak.until
        assert "org/apache/flink/" in leak.source
    assert len({leak.what for leak in LEAKS}) == len(LEAKS)


def test_absorbed_sessions_keep_the_timer_of_their_next_firing(start: Start) -> None:
    windows = start(EventTimeSessionWindows(gap_ms=10), trigger=ContinuousEventTimeTrigger(interval_ms=4))
    windows.element(1, 1, contents=1, sessions=1, event=2, fire_time=1)
    windows.element(2, 9, contents=1, sessions=1, event=3, fire_time=1)
    assert windows.timers()["event"] == {(4, "a", W(1, 11)), (4, "a", W(1, 19)), (18, "a", W(1, 19))}
    assert is_explained(
        leaks.FIRE_TIME_OF_ABSORBED_SESSIONS, windows, LeftOver("event timer", 4, W(1, 11), True)
    )
    windows.watermark(4, out=[fired_row(W(1, 19), 1, 2)], contents=1, sessions=1, event=2, fire_time=1)


def test_absorbed_sessions_keep_the_timer_of_their_next_firing_by_the_clock(start: Start) -> None:
    windows = start(
        ProcessingTimeSessionWindows(gap_ms=10), trigger=ContinuousProcessingTimeTrigger(interval_ms=4)
    )
    windows.clock(1)
    windows.element(1, None, contents=1, sessions=1, processing=2, fire_time=1)
    windows.clock_service.current_processing_time = 2
    windows.element(2, None, contents=1, sessions=1, processing=3, fire_time=1)
    assert windows.timers()["processing"] == {(4, "a", W(1, 11)), (4, "a", W(1, 12)), (11, "a", W(1, 12))}
    assert is_explained(
        leaks.FIRE_TIME_OF_ABSORBED_SESSIONS, windows, LeftOver("processing timer", 4, W(1, 11), True)
    )
    windows.clock(4, out=[fired_row(W(1, 12), 1, 2)], contents=1, sessions=1, processing=2, fire_time=1)


@pytest.mark.parametrize("lateness", [0, 5])
def test_absorbed_sessions_keep_the_timer_at_their_last_instant_unless_it_is_the_cleanup_timer(
    start: Start, lateness: int
) -> None:
    windows = start(
        EventTimeSessionWindows(gap_ms=10),
        trigger=ContinuousEventTimeTrigger(interval_ms=4),
        lateness=lateness,
    )
    windows.element(1, 1, contents=1, sessions=1, event=3 if lateness else 2, fire_time=1)
    windows.element(2, 9, contents=1, sessions=1, event=5 if lateness else 3, fire_time=1)
    assert {time for time, _, window in windows.timers()["event"] if window == W(1, 11)} == (
        {4, 10} if lateness else {4}
    )
    left_over = LeftOver("event timer", 10, W(1, 11), True)
    assert is_explained(leaks.LAST_INSTANT_OF_ABSORBED_SESSIONS, windows, left_over) is bool(lateness)
    windows.operator.process_watermark(10)
    assert {time for time, _, window in windows.timers()["event"] if window == W(1, 11)} == set()


@pytest.mark.parametrize(
    "assigner", [TumblingProcessingTimeWindows(size_ms=10), ProcessingTimeSessionWindows(gap_ms=10)]
)
def test_collected_windows_of_the_clock_keep_a_continuous_event_timer(
    start: Start, assigner: WindowAssigner
) -> None:
    windows = start(assigner, trigger=ContinuousEventTimeTrigger(interval_ms=4))
    sessions = int(isinstance(assigner, ProcessingTimeSessionWindows))
    windows.element(1, 1, contents=1, sessions=sessions, event=2, processing=1, fire_time=1)
    windows.clock(9, out=[cleared_row(W(0, 10))], event=1)
    assert windows.timers()["event"] == {(9, "a", W(0, 10))}
    assert is_explained(
        leaks.EVENT_TIMER_OF_CLOCK_WINDOWS, windows, LeftOver("event timer", 9, W(0, 10), False)
    )
    windows.watermark(9)


@pytest.mark.parametrize(
    ("trigger", "left_over"),
    [
        (CountTrigger.of(2), {"contents": 1, "count": 1}),
        (PurgingTrigger.of(CountTrigger.of(2)), {"contents": 1, "count": 1}),
        (EndOfStreamTrigger(), {"contents": 1, "event": 1}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_global_window_is_never_collected(
    start: Start, trigger: Trigger, left_over: dict[str, int]
) -> None:
    windows = start(GlobalWindows.create(), trigger=trigger)
    windows.element(1, 1, **left_over)
    windows.operator.process_watermark(LONG_MAX)
    windows.clock_service.advance_to(LONG_MAX)
    windows.output.take()
    windows.check(**left_over | ({"event": 0} if "event" in left_over else {}))


@pytest.mark.parametrize(
    "assigner", [TumblingEventTimeWindows(size_ms=10), EventTimeSessionWindows(gap_ms=10)]
)
def test_a_window_whose_cleanup_lies_beyond_the_end_of_time_is_never_collected(
    start: Start, assigner: WindowAssigner
) -> None:
    windows = start(assigner, lateness=LONG_MAX)
    sessions = int(isinstance(assigner, EventTimeSessionWindows))
    windows.element(1, 0, contents=1, sessions=sessions, event=1)
    windows.watermark(LONG_MAX, out=[fired_row(W(0, 10), 1)], contents=1, sessions=sessions)
    windows.element(
        2, 0, contents=1, dropped=1
    )  # a late session is retired, and what it held has no session any more


@pytest.mark.parametrize("lateness", [0, 5])
def test_a_timeout_deletes_the_cleanup_timer_that_is_the_inner_triggers_too(
    start: Start, lateness: int
) -> None:
    trigger = ProcessingTimeoutTrigger.of(EventTimeTrigger(), timedelta(milliseconds=4))
    windows = start(TumblingEventTimeWindows(size_ms=10), trigger=trigger, lateness=lateness)
    windows.element(1, 1, contents=1, timeout=1, event=2 if lateness else 1, processing=1)
    windows.clock(5, out=[fired_row(W(0, 10), 1)], contents=1, event=1 if lateness else 0)
    windows.watermark(8, contents=1, event=1 if lateness else 0)
    if lateness:
        windows.watermark(LONG_MAX, out=[fired_row(W(0, 10), 1), cleared_row(W(0, 10))])
        return
    windows.element(2, 1, contents=1, timeout=1, event=1, processing=1)  # registers the cleanup again
    windows.watermark(LONG_MAX, out=[fired_row(W(0, 10), 1, 2), cleared_row(W(0, 10))])


def test_contents_of_a_merged_session_that_an_elements_window_equals_are_lost_only_when_exact(
    start: Start,
) -> None:
    for is_exact in (True, False):
        windows = start(DynamicEventTimeSessionWindows(gap_ms_of=int), flink_exact=is_exact)
        windows.element(20, 0, contents=1, sessions=1, event=1)
        windows.element(21, 10, contents=1, sessions=1, event=1)
        windows.element(31, 0, contents=2 if is_exact else 1, sessions=1, event=1)
        elements = (31,) if is_exact else (20, 21, 31)
        windows.watermark(
            LONG_MAX,
            out=[fired_row(W(0, 31), *elements), cleared_row(W(0, 31))],
            contents=1 if is_exact else 0,
        )


class Keeping(ProcessWindowFunction):
    """Keeps one value in each kind of store, and removes neither."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        context.window_state().get_state(ValueStateDescriptor("of the window")).update(1)
        context.global_state().get_state(ValueStateDescriptor("of the key")).update(1)
        return [1]


def test_state_that_a_function_keeps_and_does_not_remove_stays(start: Start) -> None:
    windows = start(TumblingEventTimeWindows(size_ms=10), function=Keeping())
    windows.element(1, 1, contents=1, event=1)
    windows.operator.process_watermark(LONG_MAX)
    assert windows.output.take() == [Row(1, W(0, 10), 9, "a")]
    windows.check(**{"of the window": 1, "of the key": 1})
    assert (windows.namespaces("of the window"), windows.namespaces("of the key")) == ({W(0, 10)}, {None})
