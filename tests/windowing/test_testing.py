"""The test kit itself: what it feeds and shows, and that runs that follow each other, crash or rescale give
the results of a single run.

Expected values are computed by hand from Flink's rules, or come from a run that was never cut.
"""

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing import (
    EventTimeSessionWindows,
    KeyedProcessFunction,
    ProcessAllWindowFunction,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    ValueStateDescriptor,
)
from slackwater.windowing.errors import ConfigurationError, KeyTypeError, UserCodeError
from slackwater.windowing.java import LONG_MIN
from slackwater.windowing.key_types import STRING
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder
from slackwater.windowing.testing import (
    HarnessProcessingTimeService,
    KeyedProcess,
    LateElement,
    OperatorHarness,
    OperatorStoppedError,
    Pane,
    Row,
    RunSequence,
    Runtime,
    Watermark,
)

TEN = timedelta(milliseconds=10)


def tumbling(lateness_ms=0):
    return WindowOperatorBuilder(STRING, TumblingEventTimeWindows.of(TEN)).allowed_lateness_ms(lateness_ms)


def added(a, b):
    return a + b


class Alarm(KeyedProcessFunction):
    """Counts a key's elements, and tells the count 5 ms of either time after each of them."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("n", 0))

    def process_element(self, value, context):
        self.count.update(self.count.value() + 1)
        if value == "event":
            context.timer_service.register_event_time_timer(context.timestamp + 5)
        else:
            context.timer_service.register_processing_time_timer(
                context.timer_service.current_processing_time + 5
            )
        context.output("seen", value)

    def on_timer(self, timestamp, context):
        yield self.count.value()


class Listing(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield sorted(elements)


# --- one harness


def test_output_holds_rows_late_elements_and_watermarks_in_order():
    harness = OperatorHarness(tumbling().side_output_late_data().reduce(added))
    harness.process_element("a", 1, 3)
    harness.process_watermark(9)
    harness.process_element("a", 2, 4)
    assert harness.output == [Pane("a", (0, 10), 1), Watermark(9), LateElement("a", 2, 4)]
    assert harness.panes == [("a", (0, 10), 1)]
    assert harness.late_elements == [("a", 2, 4)]


def test_late_elements_without_a_side_output_are_counted():
    harness = OperatorHarness(tumbling().reduce(added), parallelism=3)
    harness.process_watermark(9)
    for key in ("a", "b", "c"):
        harness.process_element(key, 1, 4)
    assert harness.late_records_dropped == 3
    assert harness.late_elements == []


def test_state_entries_and_timers_are_counted_over_all_subtasks():
    harness = OperatorHarness(tumbling(5).reduce(added), parallelism=4)
    for key in ("a", "b", "c"):
        harness.process_element(key, 1, 4)
    assert (harness.state_entries, harness.event_timers, harness.processing_timers) == (
        {"window-contents": 3},
        6,
        0,
    )
    harness.process_watermark(9)
    assert (harness.state_entries, harness.event_timers) == ({"window-contents": 3}, 3)
    harness.process_watermark(14)
    assert (harness.state_entries, harness.event_timers) == ({}, 0)


def test_the_replay_clock_fires_a_millisecond_after_and_stops_there():
    config = WindowOperatorBuilder(STRING, TumblingProcessingTimeWindows.of(TEN)).reduce(added)
    harness = OperatorHarness(config)
    harness.process_element("a", 1, None)
    harness.advance_clock(9)
    assert (harness.panes, harness.processing_timers) == ([], 1)
    harness.advance_clock(10)
    assert harness.panes == [("a", (0, 10), 1)]


def test_the_harness_clock_fires_on_the_dot():
    config = WindowOperatorBuilder(STRING, TumblingProcessingTimeWindows.of(TEN)).reduce(added)
    harness = OperatorHarness(config, Runtime(clock=HarnessProcessingTimeService))
    harness.process_element("a", 1, None)
    harness.advance_clock(8)
    assert harness.panes == []
    harness.advance_clock(9)
    assert harness.panes == [("a", (0, 10), 1)]


def test_a_process_function_is_driven_too():
    harness = OperatorHarness(
        KeyedProcess(Alarm(), STRING), Runtime(clock=HarnessProcessingTimeService), clock_ms=100
    )
    harness.process_element("a", "event", 1)
    harness.process_element("a", "clock", 2)
    assert (harness.event_timers, harness.processing_timers, harness.state_entries) == (1, 1, {"n": 1})
    harness.process_watermark(6)
    harness.advance_clock(105)
    assert harness.rows == [Row("a", 2, 6), Row("a", 2, None)]
    assert harness.side_output("seen") == ["event", "clock"]
    assert harness.side_output("unheard of") == []


def test_windows_over_all_elements_need_no_key():
    config = WindowOperatorBuilder.window_all(TumblingEventTimeWindows.of(TEN)).process(Listing())
    harness = OperatorHarness(config)
    for value in (3, 1, 2):
        harness.process_record(value, value)
    harness.process_watermark(9)
    assert [pane.value for pane in harness.panes] == [[1, 2, 3]]


def test_a_config_without_a_selector_asks_for_the_key():
    with pytest.raises(ConfigurationError, match="key selector"):
        OperatorHarness(tumbling().reduce(added)).process_record(1, 1)


def test_a_key_of_another_type_is_refused():
    with pytest.raises(KeyTypeError):
        OperatorHarness(tumbling().reduce(added)).process_element(7, 1, 1)


def test_a_subject_that_is_no_operator_is_refused():
    with pytest.raises(ConfigurationError, match="WindowOperatorConfig"):
        OperatorHarness(tumbling())  # the builder, before it was told what to compute


def test_quarantine_undoes_the_element_that_failed():
    def suspicious(a, b):
        if b < 0:
            raise ArithmeticError(b)
        return a + b

    harness = OperatorHarness(tumbling().reduce(suspicious), Runtime(on_error="quarantine"))
    harness.process_element("a", 1, 1)
    with pytest.raises(UserCodeError) as failure:
        harness.process_element("a", -1, 1)
    assert failure.value.undone
    harness.process_element("a", 2, 1)
    harness.process_watermark(9)
    assert harness.panes == [("a", (0, 10), 3)]


def test_a_watermark_that_goes_back_is_refused():
    harness = OperatorHarness(tumbling().reduce(added))
    harness.process_watermark(9)
    with pytest.raises(ConfigurationError, match="from 9 to 8"):
        harness.process_watermark(8)


# --- runs


def test_nothing_is_flushed_between_runs():
    runs = RunSequence(tumbling().reduce(added))
    with runs.run() as run:
        run.process_element("a", 1, 3)
        run.process_watermark(5)
    assert runs.output == [Watermark(5)]
    assert runs.snapshot.event_timers() == [(9, "a", (0, 10))]
    assert runs.snapshot.state() == [("window-contents", "a", (0, 10), 1)]
    with runs.run() as run:
        assert run.current_watermark == 5
        run.process_watermark(9)
    assert runs.panes == [("a", (0, 10), 1)]


def test_a_crashed_run_has_never_been():
    runs = RunSequence(tumbling().reduce(added))
    with runs.run() as run:
        run.process_element("a", 1, 3)
    before = runs.snapshot
    with runs.run() as run:
        run.process_element("a", 10, 3)
        run.process_watermark(9)
        assert run.panes == [("a", (0, 10), 11)]
        run.crash()
        assert run.output == []
        with pytest.raises(OperatorStoppedError):
            run.process_watermark(10)
    assert runs.snapshot is before
    with runs.run() as run:
        run.process_watermark(9)
    assert runs.panes == [("a", (0, 10), 1)]


def test_a_run_that_raises_parks_nothing():
    runs = RunSequence(tumbling().reduce(added))
    with pytest.raises(ZeroDivisionError), runs.run() as run:
        run.process_element("a", 1, 3)
        raise ZeroDivisionError
    assert (runs.snapshot, runs.output) == (None, [])


def test_runs_share_no_object():
    runs = RunSequence(WindowOperatorBuilder.window_all(TumblingEventTimeWindows.of(TEN)).process(Listing()))
    mutable = [1]
    with runs.run() as run:
        run.process_record(mutable, 3)
    mutable.append("changed after the run")
    with runs.run() as run:
        run.process_watermark(9)
    assert [pane.value for pane in runs.panes] == [[[1]]]


def test_state_and_timers_may_live_in_rocksdb(tmp_path):
    pytest.importorskip("rocksdict")
    runs = RunSequence(
        tumbling(5).reduce(added),
        Runtime(storage=lambda: OperatorStorage(state="rocksdb", timers="rocksdb", parent=tmp_path)),
    )
    with runs.run() as run:
        run.process_element("a", 1, 3)
        run.process_watermark(9)
    with runs.run(parallelism=2) as run:
        run.process_element("a", 2, 4)
        assert (run.state_entries, run.event_timers) == ({"window-contents": 1}, 1)
        run.process_watermark(14)
        assert (run.state_entries, run.event_timers) == ({}, 0)
    assert runs.panes == [("a", (0, 10), 1), ("a", (0, 10), 3)]
    assert list(tmp_path.iterdir()) == []


def test_without_the_watermark_a_collected_window_comes_back_in_part_as_in_flink():
    def second_result(restores_watermark):
        runs = RunSequence(tumbling().reduce(added))
        with runs.run() as run:
            run.process_element("a", 1, 3)
            run.process_watermark(9)
        with runs.run(restores_watermark=restores_watermark) as run:
            assert run.current_watermark == (9 if restores_watermark else LONG_MIN)
            run.process_element("a", 2, 4)
            run.process_watermark(9)
            return run.panes, run.late_records_dropped

    assert second_result(restores_watermark=False) == ([("a", (0, 10), 2)], 0)
    assert second_result(restores_watermark=True) == ([], 1)


def test_the_clock_goes_on_where_it_stood():
    runs = RunSequence(WindowOperatorBuilder(STRING, TumblingProcessingTimeWindows.of(TEN)).reduce(added))
    with runs.run(clock_ms=100) as run:
        run.process_element("a", 1, None)
        run.advance_clock(104)
    with runs.run() as run:
        assert run.current_processing_time == 104
        assert run.processing_timers == 1
    with runs.run(clock_ms=250) as run:  # the timer is overdue: it fires as soon as the clock moves
        run.advance_clock(251)
    assert runs.panes == [("a", (100, 110), 1)]


def test_the_number_of_key_groups_never_changes():
    runs = RunSequence(tumbling().reduce(added), Runtime(max_parallelism=16))
    with runs.run(parallelism=16):
        pass
    with pytest.raises(ConfigurationError, match="16 key groups, the runtime 128"):
        OperatorHarness(tumbling().reduce(added), restore=runs.snapshot)


actions = st.one_of(
    st.tuples(st.just("process_element"), st.sampled_from("abcdefg"), st.integers(1, 9), st.integers(0, 60)),
    st.tuples(st.just("process_watermark"), st.integers(0, 60)),
)
slices = st.lists(
    st.tuples(st.integers(1, 9), st.booleans(), st.lists(actions, max_size=12)), min_size=1, max_size=5
)


def feed(run, slice_actions):
    for name, *arguments in slice_actions:
        if name == "process_element":
            run.process_element(*arguments)
        else:
            run.process_watermark(max(*arguments, run.current_watermark))


def play(config, script):
    """Play (parallelism, whether a try crashes before, actions) of each slice, and then a last watermark."""
    runs = RunSequence(config)
    for parallelism, crashes, slice_actions in script:
        if crashes:
            with runs.run(parallelism=parallelism) as crashing_run:
                feed(
                    crashing_run,
                    [("process_element", "a", 1000, 55), *slice_actions, ("process_watermark", 70)],
                )
                crashing_run.crash()
        with runs.run(parallelism=parallelism) as run:
            feed(run, slice_actions)
    with runs.run() as last:
        last.process_watermark(1000)
        assert (last.event_timers, last.state_entries) == (0, {})
    return runs


def by_watermark(output):
    """Output as a list of multisets, one for each watermark: order inside one is the subtasks' affair."""
    groups, current = [], Counter()
    for record in output:
        if isinstance(record, Watermark):
            groups.append((record.timestamp, current))
            current = Counter()
        else:
            current[type(record).__name__, *record] += 1
    return [*groups, (None, current)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [
        tumbling(7).side_output_late_data().reduce(added),
        WindowOperatorBuilder(STRING, EventTimeSessionWindows.with_gap(TEN))
        .allowed_lateness_ms(7)
        .side_output_late_data()
        .reduce(added),
    ],
    ids=["tumbling", "sessions"],
)
@given(script=slices)
def test_cuts_crashes_and_rescaling_do_not_show(config, script):
    uncut = [(1, False, [action for _, _, slice_actions in script for action in slice_actions])]
    assert by_watermark(play(config, script).output) == by_watermark(play(config, uncut).output)
