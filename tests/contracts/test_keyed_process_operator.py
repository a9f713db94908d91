"""A keyed process function: its key, its times, its timers and its state, on one operator and after
rescaling.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slackwater.windowing import KeyedProcessFunction, ValueStateDescriptor
from slackwater.windowing.errors import ConfigurationError, KeyGroupError, KeyTypeError
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.key_types import LONG, STRING
from slackwater.windowing.processing_time_service import HarnessProcessingTimeService
from slackwater.windowing.runtime.keyed_process_operator import KeyedProcessOperator

from .conftest import Run
from .domains import Domain
from .harness import RecordingOutput, Row, Side

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
SEEN = ValueStateDescriptor("seen")


class Doing(KeyedProcessFunction):
    """Does with each element and timer what the test says: (context, value or timestamp) → rows."""

    def __init__(
        self, on_element: Callable[..., Any], on_timer: Callable[..., Any] = lambda context, timestamp: ()
    ) -> None:
        self._on_element, self._on_timer = on_element, on_timer

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(SEEN)

    def process_element(self, value: Any, context: Any) -> Any:
        return self._on_element(context, value)

    def on_timer(self, timestamp: int, context: Any) -> Any:
        return self._on_timer(context, timestamp)


class Remembering(Doing):
    """Keeps the element in state until a timer at element + 5 emits and clears it."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain

    def process_element(self, value: Any, context: Any) -> Any:
        self.seen.update(value)
        self.domain.register(context.timer_service, value + 5)
        return [f"in {value}"]

    def on_timer(self, timestamp: int, context: Any) -> Any:
        seen = self.seen.value()
        self.seen.clear()
        return [f"{context.time_domain} {timestamp} {context.current_key} {seen}"]


def row(value: Any, timestamp: int | None, key: Any = "a") -> Row:
    return Row(value, None, timestamp, key)


def test_the_context_tells_the_key_of_the_element_and_of_the_timer(run: Run, domain: Domain) -> None:
    def on_element(context: Any, value: Any) -> Any:
        domain.register(context.timer_service, 5)
        return [context.current_key]

    running = run(Doing(on_element, lambda context, timestamp: [context.current_key]))
    running.element(1, 7, key="a", out=[row("a", 7)], **domain.timers(1))
    running.element(1, 8, key="b", out=[row("b", 8, "b")], **domain.timers(2))
    for operator, clock in zip(running.operators, running.clocks, strict=True):
        operator.process_watermark(5) if domain.is_event_time else clock.advance_to(5)
    stamp = 5 if domain.is_event_time else None
    assert sorted(running.output.take(), key=lambda row: row.key) == [row("a", stamp), row("b", stamp, "b")]
    running.check()


def test_rows_of_an_element_inherit_its_timestamp_or_none(run: Run) -> None:
    def on_element(context: Any, value: Any) -> Any:
        service = context.timer_service
        return [(context.timestamp, service.current_watermark, service.current_processing_time)]

    running = run(Doing(on_element))
    running.watermark(17)
    running.clock(42)
    running.element(1, 12, out=[row((12, 17, 42), 12)])
    running.element(1, None, out=[row((None, 17, 42), None)])


def test_rows_of_an_event_timer_carry_its_time_and_those_of_a_clock_timer_none(run: Run) -> None:
    def on_element(context: Any, value: Any) -> None:
        context.timer_service.register_event_time_timer(5)
        context.timer_service.register_processing_time_timer(6)

    running = run(
        Doing(on_element, lambda context, timestamp: [(context.time_domain, timestamp, context.timestamp)])
    )
    running.element(1, 1, event=1, processing=1)
    running.watermark(9, out=[row(("event", 5, 5), 5)], processing=1)
    running.clock(9, out=[row(("processing", 6, 6), None)])


def test_side_rows_carry_the_elements_or_the_timers_time(run: Run, domain: Domain) -> None:
    def emit(context: Any, value: Any) -> None:
        context.output("side", value)
        if context.timestamp != 5:
            domain.register(context.timer_service, 5)

    running = run(Doing(emit, emit))
    running.element("x", 3, out=[Side("side", "x", None, 3, "a")], **domain.timers(1))
    running.element("y", None, out=[Side("side", "y", None, LONG_MIN, "a")], **domain.timers(1))
    advance = running.watermark if domain.is_event_time else running.clock
    advance(5, out=[Side("side", 5, None, 5, "a")])


def test_a_side_output_without_a_tag_is_refused(run: Run) -> None:
    running = run(Doing(lambda context, value: context.output(None, value)))
    with pytest.raises(ConfigurationError) as refusal:
        running.operator.process_element("a", 1, 1)
    assert refusal.value.flink == "IllegalArgumentException"


def test_state_is_that_of_the_key_also_in_timers(run: Run, domain: Domain) -> None:
    running = run(Remembering(domain))
    running.element(1, None, key="a", out=[row("in 1", None)], seen=1, **domain.timers(1))
    running.element(2, None, key="b", out=[row("in 2", None, "b")], seen=2, **domain.timers(2))
    advance = running.watermark if domain.is_event_time else running.clock
    advance(
        6, out=[row(f"{domain.name} 6 a 1", 6 if domain.is_event_time else None)], seen=1, **domain.timers(1)
    )
    advance(7, out=[row(f"{domain.name} 7 b 2", 7 if domain.is_event_time else None, "b")])


def test_the_domains_do_not_interfere(run: Run) -> None:
    def on_element(context: Any, value: Any) -> None:
        context.timer_service.register_event_time_timer(5)
        context.timer_service.register_processing_time_timer(5)

    running = run(Doing(on_element, lambda context, timestamp: [context.time_domain]))
    running.element(1, 1, event=1, processing=1)
    running.clock(5, out=[row("processing", None)], event=1)
    running.clock(50, event=1)
    running.watermark(5, out=[row("event", 5)])


def test_a_timer_is_registered_once_and_deleted_silently(run: Run, domain: Domain) -> None:
    def on_element(context: Any, value: Any) -> None:
        {"+": domain.register, "-": domain.delete}[value](context.timer_service, 5)

    running = run(Doing(on_element, lambda context, timestamp: ["fired"]))
    running.element("-", 1)
    running.element("+", 1, **domain.timers(1))
    running.element("+", 1, **domain.timers(1))
    running.element("-", 1)
    running.element("-", 1)
    advance = running.watermark if domain.is_event_time else running.clock
    advance(9)


def test_an_event_timer_at_or_before_the_watermark_waits_for_the_next_one(run: Run) -> None:
    running = run(
        Doing(
            lambda context, value: context.timer_service.register_event_time_timer(value),
            lambda context, time: [time],
        )
    )
    running.watermark(10)
    running.element(10, 1, event=1)
    running.element(3, 1, event=2)
    running.watermark(11, out=[row(3, 3), row(10, 10)])


def test_a_timer_registered_in_a_timer_for_a_time_that_has_come_fires_in_the_same_advance(
    run: Run, domain: Domain
) -> None:
    def on_timer(context: Any, timestamp: int) -> Any:
        if timestamp == 5:
            domain.register(context.timer_service, 3)
            domain.register(context.timer_service, 7)
        return [timestamp]

    running = run(Doing(lambda context, value: domain.register(context.timer_service, 5), on_timer))
    running.element(1, 1, **domain.timers(1))
    advance, has_timestamp = (running.watermark, True) if domain.is_event_time else (running.clock, False)
    advance(
        6,
        out=[row(5, 5 if has_timestamp else None), row(3, 3 if has_timestamp else None)],
        **domain.timers(1),
    )


def test_a_timer_at_the_greatest_time_waits_for_the_final_watermark(run: Run) -> None:
    running = run(
        Doing(
            lambda context, value: context.timer_service.register_event_time_timer(LONG_MAX),
            lambda context, time: [time],
        )
    )
    running.element(1, 1, event=1)
    running.watermark(LONG_MAX - 1, event=1)
    running.watermark(LONG_MAX, out=[row(LONG_MAX, LONG_MAX)])


def test_state_and_timers_survive_a_restore(run: Run, domain: Domain) -> None:
    running = run(Remembering(domain))
    running.element(1, None, out=[row("in 1", None)], seen=1, **domain.timers(1))
    running.rescale(1, seen=1, **domain.timers(1))
    assert running.operator.current_watermark == LONG_MIN
    advance = running.watermark if domain.is_event_time else running.clock
    advance(6, out=[row(f"{domain.name} 6 a 1", 6 if domain.is_event_time else None)])


def test_a_clock_timer_that_became_due_meanwhile_is_scheduled_at_the_restore(run: Run) -> None:
    running = run(
        Doing(
            lambda context, value: context.timer_service.register_processing_time_timer(5),
            lambda context, time: [time],
        )
    )
    running.element(1, None, processing=1)
    running.rescale(1, at=50, processing=1)
    assert running.clocks[0].pending() == 1
    running.clock(50, out=[row(5, None)])


def test_rescaling_takes_state_and_timers_to_the_owner_of_their_key(run: Run, domain: Domain) -> None:
    keys = [f"key{number}" for number in range(12)]
    running = run(Remembering(domain))
    for number, key in enumerate(keys):
        running.element(
            1, None, key=key, out=[row("in 1", None, key)], seen=number + 1, **domain.timers(number + 1)
        )
    for parallelism in (3, 5, 2, 1):
        running.rescale(parallelism, seen=12, **domain.timers(12))
        for operator, key_groups in zip(
            running.operators, KeyGroupRange.ranges(parallelism, 128), strict=True
        ):
            assert {entry.key_group in key_groups for entry in operator.backend.entries()} <= {True}
    running.rescale(4, seen=12, **domain.timers(12))
    for operator, clock in zip(running.operators, running.clocks, strict=True):
        operator.process_watermark(6) if domain.is_event_time else clock.advance_to(6)
    rows = running.output.take()
    assert sorted(row.key for row in rows) == sorted(keys)
    running.check()


def test_keys_that_are_not_the_operators_own_are_refused(run: Run) -> None:
    output = RecordingOutput()
    function = Doing(lambda context, value: context.timer_service.register_event_time_timer(1))
    operator = KeyedProcessOperator(
        function, STRING, output, HarnessProcessingTimeService(), key_groups=KeyGroupRange(0, 10)
    )
    operator.open()
    with pytest.raises(
        KeyGroupError, match="Key 'a' is of key group 81, but this operator owns 0 to 10"
    ) as refusal:
        operator.process_element("a", 1, 1)
    assert refusal.value.key == "a"
    operator.close()
    numbers = run(function, key_type=LONG)
    with pytest.raises(KeyTypeError, match="A long key is an integer of 8 bytes, got 'a'"):
        numbers.operator.process_element("a", 1, 1)


def test_a_function_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="runs a KeyedProcessFunction, got <class 'object'>"):
        KeyedProcessOperator(object, STRING, RecordingOutput(), HarnessProcessingTimeService())  # type: ignore[arg-type]
