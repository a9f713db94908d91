"""The timer service: one physical timer, callbacks that register and delete."""

from typing import Any

import pytest

from slackwater.windowing.java import LONG_MAX, LONG_MIN
from slackwater.windowing.key_groups import KeyGroupIndex, KeyGroupRange
from slackwater.windowing.key_types import STRING
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.processing_time_service import HarnessProcessingTimeService
from slackwater.windowing.runtime.internal_timer_service import InternalTimerService


class Target:
    """Remembers callbacks; `then` may act on each."""

    def __init__(self) -> None:
        self.current_key: Any = None
        self.calls: list[tuple[str, int, Any, Any]] = []
        self.then: Any = lambda timestamp: None

    def on_event_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        self.calls.append(("event", timestamp, self.current_key, namespace))
        self.then(timestamp)

    def on_processing_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        self.calls.append(("processing", timestamp, self.current_key, namespace))
        self.then(timestamp)


class Setup:
    def __init__(self, order_mode: OrderMode) -> None:
        self.clock, self.target = HarnessProcessingTimeService(), Target()
        index = KeyGroupIndex(STRING, KeyGroupRange(0, 127), 128)
        self.service = InternalTimerService("timers", self.target, index, order_mode, self.clock)


@pytest.fixture(params=OrderMode, ids=lambda order_mode: order_mode.value)
def setup(request: pytest.FixtureRequest) -> Setup:
    return Setup(request.param)


def test_there_is_one_physical_timer_for_the_earliest(setup: Setup) -> None:
    for timestamp in (30, 20, 40, 10):
        setup.service.register_processing_time_timer(timestamp, "a", None)
        assert setup.clock.pending() == 1
    setup.clock.advance_to(25)
    assert [call[1] for call in setup.target.calls] == [10, 20]
    assert setup.clock.pending() == 1


def test_registering_in_a_callback_keeps_one_physical_timer(setup: Setup) -> None:
    setup.service.register_processing_time_timer(10, "a", None)
    setup.target.then = lambda timestamp: setup.service.register_processing_time_timer(
        timestamp + 10, "a", None
    )
    setup.clock.advance_to(10)
    setup.clock.advance_to(20)
    assert [call[1] for call in setup.target.calls] == [10, 20]
    assert setup.clock.pending() == 1


def test_deleting_the_head_leaves_the_physical_timer_which_finds_nothing(setup: Setup) -> None:
    for timestamp in (10, 20):
        setup.service.register_processing_time_timer(timestamp, "a", None)
    setup.service.delete_processing_time_timer(10, "a", None)
    setup.clock.advance_to(15)
    assert setup.target.calls == []
    setup.clock.advance_to(20)
    assert setup.target.calls == [("processing", 20, "a", None)]


def test_a_lone_processing_timer_at_the_end_of_time_is_not_scheduled(setup: Setup) -> None:
    setup.service.register_processing_time_timer(LONG_MAX, "a", None)
    assert setup.clock.pending() == 0


def test_domains_are_apart_and_timers_exist_once(setup: Setup) -> None:
    for _ in range(2):
        setup.service.register_event_time_timer(5, "a", None)
        setup.service.register_processing_time_timer(5, "a", None)
    assert (len(setup.service.event_timers), len(setup.service.processing_timers)) == (1, 1)
    setup.service.delete_event_time_timer(5, "a", None)
    setup.service.delete_event_time_timer(6, "a", None)
    setup.service.advance_watermark(10)
    setup.clock.advance_to(10)
    assert setup.target.calls == [("processing", 5, "a", None)]


def test_callbacks_see_the_watermark_and_may_register_and_delete_for_the_same_drain(setup: Setup) -> None:
    service, watermarks = setup.service, []
    for timestamp in (3, 5, 7):
        service.register_event_time_timer(timestamp, "a", None)

    def then(timestamp: int) -> None:
        watermarks.append(service.current_watermark)
        if timestamp == 3:
            service.register_event_time_timer(1, "b", None)
            service.delete_event_time_timer(7, "a", None)

    setup.target.then = then
    service.advance_watermark(10)
    assert [(call[1], call[2]) for call in setup.target.calls] == [(3, "a"), (1, "b"), (5, "a")]
    assert watermarks == [10, 10, 10]


def test_a_timer_at_or_below_the_watermark_waits_for_the_next_one(setup: Setup) -> None:
    setup.service.advance_watermark(10)
    setup.service.register_event_time_timer(5, "a", None)
    assert setup.target.calls == []
    setup.service.advance_watermark(11)
    assert setup.target.calls == [("event", 5, "a", None)]


def test_the_final_watermark_fires_everything(setup: Setup) -> None:
    for timestamp in (LONG_MIN, 0, LONG_MAX):
        setup.service.register_event_time_timer(timestamp, "a", None)
    setup.service.advance_watermark(LONG_MAX)
    assert [call[1] for call in setup.target.calls] == [LONG_MIN, 0, LONG_MAX]


def test_for_each_visits_every_timer_under_its_key(setup: Setup) -> None:
    for key in "abc":
        setup.service.register_event_time_timer(5, key, None)
        setup.service.register_processing_time_timer(6, key, None)
    assert {(setup.target.current_key, timer) for timer in setup.service.for_each_event_time_timer()} == {
        (key, (5, key, None)) for key in "abc"
    }
    assert {timer[0] for timer in setup.service.for_each_processing_time_timer()} == {6}


def test_a_restored_overdue_processing_timer_is_due_at_once(setup: Setup) -> None:
    setup.clock.advance_to(100)
    setup.service.restore([], [(10, "a", None)])
    assert setup.clock.pending() == 1
    setup.clock.advance_to(100)
    assert setup.target.calls == [("processing", 10, "a", None)]


def test_an_initialized_watermark_fires_nothing(setup: Setup) -> None:
    setup.service.restore([(5, "a", None)], [])
    assert setup.service.has_gone_back
    setup.service.initialize_watermark(10)
    assert (setup.target.calls, setup.service.current_watermark, setup.service.has_gone_back) == (
        [],
        10,
        False,
    )
    setup.service.advance_watermark(9)
    assert setup.service.has_gone_back
