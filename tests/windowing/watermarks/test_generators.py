"""Generators by hand, where the recorded traces have no case: repeated probes, the stopwatch's own rules."""

from __future__ import annotations

from slackwater.windowing.watermarks import (
    AscendingTimestampsWatermarks,
    BoundedOutOfOrdernessWatermarks,
    NoWatermarksGenerator,
    PunctuatedWatermarks,
    WatermarksWithIdleness,
)

from .recorder import Recorder

LONG_MIN = -(2**63)


class Clock:
    def __init__(self, now: int = 0) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def test_a_watermark_before_any_element_is_the_smallest_long() -> None:
    for generator in (BoundedOutOfOrdernessWatermarks(10), AscendingTimestampsWatermarks()):
        output = Recorder()
        generator.on_periodic_emit(output)
        assert output.take() == [("watermark", LONG_MIN)]


def test_the_watermark_is_the_greatest_timestamp_minus_bound_minus_one_at_each_probe() -> None:
    output, generator = Recorder(), BoundedOutOfOrdernessWatermarks(10)
    for timestamp, expected in ((1337, 1326), (1300, 1326), (1340, 1329)):
        generator.on_event(None, timestamp, output)
        assert output.take() == []
        generator.on_periodic_emit(output)
        generator.on_periodic_emit(output)
        assert output.take() == [("watermark", expected)] * 2


def test_the_subtraction_wraps_below_the_smallest_long() -> None:
    output, generator = Recorder(), AscendingTimestampsWatermarks()
    generator.on_event(None, LONG_MIN, output)
    generator.on_periodic_emit(output)
    # The initial maximum is LONG_MIN + 1 and wins, so even the smallest timestamp does not wrap here.
    assert output.take() == [("watermark", LONG_MIN)]


def test_punctuated_watermarks_come_from_elements_alone() -> None:
    output = Recorder()
    generator = PunctuatedWatermarks(lambda element, timestamp: timestamp - 1 if element == "mark" else None)
    for element, timestamp in (("mark", 5), ("row", 9), ("mark", 3)):
        generator.on_event(element, timestamp, output)
        generator.on_periodic_emit(output)
    assert output.take() == [("watermark", 4), ("watermark", 2)]


def test_no_watermarks_generator_says_nothing() -> None:
    output, generator = Recorder(), NoWatermarksGenerator()
    generator.on_event(None, 5, output)
    generator.on_periodic_emit(output)
    assert output.take() == []


def test_idleness_is_said_once_a_phase_and_needs_strictly_more_than_the_timeout() -> None:
    output, clock = Recorder(), Clock(1000)
    generator = WatermarksWithIdleness(NoWatermarksGenerator(), 100, clock)
    statuses = []
    for now in (1000, 1100, 1101, 1500):  # the stopwatch starts at 1000
        clock.now = now
        generator.on_periodic_emit(output)
        statuses.append(output.take())
    assert statuses == [[], [], [("status", "idle")], []]
    generator.on_event(None, 1, output)
    for now in (1501, 1502, 1602, 1603):  # news at 1501, the stopwatch starts at 1502
        clock.now = now
        generator.on_periodic_emit(output)
        statuses.append(output.take())
    assert statuses[4:] == [[], [], [], [("status", "idle")]]


def test_a_stopwatch_started_at_time_zero_counts_as_not_started() -> None:
    output, clock = Recorder(), Clock(0)
    generator = WatermarksWithIdleness(NoWatermarksGenerator(), 10, clock)
    for now in (0, 50, 60):
        clock.now = now
        generator.on_periodic_emit(output)
    assert output.take() == []
    clock.now = 61
    generator.on_periodic_emit(output)
    assert output.take() == [("status", "idle")]
