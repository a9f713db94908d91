"""What evictors do to a window: before or after its function, for good, by count, time and distance."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from slackwater.windowing import (
    AggregateFunction,
    CountEvictor,
    CountTrigger,
    DeltaEvictor,
    Evictor,
    TimeEvictor,
    TimestampedValue,
    TumblingEventTimeWindows,
)
from slackwater.windowing.errors import EmptyViewError, UntimedElementError
from slackwater.windowing.key_types import STRING
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder
from slackwater.windowing.windows import GLOBAL_WINDOW, TimeWindow

from .conftest import Start
from .harness import Row
from .scripted import (
    FIRE,
    FIRE_AND_PURGE,
    Contents,
    GivenSessions,
    GivenWindows,
    ScriptedTrigger,
    cleared_row,
    fired_row,
)

W = TimeWindow
LONG_MAX, LONG_MIN = 2**63 - 1, -(2**63)

pytestmark = pytest.mark.parametrize("evicts", [True], ids=["evicting"])


class Sum(AggregateFunction):
    """Sums numbers."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator


def rise(old: int, last: int) -> int:
    return last - old


def globally(*elements: Any) -> Row:
    return Row(elements, GLOBAL_WINDOW, LONG_MAX, "a")


def test_a_count_evictor_before_the_function_keeps_the_newest(start: Start) -> None:
    windows = start(
        GivenWindows(GLOBAL_WINDOW), trigger=ScriptedTrigger(element=FIRE), evictor=CountEvictor.of(2)
    )
    windows.element(1, 0, out=[globally(1)], contents=1)
    windows.element(2, 0, out=[globally(1, 2)], contents=1)
    windows.element(3, 0, out=[globally(2, 3)], contents=1)
    windows.element(4, 0, out=[globally(3, 4)], contents=1)


def test_a_count_evictor_after_the_function_shortens_the_next_firing(start: Start) -> None:
    windows = start(GivenWindows(GLOBAL_WINDOW), trigger=CountTrigger.of(2), evictor=CountEvictor.of(1, True))
    windows.element(1, 0, contents=1, count=1)
    windows.element(2, 0, out=[globally(1, 2)], contents=1)
    windows.element(3, 0, contents=1, count=1)
    windows.element(4, 0, out=[globally(2, 3, 4)], contents=1)


def test_a_sliding_count_window_is_a_count_evictor_and_a_count_trigger(start: Start) -> None:
    windows = start(
        GivenWindows(GLOBAL_WINDOW),
        finish=lambda _: WindowOperatorBuilder.count_window(STRING, 3, 2).process(Contents()),
    )
    windows.element(1, 0, contents=1, count=1)
    windows.element(2, 0, out=[globally(1, 2)], contents=1)
    windows.element(3, 0, contents=1, count=1)
    windows.snapshot_and_restore(contents=1, count=1)
    windows.element(4, 0, out=[globally(2, 3, 4)], contents=1)
    windows.element(5, 0, contents=1, count=1)
    windows.element(6, 0, out=[globally(4, 5, 6)], contents=1)
    windows.element(7, 0, contents=1, count=1)
    windows.watermark(LONG_MAX, contents=1, count=1)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_time_evictor_removes_all_up_to_its_size_before_the_greatest_timestamp(
    start: Start, after: bool
) -> None:
    trigger = ScriptedTrigger()
    windows = start(
        GivenWindows(GLOBAL_WINDOW), trigger=trigger, evictor=TimeEvictor(size_ms=10, do_evict_after=after)
    )
    for timestamp in (11, 10, 20, 9):
        windows.element(timestamp, timestamp, contents=1)
    trigger.answers["element"] = FIRE
    survivors = (11, 20, 12)  # everything at 20 - 10 or before goes, wherever it stands
    windows.element(12, 12, out=[globally(11, 10, 20, 9, 12) if after else globally(*survivors)], contents=1)
    windows.element(5, 5, out=[globally(*survivors, 5) if after else globally(*survivors)], contents=1)


def test_a_time_evictor_leaves_all_when_the_first_element_has_no_timestamp(start: Start) -> None:
    windows = start(
        GivenWindows(GLOBAL_WINDOW), trigger=ScriptedTrigger(element=FIRE), evictor=TimeEvictor(size_ms=10)
    )
    windows.element(1, None, out=[globally(1)], contents=1)
    windows.element(2, 100, out=[globally(1, 2)], contents=1)
    windows.element(3, None, out=[globally(1, 2, 3)], contents=1)


def test_a_time_evictor_refuses_a_later_element_without_timestamp(start: Start) -> None:
    windows = start(
        GivenWindows(GLOBAL_WINDOW), trigger=ScriptedTrigger(element=FIRE), evictor=TimeEvictor(size_ms=10)
    )
    windows.element(1, 100, out=[globally(1)], contents=1)
    with pytest.raises(UntimedElementError) as refusal:
        windows.operator.process_element("a", 2, None)
    assert refusal.value.flink == "IllegalStateException"


def test_the_cutoff_of_a_time_evictor_wraps(start: Start) -> None:
    windows = start(
        GivenWindows(GLOBAL_WINDOW), trigger=ScriptedTrigger(element=FIRE), evictor=TimeEvictor(size_ms=10)
    )
    windows.element("first", LONG_MIN + 5, out=[globally()], contents=0)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_delta_evictor_measures_from_the_last_element_and_includes_its_threshold(
    start: Start, after: bool
) -> None:
    trigger = ScriptedTrigger()
    windows = start(GivenWindows(GLOBAL_WINDOW), trigger=trigger, evictor=DeltaEvictor.of(5, rise, after))
    for value in (4, 6, 5, 20):
        windows.element(value, 0, contents=1)
    trigger.answers["element"] = FIRE
    windows.element(10, 0, out=[globally(4, 6, 5, 20, 10) if after else globally(6, 20, 10)], contents=1)
    windows.element(11, 0, out=[globally(6, 20, 10, 11) if after else globally(20, 10, 11)], contents=1)


def test_a_delta_evictor_fails_on_a_window_that_was_emptied_before_it(start: Start) -> None:
    class EmptyThenDelta(Evictor):
        def evict_before(self, elements: list[Any], size: int, window: Any, context: Any) -> None:
            elements.clear()

        def evict_after(self, elements: list[Any], size: int, window: Any, context: Any) -> None:
            DeltaEvictor.of(1, rise, True).evict_after(elements, size, window, context)

    windows = start(
        GivenWindows(GLOBAL_WINDOW), trigger=ScriptedTrigger(element=FIRE), evictor=EmptyThenDelta()
    )
    with pytest.raises(EmptyViewError) as refusal:
        windows.operator.process_element("a", 1, 0)
    assert refusal.value.flink == "NoSuchElementException"


EMPTYING = CountEvictor.of(0)


def test_process_gets_an_empty_window_when_all_was_evicted(start: Start) -> None:
    windows = start(GivenWindows(W(0, 20)), trigger=ScriptedTrigger(element=FIRE), evictor=EMPTYING)
    windows.element(1, 1, out=[fired_row(W(0, 20))], event=1)
    windows.element(2, 1, out=[fired_row(W(0, 20))], event=1)


def test_aggregate_gives_the_result_of_its_empty_accumulator_when_all_was_evicted(start: Start) -> None:
    windows = start(
        GivenWindows(W(0, 20)),
        trigger=ScriptedTrigger(element=FIRE),
        evictor=EMPTYING,
        finish=lambda builder: builder.aggregate(Sum()),
    )
    windows.element(1, 1, out=[Row(0, W(0, 20), 19, "a")], event=1)


def test_reduce_hands_over_none_when_all_was_evicted(start: Start) -> None:
    windows = start(
        GivenWindows(W(0, 20)),
        trigger=ScriptedTrigger(element=FIRE),
        evictor=EMPTYING,
        finish=lambda b: b.reduce(operator.add, Contents()),
    )
    windows.element(1, 1, out=[fired_row(W(0, 20), None)], event=1)
    without_evictor = start(
        GivenWindows(W(0, 20)),
        trigger=ScriptedTrigger(element=FIRE),
        evictor=EMPTYING,
        finish=lambda builder: builder.reduce(operator.add),
    )
    without_evictor.element(1, 1, out=[Row(None, W(0, 20), 19, "a")], event=1)


def test_a_timer_of_a_window_without_contents_calls_neither_evictor_nor_function(start: Start) -> None:
    windows = start(
        GivenWindows(W(0, 20)),
        trigger=ScriptedTrigger(element=FIRE, event=FIRE),
        evictor=DeltaEvictor.of(0, rise),
    )
    windows.element(1, 1, out=[fired_row(W(0, 20))], event=1)
    windows.watermark(19, out=[cleared_row(W(0, 20))])


def test_folds_are_made_anew_over_the_survivors_at_each_firing(start: Start) -> None:
    for finish in (lambda builder: builder.reduce(operator.add), lambda builder: builder.aggregate(Sum())):
        windows = start(
            GivenWindows(W(0, 20)),
            trigger=ScriptedTrigger(element=FIRE),
            evictor=CountEvictor.of(2),
            finish=finish,
        )
        windows.element(1, 1, out=[Row(1, W(0, 20), 19, "a")], contents=1, event=1)
        windows.element(2, 1, out=[Row(3, W(0, 20), 19, "a")], contents=1, event=1)
        windows.element(4, 1, out=[Row(6, W(0, 20), 19, "a")], contents=1, event=1)


def test_an_evicted_element_stays_away_from_a_late_refire(start: Start) -> None:
    windows = start(TumblingEventTimeWindows(size_ms=10), evictor=CountEvictor.of(1), lateness=20)
    windows.element(1, 3, contents=1, event=2)
    windows.element(2, 4, contents=1, event=2)
    windows.watermark(9, out=[fired_row(W(0, 10), 2)], contents=1, event=1)
    windows.element(3, 5, out=[fired_row(W(0, 10), 3)], contents=1, event=1)
    windows.watermark(29, out=[cleared_row(W(0, 10))])


def test_a_purge_follows_the_eviction(start: Start) -> None:
    windows = start(
        GivenWindows(W(0, 20)),
        trigger=ScriptedTrigger(element=FIRE_AND_PURGE),
        evictor=CountEvictor.of(1, True),
    )
    windows.element(1, 1, out=[fired_row(W(0, 20), 1)], event=1)
    windows.element(2, 1, out=[fired_row(W(0, 20), 2)], event=1)


class Watching(Evictor):
    """Writes down what it is given, and drops the first element each time."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def _evict(self, when: str, elements: list[Any], size: int, window: Any, context: Any) -> None:
        self.calls.append(
            (when, tuple(elements), size, window, context.current_watermark, context.current_processing_time)
        )
        del elements[:1]

    def evict_before(self, elements: list[Any], size: int, window: Any, context: Any) -> None:
        self._evict("before", elements, size, window, context)

    def evict_after(self, elements: list[Any], size: int, window: Any, context: Any) -> None:
        self._evict("after", elements, size, window, context)


def test_a_users_evictor_sees_timestamps_window_times_and_the_size_left_by_the_first_eviction(
    start: Start,
) -> None:
    trigger, evictor = ScriptedTrigger(), Watching()
    windows = start(GivenSessions(W(0, 20)), trigger=trigger, evictor=evictor)
    windows.clock(4)
    windows.watermark(2)
    windows.element("x", 1, contents=1, sessions=1, event=1)
    windows.element("y", None, contents=1, sessions=1, event=1)
    trigger.answers["element"] = FIRE
    windows.element("z", 3, out=[fired_row(W(0, 20), "y", "z")], contents=1, sessions=1, event=1)
    x, y, z = TimestampedValue("x", 1), TimestampedValue("y", None), TimestampedValue("z", 3)
    assert evictor.calls == [("before", (x, y, z), 3, W(0, 20), 2, 4), ("after", (y, z), 2, W(0, 20), 2, 4)]
    trigger.answers["element"] = FIRE_AND_PURGE
    windows.element("w", 4, out=[fired_row(W(0, 20), "w")], sessions=1, event=1)


def test_contents_with_timestamps_survive_a_restore(start: Start) -> None:
    windows = start(TumblingEventTimeWindows(size_ms=100), evictor=TimeEvictor(size_ms=10))
    windows.element("x", 5, contents=1, event=1)
    windows.element("y", 12, contents=1, event=1)
    windows.snapshot_and_restore(contents=1, event=1)
    windows.element("z", 16, contents=1, event=1)
    windows.watermark(99, out=[fired_row(W(0, 100), "y", "z"), cleared_row(W(0, 100))])
