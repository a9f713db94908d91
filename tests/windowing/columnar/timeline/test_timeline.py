"""The watermark timeline against a second source: hand calculations, and a model that visits every tick and
every element.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing.columnar.timeline.source_progress import SourceProgress, TickAggregates
from slackwater.windowing.columnar.timeline.timeline import (
    INITIAL_WATERMARK,
    NEVER,
    Timeline,
)
from slackwater.windowing.errors import TimelineError, TimeRangeError
from slackwater.windowing.watermarks import WatermarkStrategy
from tests.windowing.columnar.timeline.timeline_model import Element, progress_at, watermarks_by_tick_end
from tests.windowing.columnar.timeline.timelines import watermark_timeline


def strategy_of(bound: int, idle_timeout: int | None, interval: int) -> WatermarkStrategy:
    strategy = WatermarkStrategy.bounded_out_of_orderness(timedelta(milliseconds=bound)).with_interval(
        timedelta(milliseconds=interval)
    )
    return strategy if idle_timeout is None else strategy.with_idleness(timedelta(milliseconds=idle_timeout))


def aggregates_of(elements: Sequence[Element], interval: int) -> TickAggregates:
    return TickAggregates.from_elements(
        [element.partition for element in elements],
        [element.arrival for element in elements],
        [element.event_time for element in elements],
        interval_ms=interval,
    )


def run(
    elements: Sequence[Element],
    strategy: WatermarkStrategy,
    from_ms: int,
    to_ms: int,
    progress: SourceProgress | None = None,
    watermark: int = INITIAL_WATERMARK,
) -> tuple[Timeline, SourceProgress]:
    slice_of_it = [element for element in elements if from_ms <= element.arrival < to_ms]
    aggregates = aggregates_of(slice_of_it, strategy.interval_ms)
    return watermark_timeline(
        aggregates, strategy=strategy, from_ms=from_ms, to_ms=to_ms, progress=progress, watermark=watermark
    )


def changes(timeline: Timeline) -> list[tuple[int, int]]:
    return list(zip(timeline.tick_ends.tolist(), timeline.watermarks.tolist(), strict=True))


@st.composite
def replays(draw: st.DrawFn) -> tuple[list[Element], int, int | None, int, int, int]:
    """Elements, bound, idle timeout, interval and a slice; event times and arrivals on both sides of 1970."""
    from_ms = draw(st.integers(-60, 20))
    to_ms = from_ms + draw(st.integers(1, 80))
    element = st.builds(Element, st.integers(0, 3), st.integers(from_ms, to_ms - 1), st.integers(-100, 100))
    elements = draw(st.lists(element, max_size=25))
    return (
        elements,
        draw(st.integers(0, 20)),
        draw(st.none() | st.integers(1, 40)),
        draw(st.integers(1, 15)),
        from_ms,
        to_ms,
    )


@given(replays())
def test_every_tick_end_has_the_watermark_of_the_element_by_element_model(replay) -> None:
    elements, bound, idle_timeout, interval, from_ms, to_ms = replay
    expected = watermarks_by_tick_end(
        elements, bound=bound, idle_timeout=idle_timeout, interval=interval, from_ms=from_ms, to_ms=to_ms
    )
    timeline, _ = run(elements, strategy_of(bound, idle_timeout, interval), from_ms, to_ms)
    assert timeline.at_arrival(list(expected)).tolist() == list(expected.values())
    assert changes(timeline) == [
        (end, watermark)
        for (_, before), (end, watermark) in pairwise([(None, INITIAL_WATERMARK), *expected.items()])
        if watermark > before
    ]


@given(replays())
def test_progress_is_that_of_the_model(replay) -> None:
    elements, bound, idle_timeout, interval, from_ms, to_ms = replay
    _, progress = run(elements, strategy_of(bound, idle_timeout, interval), from_ms, to_ms)
    expected = progress_at(
        elements, idle_timeout=idle_timeout, interval=interval, from_ms=from_ms, to_ms=to_ms
    )
    assert progress.partitions.tolist() == sorted(expected)
    rows = zip(
        progress.max_event_ms.tolist(), progress.last_arrival_ms.tolist(), progress.idle.tolist(), strict=True
    )
    assert list(rows) == [expected[partition] for partition in sorted(expected)]
    assert progress.unfinished_tick_start_ms == (None if to_ms % interval == 0 else to_ms - to_ms % interval)


@pytest.mark.slow
@settings(max_examples=200)
@given(replays(), st.data())
def test_runs_over_the_parts_of_a_slice_give_the_timeline_of_the_whole_for_any_cuts(
    replay, data: st.DataObject
) -> None:
    elements, bound, idle_timeout, interval, from_ms, to_ms = replay
    strategy = strategy_of(bound, idle_timeout, interval)
    whole, progress_of_whole = run(elements, strategy, from_ms, to_ms)
    cuts = sorted(data.draw(st.lists(st.integers(from_ms, to_ms), max_size=4)))
    progress, watermark, found = SourceProgress.none(), INITIAL_WATERMARK, []
    for start, end in pairwise([from_ms, *cuts, to_ms]):
        part, progress = run(elements, strategy, start, end, progress, watermark)
        watermark = part.final
        found += changes(part)
    assert found == changes(whole)
    assert watermark == whole.final
    assert progress == progress_of_whole


@given(replays(), st.integers(1, 4))
def test_partial_aggregates_of_several_tasks_give_the_same_timeline(replay, tasks: int) -> None:
    elements, bound, idle_timeout, interval, from_ms, to_ms = replay
    strategy = strategy_of(bound, idle_timeout, interval)
    parts = TickAggregates.concatenate(
        aggregates_of(elements[task::tasks], interval) for task in reversed(range(tasks))
    )
    assert watermark_timeline(parts, strategy=strategy, from_ms=from_ms, to_ms=to_ms) == run(
        elements, strategy, from_ms, to_ms
    )


@given(
    st.lists(st.integers(-50_000, 50_000), min_size=1, max_size=60),
    st.sampled_from([None, 1, 2]),
    st.booleans(),
    st.integers(1, 30),
)
def test_ticks_are_those_of_the_floored_times(
    micros: list[int], partitions: int | None, is_sorted: bool, interval: int
) -> None:
    arrivals = sorted(micros) if is_sorted else micros
    events = [7 * arrival % 4001 - 2000 for arrival in arrivals]
    codes = [5 if partitions is None else number % partitions for number in range(len(arrivals))]
    ticks = TickAggregates.from_elements(
        5 if partitions is None else codes, arrivals, events, interval_ms=interval, per_ms=1000
    )
    expected: dict[tuple[int, int], tuple[int, int]] = {}
    for code, arrival, event in zip(
        codes, (arrival // 1000 for arrival in arrivals), (event // 1000 for event in events), strict=True
    ):
        before = expected.get((code, arrival // interval), (event, arrival))
        expected[code, arrival // interval] = (max(event, before[0]), max(arrival, before[1]))
    columns = (ticks.partitions.tolist(), ticks.max_event_ms.tolist(), ticks.last_arrival_ms.tolist())
    assert sorted(zip(*columns, strict=True)) == sorted(
        (code, event, last) for (code, _), (event, last) in expected.items()
    )


@given(replays())
def test_an_element_sees_the_watermark_of_the_newest_tick_end_at_or_before_its_arrival(replay) -> None:
    elements, bound, idle_timeout, interval, from_ms, to_ms = replay
    by_end = watermarks_by_tick_end(
        elements, bound=bound, idle_timeout=idle_timeout, interval=interval, from_ms=from_ms, to_ms=to_ms
    )
    timeline, _ = run(elements, strategy_of(bound, idle_timeout, interval), from_ms, to_ms)
    arrivals = list(range(from_ms, to_ms))
    expected = [by_end.get(arrival // interval * interval, INITIAL_WATERMARK) for arrival in arrivals]
    assert timeline.at_arrival(arrivals).tolist() == expected
    if arrivals:  # a few that lie far apart
        assert timeline.at_arrival([arrivals[-1], arrivals[0]]).tolist() == [expected[-1], expected[0]]


@given(replays())
def test_a_timer_fires_at_the_first_new_watermark_at_or_above_it_that_comes_after_its_registration(
    replay,
) -> None:
    elements, bound, idle_timeout, interval, from_ms, to_ms = replay
    timeline, _ = run(elements, strategy_of(bound, idle_timeout, interval), from_ms, to_ms)
    times = [time for time in range(-130, 110, 7) for _ in range(3)]
    registered = [from_ms, (from_ms + to_ms) // 2, to_ms] * (len(times) // 3)
    expected = [
        next((end for end, watermark in changes(timeline) if watermark >= time and end > arrival), NEVER)
        for time, arrival in zip(times, registered, strict=True)
    ]
    assert timeline.first_tick_end_reaching(times, after_ms=registered).tolist() == expected
    expected = [
        next((end for end, watermark in changes(timeline) if watermark >= time), NEVER) for time in times
    ]
    assert timeline.first_tick_end_reaching(times).tolist() == expected


def test_bounded_out_of_orderness_by_hand() -> None:
    elements = [
        Element(0, 0, 1000),
        Element(0, 7, 900),
        Element(0, 10, 1500),
        Element(0, 25, 1400),
        Element(0, 39, 2000),
    ]
    timeline, progress = run(elements, strategy_of(100, None, 10), 0, 45)
    assert changes(timeline) == [(10, 899), (20, 1399), (40, 1899)]
    assert (
        timeline.at_arrival([0, 9, 10, 19, 20, 39, 40, 44]).tolist()
        == [INITIAL_WATERMARK] * 2 + [899] * 2 + [1399] * 2 + [1899] * 2
    )
    assert timeline.first_tick_end_reaching([-5, 899, 900, 1899, 1900]).tolist() == [10, 10, 20, 40, NEVER]
    assert progress.unfinished_tick_start_ms == 40


def test_the_slowest_partition_holds_the_watermark_until_it_is_idle() -> None:
    elements = [Element(0, 1, 500), Element(1, 2, 100), Element(0, 31, 600)]
    timeline, progress = run(elements, strategy_of(0, 25, 10), 0, 60)
    # At 30 partition 1 has been silent for 28 ms and partition 0 for 29: none active. At 40 partition 0 alone
    # is active.
    assert changes(timeline) == [(10, 99), (40, 599)]
    assert progress.idle.tolist() == [True, True]


def test_a_partition_that_becomes_idle_releases_the_minimum_at_a_tick_without_arrivals() -> None:
    elements = [Element(0, 1, 100), Element(1, 9, 500)]
    timeline, _ = run(elements, strategy_of(0, 15, 10), 0, 60)
    assert changes(timeline) == [(10, 99), (20, 499)]


@pytest.mark.parametrize(("idle_timeout", "is_idle"), [(20, True), (21, False)])
def test_a_partition_is_idle_once_the_timeout_is_reached(idle_timeout: int, is_idle: bool) -> None:
    elements = [Element(0, 10, 500), Element(1, 25, 100)]
    timeline, progress = run(elements, strategy_of(0, idle_timeout, 10), 0, 30)
    assert (changes(timeline), progress.idle.tolist()) == ([(20, 499)], [is_idle, False])


def test_a_partition_not_yet_seen_holds_nothing_back_and_a_late_comer_never_pulls_back() -> None:
    elements = [Element(0, 1, 100), Element(1, 11, 20), Element(0, 21, 300), Element(1, 31, 250)]
    timeline, _ = run(elements, strategy_of(0, None, 10), 0, 50)
    assert changes(timeline) == [(10, 99), (40, 249)]


def test_an_idle_partition_counts_again_with_all_that_it_has_shown() -> None:
    elements = [Element(0, 5, 1000), Element(0, 95, 400)]
    timeline, _ = run([Element(1, 15, 50), *elements], strategy_of(0, 6, 10), 0, 100)
    # Partition 0 is active at 10 and 100 only, partition 1 at 20 only.
    assert changes(timeline) == [(10, 999)]
    timeline, _ = run(elements, strategy_of(0, 4, 10), 0, 100)
    assert changes(timeline) == []  # at its own tick's end each element is 5 ms old: idle already


def test_a_slice_longer_than_its_ticks_could_be_counted_costs_what_its_changes_cost() -> None:
    year = 365 * 86_400_000
    elements = [Element(0, 0, 0), Element(0, year // 2, year // 2), Element(1, 10, 5)]
    timeline, _ = run(elements, strategy_of(1000, 60_000, 1), 0, year)
    # Partition 0 leaves at 60 s and partition 1, then alone, 10 ms later.
    assert changes(timeline) == [(1, -1001), (60_000, -996), (year // 2 + 1, year // 2 - 1001)]


def test_no_watermarks_leave_the_watermark_and_still_record_progress() -> None:
    elements = [Element(3, 4, 77)]
    strategy = WatermarkStrategy.no_watermarks().with_interval(timedelta(milliseconds=10))
    timeline, progress = run(elements, strategy, 0, 100, watermark=5)
    assert (changes(timeline), timeline.final) == ([], 5)
    assert (
        progress.partitions.tolist(),
        progress.max_event_ms.tolist(),
        progress.last_arrival_ms.tolist(),
    ) == ([3], [77], [4])


def test_monotonous_is_a_bound_of_zero() -> None:
    elements = [Element(0, 3, 50), Element(0, 12, 40), Element(0, 22, 60)]
    monotonous = WatermarkStrategy.monotonous().with_interval(timedelta(milliseconds=10))
    assert changes(run(elements, monotonous, 0, 30)[0]) == [(10, 49), (30, 59)]


def test_event_times_reach_both_ends_of_the_64_bit_range() -> None:
    smallest, greatest = -(2**63), 2**63 - 1
    elements = [
        Element(0, 1, smallest + 1),
        Element(0, 11, smallest + 2),
        Element(0, 21, greatest),
        Element(1, 31, smallest + 1),
    ]
    timeline, _ = run(elements, strategy_of(0, None, 10), 0, 40)
    assert changes(timeline) == [(20, smallest + 1), (30, greatest - 1)]


def test_an_event_time_whose_watermark_would_wrap_is_refused() -> None:
    with pytest.raises(TimeRangeError, match="-9223372036854775808"):
        run([Element(0, 1, -(2**63))], strategy_of(0, None, 10), 0, 40)
    with pytest.raises(TimeRangeError, match="100 ms"):
        run([Element(0, 1, -(2**63) + 100)], strategy_of(100, None, 10), 0, 40)


def test_the_final_watermark_is_reached_by_every_timer() -> None:
    timeline = Timeline(16, 17, 1, 900, np.array([17]), np.array([NEVER]))
    assert timeline.final == NEVER
    assert timeline.at_arrival([16, 17, 16]).tolist() == [900, NEVER, 900]
    assert timeline.first_tick_end_reaching([-(2**63), 900, 901, NEVER]).tolist() == [17] * 4
    assert timeline.first_tick_end_reaching([5, NEVER], after_ms=[16, 17]).tolist() == [17, NEVER]


def test_arrivals_outside_of_the_slice_are_refused() -> None:
    strategy, aggregates = strategy_of(0, None, 10), aggregates_of([Element(0, 40, 1)], 10)
    for from_ms, to_ms in ((0, 40), (41, 50)):
        with pytest.raises(TimelineError, match="arrived in 40"):
            watermark_timeline(aggregates, strategy=strategy, from_ms=from_ms, to_ms=to_ms)
    timeline, progress = run([Element(0, 5, 1)], strategy, 0, 10)
    with pytest.raises(TimelineError, match="knows nothing of 11"):
        timeline.at_arrival([3, 11])
    with pytest.raises(TimelineError, match="arrival at 5"):
        run([], strategy, 5, 20, progress)
    with pytest.raises(TimelineError, match="ends before it starts"):
        run([], strategy, 5, 4)
    with pytest.raises(TimeRangeError, match="2\\^62"):
        run([], strategy, 0, 2**62 + 1)


def test_strategies_without_ticks_are_refused() -> None:
    with pytest.raises(TimelineError, match="inside a tick"):
        run([], WatermarkStrategy.punctuated(lambda element, timestamp: None), 0, 10)
    with pytest.raises(TimelineError, match="needs ticks"):
        watermark_timeline(TickAggregates.none(), strategy=strategy_of(0, None, 0), from_ms=0, to_ms=10)


def test_arrays_of_other_kinds_or_lengths_are_refused() -> None:
    with pytest.raises(TimelineError, match="float64"):
        TickAggregates.from_elements([0], [1.5], [2], interval_ms=10)
    with pytest.raises(TimelineError, match="uint64"):
        TickAggregates.from_elements([0], [1], [2**63], interval_ms=10)
    with pytest.raises(TimelineError, match="one length"):
        TickAggregates.from_elements([0], [1, 2], [2], interval_ms=10)
    with pytest.raises(TimelineError, match="ascending order"):
        SourceProgress(*(np.array([1, 1]) for _ in range(3)), idle=np.array([False, False]))
    with pytest.raises(TimelineError, match="rise strictly"):
        Timeline(0, 100, 10, 5, np.array([10, 20]), np.array([7, 7]))
    with pytest.raises(TimelineError, match="can't hold tick ends 10 to 20"):
        Timeline(10, 100, 10, 5, np.array([10, 20]), np.array([7, 8]))
    with pytest.raises(TimelineError, match="multiples of its interval of 10 ms"):
        Timeline(0, 100, 10, 5, np.array([10, 25]), np.array([7, 8]))


def test_timelines_and_progress_travel_to_executors_unchanged_and_are_read_only() -> None:
    timeline, progress = run([Element(0, 5, 1), Element(1, 15, 9)], strategy_of(0, 7, 10), 0, 33)
    assert pickle.loads(pickle.dumps((timeline, progress))) == (timeline, progress)
    assert timeline != run([Element(0, 5, 2)], strategy_of(0, 7, 10), 0, 33)[0]
    with pytest.raises(ValueError, match="read-only"):
        timeline.watermarks[0] = 3
