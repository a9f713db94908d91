"""Timers of one operator: who is called back, when, with which key; one physical timer; snapshots by key
group.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.windowing import OrderMode
from slackwater.windowing.key_groups import KeyGroupIndex, KeyGroupRange, key_group_of
from slackwater.windowing.key_types import STRING
from slackwater.windowing.processing_time_service import (
    HarnessProcessingTimeService,
    ReplayProcessingTimeService,
)
from slackwater.windowing.runtime.internal_timer_service import InternalTimerService
from slackwater.windowing.runtime.operator_storage import IN_MEMORY, OperatorStorage
from slackwater.windowing.windows import TimeWindow
from tests.contracts.backends import VARIANTS, Variant

from .domains import Domain

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
ALL = KeyGroupRange(0, 127)

Call = tuple[str, int, Any, Any]


class Target:
    """Writes down its callbacks; `on_call`, when set, runs in each of them."""

    def __init__(self) -> None:
        self.current_key: Any = None
        self.calls: list[Call] = []
        self.on_call: Any = lambda call: None

    def on_event_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        self._record_call("event", timestamp, key, namespace)

    def on_processing_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        self._record_call("processing", timestamp, key, namespace)

    def _record_call(self, *call: Any) -> None:
        assert self.current_key == call[2], "the key is set before the callback"
        self.calls.append(call)
        self.on_call(call)

    def take(self) -> list[Call]:
        calls, self.calls = self.calls, []
        return calls


class Timers:
    """A service with its target and clock; asserts the number of timers and of physical timers after every
    step.
    """

    def __init__(
        self,
        order_mode: OrderMode,
        key_groups: KeyGroupRange = ALL,
        clock: Any = None,
        storage: OperatorStorage = IN_MEMORY,
    ) -> None:
        self.target = Target()
        self.clock = clock or HarnessProcessingTimeService()
        index = KeyGroupIndex(STRING, key_groups, 128)
        self.service = InternalTimerService(
            "timers", self.target, index, order_mode, self.clock, storage=storage
        )

    def register(
        self, domain: str, timestamp: int, key: str, namespace: Any = None, /, **counts: int
    ) -> None:
        getattr(self.service, f"register_{domain}_time_timer")(timestamp, key, namespace)
        self.check(**counts)

    def delete(self, domain: str, timestamp: int, key: str, namespace: Any = None, /, **counts: int) -> None:
        getattr(self.service, f"delete_{domain}_time_timer")(timestamp, key, namespace)
        self.check(**counts)

    def advance(self, domain: str, timestamp: int, /, gives: Any = (), **counts: int) -> None:
        self.service.advance_watermark(timestamp) if domain == "event" else self.clock.advance_to(timestamp)
        assert self.target.take() == list(gives)
        self.check(**counts)

    def check(self, event: int = 0, processing: int = 0, physical: int | None = None) -> None:
        """Assert the numbers of timers. Unless `physical` is given, one physical timer stands for all clock
        timers, and none if there are none.
        """
        assert (len(self.service.event_timers), len(self.service.processing_timers)) == (event, processing)
        assert self.clock.pending() == (min(processing, 1) if physical is None else physical)


@pytest.fixture(params=VARIANTS, ids=lambda variant: variant.name)
def variant(request: pytest.FixtureRequest) -> Variant:
    """Every variant, the slow ones too."""
    return request.param


@pytest.fixture
def timers(variant: Variant, folder: Path) -> Iterator[Timers]:
    with variant.kind.open(folder) as storage:
        yield Timers(variant.order_mode, storage=storage)


def test_only_the_earliest_clock_timer_is_a_physical_one(timers: Timers) -> None:
    timers.register("processing", 30, "a", processing=1)
    timers.register("processing", 40, "b", processing=2)
    timers.register("processing", 50, "c", processing=3)
    timers.advance("processing", 30, gives=[("processing", 30, "a", None)], processing=2)
    timers.advance("processing", 45, gives=[("processing", 40, "b", None)], processing=1)
    timers.advance("processing", 50, gives=[("processing", 50, "c", None)])


def test_an_earlier_clock_timer_takes_the_place_of_the_physical_one(timers: Timers) -> None:
    timers.register("processing", 20, "a", processing=1)
    timers.register("processing", 10, "b", processing=2)
    timers.advance("processing", 10, gives=[("processing", 10, "b", None)], processing=1)
    timers.advance("processing", 20, gives=[("processing", 20, "a", None)])


def test_registering_in_a_callback_keeps_one_physical_timer(timers: Timers) -> None:
    timers.register("processing", 10, "a", processing=1)
    timers.target.on_call = lambda call: timers.service.register_processing_time_timer(20, "a", None)
    timers.advance("processing", 10, gives=[("processing", 10, "a", None)], processing=1)
    timers.target.on_call = lambda call: timers.service.register_processing_time_timer(30, "a", None)
    timers.advance("processing", 20, gives=[("processing", 20, "a", None)], processing=1)
    timers.target.on_call = lambda call: None
    timers.advance("processing", 30, gives=[("processing", 30, "a", None)])


def test_a_clock_timer_registered_in_a_callback_for_a_time_that_has_come_fires_at_once(
    timers: Timers,
) -> None:
    timers.register("processing", 10, "a", processing=1)
    timers.target.on_call = lambda call: (
        timers.service.register_processing_time_timer(5, "b", None) if call[1] == 10 else None
    )
    timers.advance("processing", 12, gives=[("processing", 10, "a", None), ("processing", 5, "b", None)])


def test_deleting_leaves_the_physical_timer_which_then_finds_nothing_due(timers: Timers) -> None:
    timers.register("processing", 10, "a", processing=1)
    timers.register("processing", 30, "b", processing=2)
    timers.delete("processing", 10, "a", processing=1)
    timers.advance("processing", 10, processing=1)
    timers.advance("processing", 30, gives=[("processing", 30, "b", None)])
    timers.register("processing", 40, "c", processing=1)
    timers.delete("processing", 40, "c", physical=1)
    timers.advance("processing", 40)


def test_a_clock_timer_at_the_greatest_time_is_not_scheduled_alone_as_in_flink(timers: Timers) -> None:
    timers.register("processing", LONG_MAX, "a", processing=1, physical=0)
    timers.advance("processing", LONG_MAX, processing=1, physical=0)
    timers.register("processing", 5, "b", processing=2)
    gives = [("processing", 5, "b", None)]
    timers.advance("processing", 5, gives=gives, processing=1)
    timers.advance("processing", LONG_MAX, gives=[("processing", LONG_MAX, "a", None)])


def test_current_times_follow_the_clock_and_the_watermark(timers: Timers) -> None:
    assert (timers.service.current_processing_time, timers.service.current_watermark) == (0, LONG_MIN)
    timers.advance("processing", 17)
    timers.advance("event", 42)
    assert (timers.service.current_processing_time, timers.service.current_watermark) == (17, 42)
    timers.service.initialize_watermark(7)
    assert timers.service.current_watermark == 7
    timers.check()


def test_due_timers_are_called_back_with_their_key_and_namespace(timers: Timers, domain: Domain) -> None:
    window = TimeWindow(0, 5)
    timers.register(domain.name, 1, "a", **domain.timers(1))
    timers.register(domain.name, 1, "a", window, **domain.timers(2))
    timers.register(domain.name, 1, "b", **domain.timers(3))
    timers.register(domain.name, 2, "a", **domain.timers(4))
    timers.advance(domain.name, 0, **domain.timers(4))
    timers.service.advance_watermark(1) if domain.is_event_time else timers.clock.advance_to(1)
    expected = {(domain.name, 1, "a", None), (domain.name, 1, "a", window), (domain.name, 1, "b", None)}
    calls = timers.target.take()
    assert set(calls) == expected
    assert len(calls) == 3
    timers.check(**domain.timers(1))
    timers.advance(domain.name, 2, gives=[(domain.name, 2, "a", None)])


def test_deleted_timers_do_not_fire_also_when_a_callback_deletes_them(timers: Timers, domain: Domain) -> None:
    for time, count in ((1, 1), (2, 2), (3, 3)):
        timers.register(domain.name, time, "a", **domain.timers(count))
    timers.delete(domain.name, 2, "a", **domain.timers(2))
    timers.delete(domain.name, 99, "a", **domain.timers(2))
    timers.target.on_call = lambda call: getattr(timers.service, f"delete_{domain.name}_time_timer")(
        3, "a", None
    )
    physical = {} if domain.is_event_time else {"physical": 0}
    timers.advance(domain.name, 5, gives=[(domain.name, 1, "a", None)], **physical)


def test_equal_timers_of_both_domains_are_independent(timers: Timers) -> None:
    timers.register("event", 5, "a", event=1)
    timers.register("processing", 5, "a", event=1, processing=1)
    timers.register("event", 5, "a", event=1, processing=1)
    timers.delete("event", 5, "a", processing=1)
    timers.advance("event", 9, processing=1)
    timers.advance("processing", 9, gives=[("processing", 5, "a", None)])


def test_timers_at_the_smallest_time_fire_with_the_first_watermark(timers: Timers) -> None:
    timers.register("event", LONG_MIN, "a", event=1)
    timers.advance("event", LONG_MIN, gives=[("event", LONG_MIN, "a", None)])
    timers.register("event", LONG_MAX, "a", event=1)
    timers.advance("event", LONG_MAX - 1, event=1)
    timers.advance("event", LONG_MAX, gives=[("event", LONG_MAX, "a", None)])


def test_a_watermark_may_go_back_and_nothing_fires_twice(timers: Timers) -> None:
    timers.register("event", 5, "a", event=1)
    timers.advance("event", 10, gives=[("event", 5, "a", None)])
    timers.advance("event", 3)
    assert timers.service.current_watermark == 3
    timers.register("event", 5, "a", event=1)
    timers.advance("event", 4, event=1)
    timers.advance("event", 5, gives=[("event", 5, "a", None)])


def test_callbacks_see_the_watermark_that_was_jumped_to(timers: Timers) -> None:
    timers.register("event", 5, "a", event=1)
    watermarks: list[int] = []
    timers.target.on_call = lambda call: watermarks.append(timers.service.current_watermark)
    timers.advance("event", 100, gives=[("event", 5, "a", None)])
    assert watermarks == [100]


def test_for_each_shows_every_timer_with_its_key_set(timers: Timers, domain: Domain) -> None:
    for key, count in (("a", 1), ("b", 2), ("c", 3)):
        timers.register(domain.name, 7, key, **domain.timers(count))
    ask = (
        timers.service.for_each_event_time_timer
        if domain.is_event_time
        else timers.service.for_each_processing_time_timer
    )
    timers_shown = []
    for timer in ask():
        assert timers.target.current_key == timer[1]
        timers_shown.append(timer)
        timers.service.delete_event_time_timer(*timer)
        timers.service.delete_processing_time_timer(*timer)
    assert sorted(timers_shown) == [(7, "a", None), (7, "b", None), (7, "c", None)]
    timers.check(physical=0 if domain.is_event_time else 1)


def test_timers_survive_a_snapshot_and_the_earliest_clock_timer_is_scheduled_again(
    order_mode: OrderMode,
) -> None:
    before = Timers(order_mode)
    for time, key in ((5, "a"), (5, "b"), (9, "a")):
        before.service.register_event_time_timer(time, key, None)
        before.service.register_processing_time_timer(time, key, None)
    after = Timers(order_mode)
    event = [timer for group in ALL for timer in before.service.event_timers.snapshot(group)]
    processing = [timer for group in ALL for timer in before.service.processing_timers.snapshot(group)]
    after.service.restore(event, processing)
    after.check(event=3, processing=3)
    after.service.advance_watermark(5)
    after.clock.advance_to(5)
    assert sorted(after.target.take()) == [
        (domain, 5, key, None) for domain in ("event", "processing") for key in ("a", "b")
    ]
    after.check(event=1, processing=1)


def test_timers_are_divided_among_operators_by_key_group(order_mode: OrderMode) -> None:
    undivided = Timers(order_mode)
    keys = [f"key{number}" for number in range(20)]
    for key in keys:
        undivided.service.register_event_time_timer(5, key, None)
        undivided.service.register_processing_time_timer(5, key, None)
    calls_of_parts: list[Call] = []
    for key_groups in KeyGroupRange.ranges(3, 128):
        part = Timers(order_mode, key_groups)
        part.service.restore(
            [timer for group in key_groups for timer in undivided.service.event_timers.snapshot(group)],
            [timer for group in key_groups for timer in undivided.service.processing_timers.snapshot(group)],
        )
        part.service.advance_watermark(5)
        part.clock.advance_to(5)
        calls = part.target.take()
        assert {key_group_of(call[2], STRING, 128) in key_groups for call in calls} <= {True}
        calls_of_parts += calls
    assert sorted(calls_of_parts) == sorted(
        (domain, 5, key, None) for domain in ("event", "processing") for key in keys
    )


def test_in_a_replay_a_timer_is_due_one_millisecond_after_its_time_and_sees_that_moment(
    order_mode: OrderMode,
) -> None:
    timers = Timers(order_mode, clock=ReplayProcessingTimeService(0))
    clock_readings: list[int] = []
    timers.target.on_call = lambda call: clock_readings.append(timers.service.current_processing_time)
    timers.register("processing", 10, "a", processing=1)
    timers.register("processing", 20, "b", processing=2)
    timers.advance("processing", 10, processing=2)
    timers.advance("processing", 100, gives=[("processing", 10, "a", None), ("processing", 20, "b", None)])
    assert clock_readings == [11, 21]
    timers.register("processing", 5, "a", processing=1)
    timers.advance("processing", 100, processing=1)
    timers.advance("processing", 101, gives=[("processing", 5, "a", None)])
