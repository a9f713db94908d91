"""The timeline beside Flink's own generators and multiplexer on the same elements: where they agree, and each
stated difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing.columnar.timeline.source_progress import SourceProgress, TickAggregates
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK, Timeline
from slackwater.windowing.processing_time_service import HarnessProcessingTimeService
from slackwater.windowing.watermarks import (
    TimestampsAndWatermarksOperator,
    WatermarkOutputMultiplexer,
    WatermarkStrategy,
)
from tests.windowing.columnar.timeline.timelines import watermark_timeline

from .recorder import Recorder

INTERVAL = 10


class Element(NamedTuple):
    partition: int
    arrival: int
    event_time: int


def strategy_of(bound: int, idle_timeout: int | None) -> WatermarkStrategy:
    strategy = WatermarkStrategy.bounded_out_of_orderness(timedelta(milliseconds=bound)).with_interval(
        timedelta(milliseconds=INTERVAL)
    )
    return strategy if idle_timeout is None else strategy.with_idleness(timedelta(milliseconds=idle_timeout))


class FlinkSource:
    """One source with splits known beforehand: a generator each, probed at each tick's end, combined by the
    multiplexer.
    """

    def __init__(self, strategy: WatermarkStrategy, splits: Sequence[int]) -> None:
        self.now = 0
        self.output = Recorder()
        self.multiplexer = WatermarkOutputMultiplexer(self.output)
        self.generators = {}
        for split in splits:
            self.multiplexer.register(str(split))
            self.generators[split] = (
                strategy.create_watermark_generator(lambda: self.now),
                self.multiplexer.deferred_output(str(split)),
            )

    def run(self, elements: Sequence[Element], to_ms: int) -> list[tuple[int, int]]:
        """(tick end, watermark) where the watermark rises."""
        rises: list[tuple[int, int]] = []
        for end in range(INTERVAL, to_ms + 1, INTERVAL):
            for element in sorted(element for element in elements if end - INTERVAL <= element.arrival < end):
                generator, output = self.generators[element.partition]
                generator.on_event(element, element.event_time, output)
            self.now = end
            for generator, output in self.generators.values():
                generator.on_periodic_emit(output)
            self.multiplexer.on_periodic_emit()
            rises += [(end, entry[1]) for entry in self.output.take() if entry[0] == "watermark"]
        return rises


def flink(
    elements: Sequence[Element], strategy: WatermarkStrategy, to_ms: int, splits: Sequence[int] | None = None
) -> list[tuple[int, int]]:
    partitions = sorted({element.partition for element in elements}) if splits is None else splits
    return FlinkSource(strategy, partitions).run(elements, to_ms)


def timeline_and_progress(
    elements: Sequence[Element],
    strategy: WatermarkStrategy,
    to_ms: int,
    *,
    from_ms: int = 0,
    progress: SourceProgress | None = None,
    watermark: int = INITIAL_WATERMARK,
) -> tuple[Timeline, SourceProgress]:
    columns = ([element[i] for element in elements] for i in range(3))
    ticks = TickAggregates.from_elements(*columns, interval_ms=INTERVAL)
    return watermark_timeline(
        ticks, strategy=strategy, from_ms=from_ms, to_ms=to_ms, progress=progress, watermark=watermark
    )


def rises_of(timeline: Timeline) -> list[tuple[int, int]]:
    return list(zip(timeline.tick_ends.tolist(), timeline.watermarks.tolist(), strict=True))


def ours(elements: Sequence[Element], strategy: WatermarkStrategy, to_ms: int) -> list[tuple[int, int]]:
    return rises_of(timeline_and_progress(elements, strategy, to_ms)[0])


def elements_of(partitions: int, last_arrival: int = 99) -> st.SearchStrategy[list[Element]]:
    return st.lists(
        st.builds(
            Element, st.integers(0, partitions - 1), st.integers(0, last_arrival), st.integers(-200, 200)
        ),
        max_size=20,
    )


@given(elements_of(3), st.integers(0, 30))
def test_without_idle_timeout_both_agree_once_each_partition_has_been_heard(
    elements: list[Element], bound: int
) -> None:
    heard = [Element(partition, partition, -200) for partition in range(3)]
    assert ours(heard + elements, strategy_of(bound, None), 100) == flink(
        heard + elements, strategy_of(bound, None), 100
    )


@given(elements_of(1), st.integers(0, 30), st.integers(INTERVAL + 1, 60))
def test_one_partition_with_an_idle_timeout_longer_than_the_interval_agrees(
    elements: list[Element], bound: int, timeout: int
) -> None:
    assert ours(elements, strategy_of(bound, timeout), 100) == flink(
        elements, strategy_of(bound, timeout), 100, splits=[0]
    )


def test_when_idle_flink_takes_two_steps_and_strictly_more_than_the_timeout() -> None:
    elements = [Element(0, 1, 100)] + [Element(1, arrival, 500) for arrival in range(2, 100, 10)]
    assert ours(elements, strategy_of(0, 19), 100) == [(10, 99), (20, 499)]
    # Flink: news at 10, the stopwatch starts at 20, shows 10 at 30 and 20 > 19 at 40.
    assert flink(elements, strategy_of(0, 19), 100) == [(10, 99), (40, 499)]
    # A timeout that the stopwatch just reaches is not exceeded: one more tick.
    assert ours(elements, strategy_of(0, 20), 100) == [(10, 99), (30, 499)]
    assert flink(elements, strategy_of(0, 20), 100) == [(10, 99), (50, 499)]


def test_all_idle_jumps_to_the_maximum_in_flink_and_stays_here() -> None:
    elements = [Element(0, 1, 100), Element(1, 2, 500)]
    assert ours(elements, strategy_of(0, 15), 100) == [(10, 99)]
    assert flink(elements, strategy_of(0, 15), 100) == [(10, 99), (40, 499)]


def test_a_partition_not_yet_seen_holds_the_watermark_back_in_flink_only() -> None:
    elements = [Element(0, 1, 100), Element(0, 41, 300), Element(1, 61, 350)]
    assert ours(elements, strategy_of(0, None), 100) == [(10, 99), (50, 299)]
    assert flink(elements, strategy_of(0, None), 100, splits=[0, 1]) == [(70, 299)]


def test_timeout_not_longer_than_the_interval_can_silence_an_element_here_only() -> None:
    elements = [Element(0, 1, 100), Element(0, 38, 90)]
    assert ours(elements, strategy_of(0, 5), 100) == [(40, 99)]
    assert flink(elements, strategy_of(0, 5), 100) == [(10, 99)]
    at_the_ticks_start = [Element(0, 20, 100)]
    assert ours(at_the_ticks_start, strategy_of(0, INTERVAL), 100) == []
    assert flink(at_the_ticks_start, strategy_of(0, INTERVAL), 100) == [(30, 99)]


def test_phase_ticks_end_at_multiples_of_the_interval_here_and_count_from_the_operators_start_in_flink() -> (
    None
):
    service, output = HarnessProcessingTimeService(4), Recorder()
    operator = TimestampsAndWatermarksOperator(strategy_of(0, None), service, output)
    operator.open()
    service.advance_to(5)
    operator.process_element("a", 100)
    moments = []
    for now in range(6, 31):
        service.advance_to(now)
        moments += [(now, entry[1]) for entry in output.take() if entry[0] == "watermark"]
    assert moments == [(14, 99)]
    assert ours([Element(0, 5, 100)], strategy_of(0, None), 30) == [(10, 99)]


def test_between_two_runs_the_timeline_goes_on_and_flink_starts_again() -> None:
    strategy = strategy_of(0, None)
    first, progress = timeline_and_progress([Element(0, 1, 1000)], strategy, 50)
    late = [Element(0, 61, 400)]
    second, _ = timeline_and_progress(
        late, strategy, 100, from_ms=50, progress=progress, watermark=first.final
    )
    assert (second.initial, rises_of(second)) == (999, [])
    assert flink(late, strategy, 100) == [(70, 399)]


def test_idle_as_a_status_travels_in_flink_and_is_progress_here() -> None:
    elements = [Element(0, 1, 100)]
    source = FlinkSource(strategy_of(0, 15), [0])
    source.run(elements, 30)
    source.now = 40
    generator, output = source.generators[0]
    generator.on_periodic_emit(output)
    source.multiplexer.on_periodic_emit()
    assert source.output.take() == [("status", "idle")]
    timeline, progress = timeline_and_progress(elements, strategy_of(0, 15), 40)
    assert (rises_of(timeline), progress.idle.tolist()) == ([(10, 99)], [True])
