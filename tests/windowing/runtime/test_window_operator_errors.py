"""What the window operator says of failing user code, and what quarantine mode undoes."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.windowing import (
    EventTimeSessionWindows,
    OrderMode,
    SlidingEventTimeWindows,
    Trigger,
    TriggerResult,
)
from slackwater.windowing.errors import (
    MissingTimestampError,
    UserCodeError,
)
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.key_types import STRING
from slackwater.windowing.runtime.operator_snapshot import take_snapshot
from slackwater.windowing.runtime.window_operator import WindowOperator
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder
from slackwater.windowing.state.descriptors import ValueStateDescriptor
from tests.windowing.runtime.operators import W0, W1, Total, Values, operator_of, tumbling


def test_an_error_of_a_user_function_names_key_window_and_timestamp() -> None:
    operator, _ = operator_of(tumbling().aggregate(Total()))
    operator.process_element("a", 1, 12)
    with pytest.raises(
        UserCodeError,
        match=r"TypeError while processing an element.*key 'a', window TimeWindow\(start=10, end=20\), "
        r"timestamp 13",
    ) as failure:
        operator.process_element("a", "boom", 13)
    assert (failure.value.key, failure.value.window, failure.value.timestamp, failure.value.undone) == (
        "a",
        W1,
        13,
        False,
    )
    assert isinstance(failure.value.__cause__, TypeError)


def test_an_error_in_a_firing_names_the_timer() -> None:
    operator, _ = operator_of(tumbling().aggregate(Total()), on_error="quarantine")
    operator.process_element("a", 500, 12)
    with pytest.raises(
        UserCodeError, match="OverflowError while handling a timer of event time: too much"
    ) as failure:
        operator.process_watermark(19)
    assert (failure.value.key, failure.value.window, failure.value.timestamp, failure.value.undone) == (
        "a",
        W1,
        19,
        False,
    )


def test_an_error_of_our_own_is_located_too() -> None:
    operator, _ = operator_of(tumbling().reduce(max))
    with pytest.raises(MissingTimestampError, match=r"key 'a', window None, timestamp None") as failure:
        operator.process_element("a", 1, None)
    assert failure.value.fault == "data"


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
    with pytest.raises(UserCodeError, match="thirteen") as failure:
        operator.process_element("a", 13, 7)
    assert failure.value.undone
    assert failure.value.window == W0
    assert state_of(operator) == before
    assert len(heard.calls) == rows  # the first window had fired already
    operator.process_element("a", 2, 7)
    assert [call[1] for call in heard.calls_named("collect")] == [1, 1, 3, 3]


def test_in_fail_mode_nothing_is_undone() -> None:
    builder = WindowOperatorBuilder(STRING, SlidingEventTimeWindows(size_ms=10, slide_ms=5)).trigger(
        FailsAtSecondWindow()
    )
    operator, heard = operator_of(builder.aggregate(Total()))
    with pytest.raises(UserCodeError) as failure:
        operator.process_element("a", 13, 7)
    assert not failure.value.undone
    assert len(heard.calls_named("collect")) == 1


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
    with pytest.raises(UserCodeError, match="in the merge") as failure:
        operator.process_element("a", 1, 9)
    assert not failure.value.undone


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


def test_an_error_without_a_text_and_one_at_a_firing_say_what_to_do() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    error = UserCodeError.of(Mute(), "firing a window", "a", None, 12)
    assert "raised Mute while firing a window: (its text can't be made) [key 'a'" in str(error)
    assert str(error).endswith("Mend the function, then run it again.")
