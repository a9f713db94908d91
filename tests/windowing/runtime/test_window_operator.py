"""What a window operator does beyond Flink: its listener, located errors, elements undone, safe sessions,
restored watermarks.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing import (
    AggregateFunction,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    OrderMode,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from slackwater.windowing.errors import (
    ConfigurationError,
    KeyGroupError,
    MissingTimestampError,
    UserCodeError,
)
from slackwater.windowing.functions import AllWindowContext, RuntimeContext, WindowContext
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.key_types import LONG, STRING
from slackwater.windowing.processing_time_service import ReplayProcessingTimeService
from slackwater.windowing.runtime.operator_output import FiredBy, SkipReason
from slackwater.windowing.runtime.operator_snapshot import restore_snapshots, take_snapshot
from slackwater.windowing.runtime.window_operator import WindowOperator, window_operator
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder
from slackwater.windowing.state.descriptors import ValueStateDescriptor
from slackwater.windowing.windows import TimeWindow


class Heard:
    """Output and listener in one: every call in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *arguments: self.calls.append((name, *arguments))

    def take(self) -> list[tuple[Any, ...]]:
        calls, self.calls = self.calls, []
        return calls

    def named(self, *names: str) -> list[tuple[Any, ...]]:
        return [call for call in self.calls if call[0] in names]


class Values(ProcessWindowFunction):
    def process(self, key: Any, context: WindowContext, elements: Any) -> Any:
        yield list(elements)


class Total(AggregateFunction):
    """The sum; adding "boom" fails, and so does a result above 100."""

    def create_accumulator(self) -> list[int]:
        return [0]

    def add(self, value: Any, accumulator: list[int]) -> list[int]:
        accumulator[0] += 1000
        accumulator[0] += value
        accumulator[0] -= 1000
        return accumulator

    def get_result(self, accumulator: list[int]) -> int:
        if accumulator[0] > 100:
            raise OverflowError("too much")
        return accumulator[0]

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return [a[0] + b[0]]


TUMBLING = TumblingEventTimeWindows(size_ms=10)
W0, W1 = TimeWindow(0, 10), TimeWindow(10, 20)


def tumbling() -> WindowOperatorBuilder:
    return WindowOperatorBuilder(STRING, TUMBLING)


def operator_of(config: Any, heard: Heard | None = None, **options: Any) -> tuple[WindowOperator, Heard]:
    heard = heard or Heard()
    operator = window_operator(config, heard, ReplayProcessingTimeService(0), listener=heard, **options)
    operator.open()
    return operator, heard


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


class FiresAlways(Trigger):
    def on_element(self, element: Any, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return TriggerResult.PURGE

    def on_event_time(self, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return TriggerResult.FIRE

    def clear(self, window: Any, context: Any) -> None:
        """Nothing."""


def test_a_firing_without_contents_is_announced_as_such() -> None:
    operator, heard = operator_of(tumbling().trigger(FiresAlways()).reduce(max))
    operator.process_element("a", 1, 0)
    operator.process_watermark(9)
    assert heard.named("window_fired", "collect") == [("window_fired", "a", W0, FiredBy("event", 9), False)]


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


def test_an_error_of_a_user_function_names_key_window_and_timestamp() -> None:
    operator, _ = operator_of(tumbling().aggregate(Total()))
    operator.process_element("a", 1, 12)
    with pytest.raises(
        UserCodeError,
        match=r"TypeError while processing an element.*key 'a', window TimeWindow\(start=10, end=20\), "
        r"timestamp 13",
    ) as raised:
        operator.process_element("a", "boom", 13)
    assert (raised.value.key, raised.value.window, raised.value.timestamp, raised.value.undone) == (
        "a",
        W1,
        13,
        False,
    )
    assert isinstance(raised.value.__cause__, TypeError)


def test_an_error_in_a_firing_names_the_timer() -> None:
    operator, _ = operator_of(tumbling().aggregate(Total()), on_error="quarantine")
    operator.process_element("a", 500, 12)
    with pytest.raises(
        UserCodeError, match="OverflowError while handling a timer of event time: too much"
    ) as raised:
        operator.process_watermark(19)
    assert (raised.value.key, raised.value.window, raised.value.timestamp, raised.value.undone) == (
        "a",
        W1,
        19,
        False,
    )


def test_an_error_of_our_own_is_located_too() -> None:
    operator, _ = operator_of(tumbling().reduce(max))
    with pytest.raises(MissingTimestampError, match=r"key 'a', window None, timestamp None") as raised:
        operator.process_element("a", 1, None)
    assert raised.value.fault == "data"


def test_the_key_selector_is_user_code() -> None:
    config = WindowOperatorBuilder(STRING, TUMBLING, key_selector=lambda value: value["key"]).process(
        Values()
    )
    operator, heard = operator_of(config, on_error="quarantine")
    operator.process_record({"key": "a"}, 1)
    with pytest.raises(UserCodeError, match="KeyError while selecting the key") as raised:
        operator.process_record({}, 1)
    assert raised.value.undone
    operator.process_watermark(9)
    assert heard.named("collect") == [("collect", [{"key": "a"}], 9, W0, "a")]
    without, _ = operator_of(tumbling().process(Values()))
    with pytest.raises(ConfigurationError, match="no key selector"):
        without.process_record("x", 1)


def state_of(operator: WindowOperator, max_parallelism: int = 128) -> Any:
    snapshot = take_snapshot(operator, KeyGroupRange(0, max_parallelism - 1))
    return sorted(map(repr, snapshot.entries)), snapshot.timers


class FailsAtSecondWindow(Trigger):
    """Fires for each element, and raises on the value 13 in the windows that start below 5, after having
    changed state and timers.
    """

    can_merge = False

    def on_element(self, element: Any, timestamp: int, window: Any, context: Any) -> TriggerResult:
        context.register_event_time_timer(100)
        context.delete_event_time_timer(99)
        context.get_partitioned_state(ValueStateDescriptor("seen")).update(element)
        if element == 13 and window.start < 5:
            raise ValueError("thirteen")
        return TriggerResult.FIRE

    def on_event_time(self, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: Any, context: Any) -> None:
        """Nothing."""


@pytest.mark.parametrize("order_mode", OrderMode)
def test_a_failing_element_in_quarantine_mode_leaves_no_trace(order_mode: OrderMode) -> None:
    builder = WindowOperatorBuilder(STRING, SlidingEventTimeWindows(size_ms=10, slide_ms=5)).trigger(
        FailsAtSecondWindow()
    )
    operator, heard = operator_of(builder.aggregate(Total()), on_error="quarantine", order_mode=order_mode)
    operator.process_element("a", 1, 7)
    before, rows = state_of(operator), len(heard.calls)
    with pytest.raises(UserCodeError, match="thirteen") as raised:
        operator.process_element("a", 13, 7)
    assert raised.value.undone
    assert raised.value.window == W0
    assert state_of(operator) == before
    assert len(heard.calls) == rows  # the first window had fired already
    operator.process_element("a", 2, 7)
    assert [call[1] for call in heard.named("collect")] == [1, 1, 3, 3]


def test_in_fail_mode_nothing_is_undone() -> None:
    builder = WindowOperatorBuilder(STRING, SlidingEventTimeWindows(size_ms=10, slide_ms=5)).trigger(
        FailsAtSecondWindow()
    )
    operator, heard = operator_of(builder.aggregate(Total()))
    with pytest.raises(UserCodeError) as raised:
        operator.process_element("a", 13, 7)
    assert not raised.value.undone
    assert len(heard.named("collect")) == 1


def test_a_failing_merge_is_not_undone() -> None:
    def reduce(a: int, b: int) -> int:
        if b > 100:
            raise ValueError("in the merge")
        return a + b

    operator, _ = operator_of(
        WindowOperatorBuilder(STRING, EventTimeSessionWindows(gap_ms=10)).reduce(reduce),
        on_error="quarantine",
    )
    operator.process_element("a", 200, 0)
    operator.process_element("a", 300, 18)
    with pytest.raises(UserCodeError, match="in the merge") as raised:
        operator.process_element("a", 1, 9)
    assert not raised.value.undone


def test_rows_leave_in_order_in_quarantine_mode_too() -> None:
    calls = []
    for on_error in ("fail", "quarantine"):
        operator, heard = operator_of(tumbling().allowed_lateness_ms(5).process(Values()), on_error=on_error)
        for value, timestamp in enumerate([3, 12, 4]):
            operator.process_element("a", value, timestamp)
        operator.process_watermark(11)
        operator.process_element("a", 9, 5)
        operator.process_watermark(40)
        calls.append(heard.take())
    assert calls[0] == calls[1]


def test_sessions_with_equal_windows_keep_their_contents_unless_exact() -> None:
    results = []
    for builder in (tumbling_dynamic(), tumbling_dynamic().flink_exact()):
        operator, heard = operator_of(builder.process(Values()))
        for value, timestamp in ((20, 0), (21, 10), (31, 0)):
            operator.process_element("a", value, timestamp)
        operator.process_watermark(30)
        results.append([call[1] for call in heard.named("collect")])
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
        operator.process_record(value, timestamp)
    operator.process_watermark(30)
    assert heard.named("collect", "side") == [
        ("side", "odd", [1], 9, W0, 0),
        ("collect", ([0, 1], 1), 9, W0, 0),
        ("side", "odd", [], 19, W1, 0),
        ("collect", ([2], 2), 19, W1, 0),
    ]


def test_operators_of_one_config_share_no_function() -> None:
    config = WindowOperatorBuilder.window_all(TUMBLING).process(Everything())
    first, second = operator_of(config), operator_of(config)
    for operator, heard in (first, second):
        operator.process_record(7, 1)
        operator.process_watermark(9)
        assert [call[1] for call in heard.named("collect")] == [([7], 1)]


def test_contents_handed_to_a_function_are_its_own() -> None:
    class Empties(ProcessWindowFunction):
        def process(self, key: Any, context: WindowContext, elements: Any) -> Any:
            yield len(elements)
            elements.clear()

    operator, heard = operator_of(tumbling().trigger(CountTrigger.of(1)).process(Empties()))
    for _ in range(3):
        operator.process_element("a", 1, 0)
    assert [call[1] for call in heard.named("collect")] == [1, 2, 3]


def test_a_count_window_slides() -> None:
    operator, heard = operator_of(WindowOperatorBuilder.count_window(LONG, 3, 2).process(Values()))
    for value in range(1, 7):
        operator.process_element(5, value, None)
    assert [call[1] for call in heard.named("collect")] == [[1, 2], [2, 3, 4], [4, 5, 6]]


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
                    operator._timers.has_gone_back,
                )
                operator, heard = operator_of(config, heard, max_parallelism=4)
                restore_snapshots(operator, [snapshot], KeyGroupRange(0, 3))
                if kind == "restore" and not has_gone_back:
                    operator.initialize_watermark(snapshot.watermark)
            heard.calls.append(("then", state_of(operator, 4)))
        outcomes.append(heard.calls)
    assert outcomes[0] == outcomes[1]
    assert outcomes[2] == outcomes[3]


def test_global_windows_are_never_late() -> None:
    operator, heard = operator_of(
        WindowOperatorBuilder(STRING, GlobalWindows.create()).trigger(CountTrigger.of(2)).reduce(max)
    )
    operator.process_watermark(2**63 - 1)
    operator.process_element("a", 1, 0)
    operator.process_element("a", 2, 0)
    assert [call[1:3] for call in heard.named("collect")] == [(2, 2**63 - 1)]
