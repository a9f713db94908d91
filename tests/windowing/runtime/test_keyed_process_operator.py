"""A keyed process function beside the recorded cases: contexts, side outputs, failures and what they leave
behind.
"""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.windowing import KeyedProcessFunction, ValueStateDescriptor
from slackwater.windowing.errors import ConfigurationError, UserCodeError
from slackwater.windowing.functions import KeyedProcessContext, OnTimerContext, RuntimeContext
from slackwater.windowing.java import LONG_MIN
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.key_types import STRING
from slackwater.windowing.processing_time_service import ReplayProcessingTimeService
from slackwater.windowing.runtime.keyed_process_operator import KeyedProcessOperator
from slackwater.windowing.runtime.operator_snapshot import take_snapshot


class Rows:
    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []

    def collect(self, value: Any, timestamp: int | None, window: Any, key: Any) -> None:
        self.rows.append((value, timestamp, key))

    def late(self, value: Any, timestamp: int | None, key: Any) -> None:
        raise AssertionError("a keyed process function has no late output")

    def side(self, tag: str, value: Any, timestamp: int | None, window: Any, key: Any) -> None:
        self.rows.append((tag, value, timestamp, key))


class Sums(KeyedProcessFunction):
    """Sums up, sets timers, and raises on the value 13."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", 0))

    def process_element(self, value: int, context: KeyedProcessContext) -> Any:
        self.sum.update(self.sum.value() + value)
        context.timer_service.register_event_time_timer(10)
        context.timer_service.register_processing_time_timer(5)
        context.output("seen", value)
        yield self.sum.value()
        if value == 13:
            raise ValueError("thirteen")

    def on_timer(self, timestamp: int, context: OnTimerContext) -> Any:
        context.output("time", context.time_domain)
        return [
            ("timer", timestamp, context.timestamp, self.sum.value(), context.timer_service.current_watermark)
        ]


def operator_of(
    function: KeyedProcessFunction, **options: Any
) -> tuple[KeyedProcessOperator, Rows, ReplayProcessingTimeService]:
    rows, clock = Rows(), ReplayProcessingTimeService(0)
    operator = KeyedProcessOperator(function, STRING, rows, clock, **options)
    operator.open()
    return operator, rows, clock


def test_rows_of_elements_and_timers_are_stamped_as_in_flink() -> None:
    operator, rows, clock = operator_of(Sums())
    operator.process_element("a", 1, 7)
    operator.process_element("a", 2, None)
    assert rows.rows == [("seen", 1, 7, "a"), (1, 7, "a"), ("seen", 2, LONG_MIN, "a"), (3, None, "a")]
    rows.rows.clear()
    operator.process_watermark(12)
    clock.advance_to(100)
    assert rows.rows == [
        ("time", "event", 10, "a"),
        (("timer", 10, 10, 3, 12), 10, "a"),
        ("time", "processing", 5, "a"),
        (("timer", 5, 5, 3, 12), None, "a"),
    ]


def test_a_failing_element_in_quarantine_mode_leaves_no_trace() -> None:
    operator, rows, _ = operator_of(Sums(), on_error="quarantine")
    with pytest.raises(UserCodeError, match="ValueError while processing an element: thirteen") as failure:
        operator.process_element("a", 13, 7)
    assert (failure.value.key, failure.value.timestamp, failure.value.undone) == ("a", 7, True)
    snapshot = take_snapshot(operator, KeyGroupRange(0, 127))
    assert (snapshot.entries, snapshot.timers, rows.rows) == ((), (), [])
    operator.process_element("a", 1, 7)
    assert rows.rows == [("seen", 1, 7, "a"), (1, 7, "a")]


def test_a_failing_timer_is_not_undone() -> None:
    class Fails(Sums):
        def on_timer(self, timestamp: int, context: OnTimerContext) -> Any:
            raise ValueError("in the timer")

    operator, _, _ = operator_of(Fails(), on_error="quarantine")
    operator.process_element("a", 1, 7)
    with pytest.raises(UserCodeError, match="handling a timer of event time: in the timer") as failure:
        operator.process_watermark(10)
    assert (failure.value.timestamp, failure.value.undone) == (10, False)


def test_a_side_output_needs_a_tag() -> None:
    class WritesWithoutTag(KeyedProcessFunction):
        def process_element(self, value: Any, context: KeyedProcessContext) -> Any:
            context.output(None, value)  # type: ignore[arg-type]

    operator, _, _ = operator_of(WritesWithoutTag())
    with pytest.raises(ConfigurationError, match="needs a tag"):
        operator.process_element("a", 1, 7)


def test_only_a_keyed_process_function_runs() -> None:
    with pytest.raises(ConfigurationError, match="runs a KeyedProcessFunction, got 7"):
        operator_of(7)  # type: ignore[arg-type]
