"""Operators on every clock: the one physical timer of keyed timers, periodic watermarks, a buffer that is
flushed by time.

Moments are counted by hand: a single timer for t is called at t (harness) or t + 1 ms (production), and the
next is registered there.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from slackwater.windowing import OrderMode
from slackwater.windowing.key_groups import KeyGroupIndex, KeyGroupRange
from slackwater.windowing.key_types import STRING
from slackwater.windowing.runtime.internal_timer_service import InternalTimerService
from slackwater.windowing.watermarks import (
    TimestampsAndWatermarksOperator,
    WatermarkStatus,
    WatermarkStrategy,
)
from tests.contracts.clocks import CLOCKS, Clock


@pytest.fixture(params=CLOCKS)
def clock(request: pytest.FixtureRequest) -> Clock:
    return request.param(0)


class Buffer:
    """Collects entries and flushes them `max_time_ms` after the first (Flink: AsyncSinkWriter's timer)."""

    def __init__(self, service: Any, max_time_ms: int, flushes: list[tuple[int, list[str]]]) -> None:
        self._service, self._max_time_ms, self._flushes = service, max_time_ms, flushes
        self._entries: list[str] = []
        self._has_timer = False

    def write(self, entry: str) -> None:
        self._entries.append(entry)
        if not self._has_timer:
            self._service.register_timer(
                self._service.current_processing_time + self._max_time_ms, self._flush
            )
            self._has_timer = True

    def _flush(self, time: int) -> None:
        self._has_timer = False
        self._flushes.append((time, self._entries))
        self._entries = []


def test_a_buffer_is_flushed_some_time_after_its_first_entry_and_armed_by_the_next(clock: Clock) -> None:
    flushes: list[tuple[int, list[str]]] = []
    buffer = Buffer(clock.service, 100, flushes)
    buffer.write("a")
    clock.advance_to(50)
    buffer.write("b")
    clock.advance_to(250)
    assert (flushes, clock.service.pending()) == ([(100, ["a", "b"])], 0)
    buffer.write("c")
    clock.advance_to(500)
    assert flushes == [(100, ["a", "b"]), (350, ["c"])]


class Target:
    """The target of the keyed timers: records each call, then runs `on_call`."""

    def __init__(self) -> None:
        self.current_key: Any = None
        self.calls: list[tuple[int, Any]] = []
        self.on_call: Callable[[int], None] = lambda time: None

    def on_event_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        raise AssertionError("no event timers here")

    def on_processing_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        assert self.current_key == key
        self.calls.append((timestamp, key))
        self.on_call(timestamp)


def test_the_timers_of_an_operator_need_one_timer_of_any_clock(clock: Clock) -> None:
    target = Target()
    index = KeyGroupIndex(STRING, KeyGroupRange(0, 127), 128)
    service = InternalTimerService("timers", target, index, OrderMode.ROCKSDB, clock.service)
    for time in (30, 20, 10):
        service.register_processing_time_timer(time, f"at {time}", None)
        assert clock.service.pending() == 1
    target.on_call = lambda time: (
        service.register_processing_time_timer(12, "between", None) if time == 10 else None
    )
    service.delete_processing_time_timer(20, "at 20", None)
    clock.advance_to(25)
    assert target.calls == [(10, "at 10"), (12, "between")]
    assert clock.service.pending() == 1
    clock.advance_to(30 + clock.lateness_ms)
    assert target.calls == [(10, "at 10"), (12, "between"), (30, "at 30")]
    assert clock.service.pending() == 0


class Recorder:
    """Takes down elements, watermarks and statuses."""

    def __init__(self) -> None:
        self.news: list[Any] = []

    def collect(self, element: Any, timestamp: int | None) -> None:
        self.news.append((element, timestamp))

    def emit_watermark(self, timestamp: int) -> None:
        self.news.append(timestamp)

    def emit_watermark_status(self, status: WatermarkStatus) -> None:
        self.news.append(status)


def test_watermarks_are_emitted_periodically_on_any_clock(clock: Clock) -> None:
    """Bound 5: after an element at t the watermark t - 6. Emission 10 ms after the one before, at a
    production clock's 11, 22, 33.
    """
    output = Recorder()
    strategy = WatermarkStrategy.bounded_out_of_orderness(timedelta(milliseconds=5)).with_interval(
        timedelta(milliseconds=10)
    )
    operator = TimestampsAndWatermarksOperator(strategy, clock.service, output)
    operator.open()
    moments = [11, 22, 33] if clock.lateness_ms else [10, 20, 30]
    for number, moment in enumerate(moments):
        operator.process_element("element", 100 * number)
        clock.advance_to(moment - 1)
        assert output.news[-1] == ("element", 100 * number)
        clock.advance_to(moment)
        assert output.news[-1] == 100 * number - 6
    assert clock.service.pending() == 1
    operator.process_element("last", 900)
    assert output.news[-1] == ("last", 900)
    operator.finish()
    assert output.news[-1] == 894
