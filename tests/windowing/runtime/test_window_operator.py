"""What a window operator does beyond Flink: its listener, located errors, elements undone, safe sessions,
restored watermarks.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing import (
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TriggerResult,
    WindowAssigner,
)
from slackwater.windowing.errors import (
    ConfigurationError,
    KeyGroupError,
    UserCodeError,
)
from slackwater.windowing.functions import AllWindowContext, RuntimeContext, WindowContext
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.key_types import LONG, STRING
from slackwater.windowing.runtime.operator_output import FiredBy, SkipReason
from slackwater.windowing.runtime.operator_snapshot import restore_snapshots, take_snapshot
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder
from slackwater.windowing.state.descriptors import ValueStateDescriptor
from slackwater.windowing.triggers import TriggerContext
from slackwater.windowing.windows import TimeWindow, Window
from tests.windowing.runtime.operators import TUMBLING, W0, W1, FiresAlways, Values, operator_of, tumbling
from tests.windowing.runtime.test_window_operator_errors import state_of


def test_the_listener_hears_a_windows_life_in_order() -> None:
    operator, heard = operator_of(tumbling().allowed_lateness_ms(5).reduce(lambda a, b: a + b))
    operator.process_element("a", 1, 3)
    operator.process_watermark(9)
    operator.process_element("a", 2, 4)
    operator.process_watermark(14)
    assert heard.take() == [
        ("element_added", "a", W0, 1, 3),
        ("window_fired", "a", W0, FiredBy("event", 9), True),
        ("collect", 1, 9, W0, "a"),
        ("firing_ended", "a", W0),
        ("element_added", "a", W0, 2, 4),
        ("window_fired", "a", W0, None, True),
        ("collect", 3, 9, W0, "a"),
        ("firing_ended", "a", W0),
        ("window_cleared", "a", W0),
    ]


def test_the_listener_hears_why_an_element_was_skipped_and_what_it_missed() -> None:
    operator, heard = operator_of(
        WindowOperatorBuilder(STRING, SlidingEventTimeWindows(size_ms=10, slide_ms=5)).reduce(max)
    )
    operator.process_watermark(12)
    operator.process_element("a", 1, 8)
    operator.process_element("a", 2, 4)
    assert heard.take() == [
        ("element_added", "a", TimeWindow(5, 15), 1, 8),
        ("windows_missed", "a", 1, 8, [TimeWindow(0, 10)]),
        ("element_skipped", "a", 2, 4, SkipReason.LATE, [TimeWindow(0, 10), TimeWindow(-5, 5)]),
    ]
    assert operator.late_records_dropped == 1


class Nowhere(WindowAssigner):
    """A window that is over already, or none for the value 0."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        return [W0] if element else []


def test_no_window_and_late_windows_of_an_element_that_is_not_late_are_told_apart() -> None:
    operator, heard = operator_of(
        WindowOperatorBuilder(STRING, Nowhere()).side_output_late_data().reduce(max)
    )
    operator.process_watermark(50)
    operator.process_element("a", 0, 60)
    operator.process_element("a", 1, 60)
    operator.process_element("a", 0, 40)
    assert heard.take() == [
        ("element_skipped", "a", 0, 60, SkipReason.NO_WINDOW, []),
        ("element_skipped", "a", 1, 60, SkipReason.WINDOWS_LATE, [W0]),
        ("late", 0, 40, "a"),
        ("element_skipped", "a", 0, 40, SkipReason.LATE, []),
    ]


def test_the_listener_hears_of_merges_purges_and_firings_without_contents() -> None:
    config = (
        WindowOperatorBuilder(STRING, EventTimeSessionWindows(gap_ms=10))
        .trigger(PurgingTrigger.of(CountTrigger.of(2)))
        .process(Values())
    )
    operator, heard = operator_of(config)
    operator.process_element("a", 1, 0)
    operator.process_element("a", 2, 5)
    operator.process_watermark(14)
    session = TimeWindow(0, 15)
    assert heard.take() == [
        ("element_added", "a", W0, 1, 0),
        ("windows_merged", "a", session, [W0]),
        ("element_added", "a", session, 2, 5),
        ("window_fired", "a", session, None, True),
        ("collect", [1, 2], 14, session, "a"),
        ("firing_ended", "a", session),
        ("window_purged", "a", session),
        ("window_cleared", "a", session),
    ]


def test_a_firing_without_contents_is_announced_as_such() -> None:
    operator, heard = operator_of(tumbling().trigger(FiresAlways()).reduce(max))
    operator.process_element("a", 1, 0)
    operator.process_watermark(9)
    assert heard.calls_named("window_fired", "collect") == [
        ("window_fired", "a", W0, FiredBy("event", 9), False)
    ]


class FiresAndPurges(FiresAlways):
    def on_event_time(self, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return TriggerResult.FIRE_AND_PURGE


def test_a_trigger_that_purges_must_say_so() -> None:
    operator, _ = operator_of(tumbling().trigger(FiresAndPurges()).reduce(max))
    operator.process_element("a", 1, 0)
    with pytest.raises(ConfigurationError, match="does not say `purges = True`"):
        operator.process_watermark(9)


class AnswersNothing(FiresAlways):
    def on_element(self, element: Any, timestamp: int, window: Any, context: Any) -> Any:
        return None


def test_an_answer_that_is_no_trigger_result_names_the_trigger() -> None:
    operator, _ = operator_of(tumbling().trigger(AnswersNothing()).reduce(max))
    with pytest.raises(UserCodeError, match=r"AnswersNothing.* answered None"):
        operator.process_element("a", 1, 0)


def test_sessions_with_equal_windows_keep_their_contents_unless_exact() -> None:
    results = []
    for builder in (tumbling_dynamic(), tumbling_dynamic().flink_exact()):
        operator, heard = operator_of(builder.process(Values()))
        for value, timestamp in ((20, 0), (21, 10), (31, 0)):
            operator.process_element("a", value, timestamp)
        operator.process_watermark(30)
        results.append([call[1] for call in heard.calls_named("collect")])
    assert results == [[[20, 21, 31]], [[31]]]


def tumbling_dynamic() -> WindowOperatorBuilder:
    from slackwater.windowing import DynamicEventTimeSessionWindows

    return WindowOperatorBuilder(STRING, DynamicEventTimeSessionWindows(gap_ms_of=int))


def test_a_key_of_another_range_is_refused() -> None:
    operator, _ = operator_of(tumbling().reduce(max), key_groups=KeyGroupRange(0, 10))
    with pytest.raises(KeyGroupError, match="key group 81"):
        operator.process_element("a", 1, 0)


class Everything(ProcessAllWindowFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.firings = runtime_context.get_state(ValueStateDescriptor("firings", 0))

    def process(self, context: AllWindowContext, elements: Any) -> Any:
        self.firings.update(self.firings.value() + 1)
        context.output("odd", [element for element in elements if element % 2])
        yield (list(elements), self.firings.value())


def test_windows_over_all_elements_have_one_key() -> None:
    operator, heard = operator_of(WindowOperatorBuilder.window_all(TUMBLING).process(Everything()))
    for value, timestamp in enumerate([1, 2, 15]):
        operator.process_element(0, value, timestamp)
    operator.process_watermark(30)
    assert heard.calls_named("collect", "side") == [
        ("side", "odd", [1], 9, W0, 0),
        ("collect", ([0, 1], 1), 9, W0, 0),
        ("side", "odd", [], 19, W1, 0),
        ("collect", ([2], 2), 19, W1, 0),
    ]


def test_operators_of_one_config_share_no_function() -> None:
    config = WindowOperatorBuilder.window_all(TUMBLING).process(Everything())
    first, second = operator_of(config), operator_of(config)
    for operator, heard in (first, second):
        operator.process_element(0, 7, 1)
        operator.process_watermark(9)
        assert [call[1] for call in heard.calls_named("collect")] == [([7], 1)]


def test_contents_handed_to_a_function_are_its_own() -> None:
    class Empties(ProcessWindowFunction):
        def process(self, key: Any, context: WindowContext, elements: Any) -> Any:
            yield len(elements)
            elements.clear()

    operator, heard = operator_of(tumbling().trigger(CountTrigger.of(1)).process(Empties()))
    for _ in range(3):
        operator.process_element("a", 1, 0)
    assert [call[1] for call in heard.calls_named("collect")] == [1, 2, 3]


def test_a_count_window_slides() -> None:
    operator, heard = operator_of(WindowOperatorBuilder.count_window(LONG, 3, 2).process(Values()))
    for value in range(1, 7):
        operator.process_element(5, value, None)
    assert [call[1] for call in heard.calls_named("collect")] == [[1, 2], [2, 3, 4], [4, 5, 6]]


class AskedEveryTime(EventTimeTrigger):
    """The default trigger without its promise."""

    arms_once = False


elements = st.tuples(st.just("element"), st.sampled_from("ab"), st.integers(0, 40))


watermarks = st.tuples(st.just("watermark"), st.just(""), st.integers(0, 60))


restores = st.tuples(st.sampled_from(["restore", "restore without watermark"]), st.just(""), st.just(0))


@given(
    script=st.lists(elements | elements | watermarks | restores, max_size=30),
    lateness=st.sampled_from([0, 7, 30]),
    is_session=st.booleans(),
)
def test_a_trigger_that_arms_once_loses_nothing_by_not_being_asked(
    script: list[Any], lateness: int, is_session: bool
) -> None:
    """The same rows, timers and state with and without the short cut, whatever the watermark does, unless a
    fallen one is vouched for.
    """
    outcomes = []
    for trigger in (
        EventTimeTrigger(),
        AskedEveryTime(),
        PurgingTrigger.of(EventTimeTrigger()),
        PurgingTrigger.of(AskedEveryTime()),
    ):
        assigner = EventTimeSessionWindows(gap_ms=10) if is_session else TUMBLING
        config = (
            WindowOperatorBuilder(STRING, assigner)
            .trigger(trigger)
            .allowed_lateness_ms(lateness)
            .process(Values())
        )
        operator, heard = operator_of(config, max_parallelism=4)
        for number, (kind, key, time) in enumerate(script):
            if kind == "element":
                operator.process_element(key, number, time)
            elif kind == "watermark":
                operator.process_watermark(time)
            else:
                snapshot, has_gone_back = (
                    take_snapshot(operator, KeyGroupRange(0, 3)),
                    operator.timer_service.has_gone_back,
                )
                operator, heard = operator_of(config, heard, max_parallelism=4)
                restore_snapshots(operator, [snapshot], KeyGroupRange(0, 3))
                if kind == "restore" and not has_gone_back:
                    operator.initialize_watermark(snapshot.watermark)
            heard.calls.append(("then", state_of(operator, 4)))
        outcomes.append(heard.calls)
    assert outcomes[0] == outcomes[1]
    assert outcomes[2] == outcomes[3]


@pytest.mark.parametrize("has_parked_window", [False, True])
def test_an_operator_that_has_restored_nothing_asks_about_the_first_element_alone(
    has_parked_window: bool,
) -> None:
    asked_elements = []

    class Asked(EventTimeTrigger):
        arms_once = True

        def on_element(
            self, element: Any, timestamp: int, window: Window, context: TriggerContext
        ) -> TriggerResult:
            asked_elements.append(element)
            return super().on_element(element, timestamp, window, context)

    config = WindowOperatorBuilder(STRING, TUMBLING).trigger(Asked()).process(Values())
    operator, heard = operator_of(config)
    if has_parked_window:
        operator.process_element("a", 0, 1)
    snapshot = take_snapshot(operator, KeyGroupRange(0, 127))
    operator, _ = operator_of(config, heard)
    restore_snapshots(operator, [snapshot], KeyGroupRange(0, 127))
    for number in (1, 2, 3):
        operator.process_element("a", number, 1)
    assert asked_elements == ([0, 1, 2, 3] if has_parked_window else [1])


def test_global_windows_are_never_late() -> None:
    operator, heard = operator_of(
        WindowOperatorBuilder(STRING, GlobalWindows.create()).trigger(CountTrigger.of(2)).reduce(max)
    )
    operator.process_watermark(2**63 - 1)
    operator.process_element("a", 1, 0)
    operator.process_element("a", 2, 0)
    assert [call[1:3] for call in heard.calls_named("collect")] == [(2, 2**63 - 1)]
