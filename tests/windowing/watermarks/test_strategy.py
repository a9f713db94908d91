"""What a user may declare about watermarks, and what is refused."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest

from slackwater.windowing.errors import ConfigurationError
from slackwater.windowing.watermarks import WatermarkStrategy


def even_values(element: int, timestamp: int) -> int | None:
    return timestamp if element % 2 == 0 else None


class Every:
    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self, element: int, timestamp: int) -> int | None:
        return timestamp if element % self.step == 0 else None


def test_durations_become_milliseconds() -> None:
    strategy = (
        WatermarkStrategy.bounded_out_of_orderness(timedelta(hours=1))
        .with_idleness(timedelta(minutes=30))
        .with_interval(timedelta(seconds=0.5))
    )
    assert (strategy.kind, strategy.out_of_orderness_ms, strategy.idle_timeout_ms, strategy.interval_ms) == (
        "bounded_out_of_orderness",
        3_600_000,
        1_800_000,
        500,
    )


def test_flinks_defaults_hold_until_changed() -> None:
    strategy = WatermarkStrategy.monotonous()
    assert (strategy.out_of_orderness_ms, strategy.idle_timeout_ms, strategy.interval_ms) == (0, None, 200)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (
            lambda: WatermarkStrategy.bounded_out_of_orderness(timedelta(milliseconds=-1)),
            "must not be negative, got -1 ms",
        ),
        (
            lambda: WatermarkStrategy.monotonous().with_idleness(timedelta(0)),
            "idle timeout must be greater than zero, got 0 ms",
        ),
        (
            lambda: WatermarkStrategy.monotonous().with_idleness(timedelta(seconds=-2)),
            "greater than zero, got -2000 ms",
        ),
        (
            lambda: WatermarkStrategy.monotonous().with_interval(timedelta(seconds=-1)),
            "interval must not be negative",
        ),
        (lambda: WatermarkStrategy.bounded_out_of_orderness(3600), "must be a timedelta, .* got 3600"),
        (lambda: WatermarkStrategy.monotonous().with_idleness(1.5), "idle timeout must be a timedelta"),
        (lambda: WatermarkStrategy.monotonous().with_interval(None), "interval must be a timedelta"),
        (
            lambda: WatermarkStrategy.monotonous().with_interval(timedelta(microseconds=1500)),
            "whole milliseconds",
        ),
        (lambda: WatermarkStrategy.punctuated(None), "needs a function; got None"),
        (lambda: WatermarkStrategy(kind="monotonous", watermark_of=even_values), "and no other"),
        (
            lambda: WatermarkStrategy(kind="monotonous", out_of_orderness_ms=5),
            "must be 0 for a monotonous strategy",
        ),
        (
            lambda: WatermarkStrategy(kind="hourly"),
            "kind 'hourly'.*bounded_out_of_orderness, monotonous, no_watermarks, punctuated",
        ),
    ],
)
def test_a_strategy_that_flink_refuses_is_refused_with_class_value_and_rule(declare, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as refusal:
        declare()
    assert "WatermarkStrategy" in str(refusal.value)


def test_an_interval_of_zero_and_a_bound_of_zero_are_accepted_as_in_flink() -> None:
    assert (
        WatermarkStrategy.bounded_out_of_orderness(timedelta(0)).with_interval(timedelta(0)).interval_ms == 0
    )


def test_strategies_are_values() -> None:
    def declare() -> WatermarkStrategy:
        return WatermarkStrategy.bounded_out_of_orderness(timedelta(seconds=5)).with_idleness(
            timedelta(seconds=9)
        )

    assert declare() == declare()
    assert hash(declare()) == hash(declare())
    assert declare() != WatermarkStrategy.bounded_out_of_orderness(timedelta(seconds=5))
    assert pickle.loads(pickle.dumps(declare())) == declare()
    punctuated = WatermarkStrategy.punctuated(even_values)
    assert pickle.loads(pickle.dumps(punctuated)) == punctuated
    with pytest.raises(AttributeError):
        declare().interval_ms = 5


def test_a_description_is_the_same_in_every_process() -> None:
    assert WatermarkStrategy.monotonous().with_idleness(timedelta(seconds=9)).describe() == {
        "kind": "monotonous",
        "out_of_orderness_ms": 0,
        "idle_timeout_ms": 9000,
        "interval_ms": 200,
        "watermark_of": None,
    }
    assert WatermarkStrategy.punctuated(even_values).describe()["watermark_of"] == f"{__name__}.even_values"
    assert WatermarkStrategy.punctuated(Every(2)).describe()["watermark_of"] == f"{__name__}.Every"
    assert "0x" not in repr(WatermarkStrategy.punctuated(even_values))
    assert (
        repr(WatermarkStrategy.no_watermarks())
        == "WatermarkStrategy(kind='no_watermarks', out_of_orderness_ms=0, interval_ms=200)"
    )
