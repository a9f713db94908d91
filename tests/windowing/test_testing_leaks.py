"""Where Flink keeps state or timers longer than anybody needs them, and so do we: one claim for each line of the README's list."""

from datetime import timedelta

from windowing import (
    ContinuousEventTimeTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    KeyedProcessFunction,
    ProcessWindowFunction,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
)
from windowing.java import LONG_MAX
from windowing.key_types import STRING
from windowing.runtime.window_operator_builder import WindowOperatorBuilder
from windowing.testing import KeyedProcess, OperatorHarness

TEN = timedelta(milliseconds=10)
NOTHING = ({}, 0, 0)


def held(harness):
    return harness.state_entries, harness.event_timers, harness.processing_timers


def added(a, b):
    return a + b


class RemembersWindows(ProcessWindowFunction):
    """Keeps per-window state, and clears it or not."""

    clears = False
    state = ValueStateDescriptor("firings", 0)

    def process(self, key, context, elements):
        context.window_state().get_state(self.state).update(1)

    def clear(self, context):
        if self.clears:
            context.window_state().get_state(self.state).clear()


class RemembersAndClears(RemembersWindows):
    clears = True


class RemembersKeys(ProcessWindowFunction):
    def process(self, key, context, elements):
        context.global_state().get_state(ValueStateDescriptor("seen")).update(True)


class RemembersElements(KeyedProcessFunction):
    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value, context):
        self.last.update(value)


class ArmsAndForgets(EventTimeTrigger):
    """Also fires 100 ms after the window's end, and does not take that timer back when it is cleared."""

    arms_once = False

    def on_element(self, element, timestamp, window, context):
        context.register_event_time_timer(window.max_timestamp() + 100)
        return super().on_element(element, timestamp, window, context)


def test_the_timers_of_absorbed_sessions_stay_until_they_are_due():
    sessions = WindowOperatorBuilder(STRING, EventTimeSessionWindows.with_gap(TEN)).allowed_lateness_ms(50)
    harness = OperatorHarness(sessions.trigger(ContinuousEventTimeTrigger.of(timedelta(milliseconds=4))).reduce(added))
    harness.process_element("a", 1, 0)
    assert harness.event_timers == 3  # [0, 10): firing at 4 and 9, cleanup at 59
    harness.process_element("a", 2, 5)
    # [0, 15): firing at 4 and 14, cleanup at 64; of [0, 10) the firings at 4 and 9 are left
    assert harness.event_timers == 3 + 2
    harness.process_watermark(9)
    assert [pane.window for pane in harness.panes] == [(0, 15)] * 2, "what is left over fires nothing"
    harness.process_watermark(64)
    assert held(harness) == NOTHING


def test_a_window_whose_cleanup_is_never_stays():
    harness = OperatorHarness(WindowOperatorBuilder(STRING, TumblingEventTimeWindows.of(TEN)).allowed_lateness_ms(LONG_MAX).reduce(added))
    harness.process_element("a", 1, 0)
    harness.process_watermark(LONG_MAX)
    assert harness.panes == [("a", (0, 10), 1)]
    assert held(harness) == ({"window-contents": 1}, 0, 0)


def test_count_windows_keep_what_is_left_of_each_key():
    harness = OperatorHarness(WindowOperatorBuilder.count_window(STRING, 2).reduce(added))
    for value in (1, 2, 3):
        harness.process_element("a", value, 0)
    harness.process_watermark(LONG_MAX)
    assert [pane.value for pane in harness.panes] == [3]
    assert held(harness) == ({"window-contents": 1, "count": 1}, 0, 0)


def test_the_end_of_stream_trigger_has_fired_and_the_global_window_stays():
    harness = OperatorHarness(WindowOperatorBuilder(STRING, GlobalWindows.create_with_end_of_stream_trigger()).reduce(added))
    harness.process_element("a", 1, 0)
    harness.process_watermark(LONG_MAX)
    assert [pane.value for pane in harness.panes] == [1]
    assert held(harness) == ({"window-contents": 1}, 0, 0)


def test_per_window_state_stays_unless_the_function_clears_it():
    def left(function):
        harness = OperatorHarness(WindowOperatorBuilder(STRING, TumblingEventTimeWindows.of(TEN)).process(function))
        harness.process_element("a", 1, 0)
        harness.process_watermark(9)
        return held(harness)

    assert left(RemembersWindows()) == ({"firings": 1}, 0, 0)
    assert left(RemembersAndClears()) == NOTHING


def test_state_of_a_key_stays_after_its_last_window():
    harness = OperatorHarness(WindowOperatorBuilder(STRING, TumblingEventTimeWindows.of(TEN)).process(RemembersKeys()))
    harness.process_element("a", 1, 0)
    harness.process_watermark(9)
    assert held(harness) == ({"seen": 1}, 0, 0)


def test_state_of_a_process_function_stays():
    harness = OperatorHarness(KeyedProcess(RemembersElements(), STRING))
    harness.process_element("a", 1, 0)
    harness.process_watermark(LONG_MAX)
    assert held(harness) == ({"last": 1}, 0, 0)


def test_timers_that_a_users_trigger_does_not_take_back_outlive_the_window():
    builder = WindowOperatorBuilder(STRING, TumblingEventTimeWindows.of(TEN)).trigger(ArmsAndForgets())
    harness = OperatorHarness(builder.reduce(added))
    harness.process_element("a", 1, 0)
    harness.process_watermark(9)
    assert held(harness) == ({}, 1, 0)
    harness.process_watermark(109)
    assert held(harness) == NOTHING


def test_flinks_loss_of_a_session_keeps_what_was_lost():
    def play(builder):
        harness = OperatorHarness(builder.reduce(lambda a, b: (a[0] + b[0], None)))
        for value, timestamp, gap_ms in ((1, 0, 20), (2, 10, 21), (4, 0, 31)):  # the third one's own window is the merged [0, 31)
            harness.process_element("a", (value, gap_ms), timestamp)
        harness.process_watermark(100)
        return [pane.value[0] for pane in harness.panes], held(harness)

    def sessions():
        gap = EventTimeSessionWindows.with_dynamic_gap(lambda element: timedelta(milliseconds=element[1]))
        return WindowOperatorBuilder(STRING, gap)

    assert play(sessions().flink_exact()) == ([4], ({"window-contents": 1}, 0, 0))
    assert play(sessions()) == ([7], NOTHING)
