"""Watermarks that elements carry, against a model that looks at every millisecond again, and against Flink's
generator and multiplexer.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.windowing.columnar.timeline.punctuated import (
    PunctuatedProgress,
    PunctuatedTimeline,
    punctuated_timeline,
)
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK
from slackwater.windowing.errors import TimelineError
from slackwater.windowing.watermarks import WatermarkOutputMultiplexer, WatermarkStrategy
from tests.windowing.watermarks.recorder import Recorder

INTERVAL = 10
END = 60


class Element(NamedTuple):
    arrival: int
    partition: int
    mark: int | None


elements = st.lists(
    st.builds(
        Element, st.integers(0, END - 1), st.integers(0, 2), st.one_of(st.none(), st.integers(-20, 80))
    ),
    max_size=25,
).map(lambda rows: sorted(rows, key=lambda row: row.arrival))


def timeline(
    rows: Sequence[Element],
    from_ms: int,
    to_ms: int,
    idle: int | None,
    progress: PunctuatedProgress | None,
    watermark: int,
) -> tuple[PunctuatedTimeline, PunctuatedProgress]:
    return punctuated_timeline(
        [row.partition for row in rows],
        [row.arrival for row in rows],
        [INITIAL_WATERMARK if row.mark is None else row.mark for row in rows],
        from_ms=from_ms,
        to_ms=to_ms,
        interval_ms=INTERVAL,
        idle_timeout_ms=idle,
        progress=progress,
        watermark=watermark,
    )


def seen_by(rows: Sequence[Element], count: int, now: int, idle: int | None) -> int | None:
    """Min over the partitions active now, of the first `count` elements; `now` is the newest moment, an
    arrival or a tick's end.
    """
    lowest = []
    newest_end = now // INTERVAL * INTERVAL
    for partition in {row.partition for row in rows[:count]}:
        own = [row for row in rows[:count] if row.partition == partition]
        ends = range(own[-1].arrival // INTERVAL * INTERVAL + INTERVAL, newest_end + 1, INTERVAL)
        if idle is not None and any(end - own[-1].arrival >= idle for end in ends):
            continue
        lowest.append(max((row.mark for row in own if row.mark is not None), default=INITIAL_WATERMARK))
    return min(lowest, default=None)


def brute_force(rows: Sequence[Element], idle: int | None) -> tuple[list[int], int]:
    """(what each element sees, the final watermark), looking again at every tick end and after every
    element.
    """
    watermark, seen, ends = INITIAL_WATERMARK, [], list(range(INTERVAL, END + 1, INTERVAL))
    for count, row in enumerate(rows):
        while ends and ends[0] <= row.arrival:
            watermark = max(watermark, _or_lowest(seen_by(rows, count, ends.pop(0), idle)))
        seen.append(watermark)
        watermark = max(watermark, _or_lowest(seen_by(rows, count + 1, row.arrival, idle)))
    for end in ends:
        watermark = max(watermark, _or_lowest(seen_by(rows, len(rows), end, idle)))
    return seen, watermark


def _or_lowest(watermark: int | None) -> int:
    return INITIAL_WATERMARK if watermark is None else watermark


@given(elements, st.sampled_from([None, 5, 12, 30]), st.lists(st.integers(0, END), max_size=3).map(sorted))
def test_every_element_sees_what_the_model_says_wherever_the_slice_is_cut(
    rows: list[Element], idle: int | None, cuts: list[int]
) -> None:
    seen, progress, watermark = [], None, INITIAL_WATERMARK
    bounds = [0, *cuts, END]
    for from_ms, to_ms in itertools.pairwise(bounds):
        part = [row for row in rows if from_ms <= row.arrival < to_ms]
        found, progress = timeline(part, from_ms, to_ms, idle, progress, watermark)
        rises = np.searchsorted(found.before, np.arange(len(part)), side="right")
        seen += np.append(found.initial, found.watermarks)[rises].tolist()
        watermark = found.final
    assert (seen, watermark) == brute_force(rows, idle)
    whole, progress_of_one = timeline(rows, 0, END, idle, None, INITIAL_WATERMARK)
    assert progress == progress_of_one
    assert whole.final == watermark


@pytest.mark.slow
@given(elements)
def test_it_is_what_flinks_generators_emit_at_once(rows: list[Element]) -> None:
    """Without idleness, and with only those splits that have had an element: one not yet seen would hold
    Flink back.
    """
    output = Recorder()
    multiplexer = WatermarkOutputMultiplexer(output)
    strategy = WatermarkStrategy.punctuated(lambda row, _: row.mark)
    generators, emitted = {}, []
    for index, row in enumerate(rows):
        if row.partition not in generators:
            multiplexer.register(str(row.partition))
            immediate = multiplexer.immediate_output(str(row.partition))
            generators[row.partition] = strategy.create_watermark_generator(lambda: 0), immediate
        generator, immediate = generators[row.partition]
        generator.on_event(row, 0, immediate)
        emitted += [(index + 1, row.arrival, entry[1]) for entry in output.take() if entry[0] == "watermark"]
    found, _ = timeline(rows, 0, END, None, None, INITIAL_WATERMARK)
    assert (
        list(zip(found.before.tolist(), found.moments_ms.tolist(), found.watermarks.tolist(), strict=True))
        == emitted
    )


def test_an_idle_partition_lets_the_watermark_rise_at_a_ticks_end() -> None:
    rows = [Element(1, 0, 5), Element(2, 1, 50), Element(15, 1, 60)]
    found, _ = timeline(rows, 0, END, 12, None, INITIAL_WATERMARK)
    assert found.before.tolist() == [1, 3]
    assert found.moments_ms.tolist() == [1, 20]
    assert found.watermarks.tolist() == [5, 60]


@pytest.mark.parametrize(
    ("partitions", "arrivals", "marks", "told"),
    [
        ([0, 0], [5, 4], [1, 1], "arrivals fall"),
        ([0], [60], [1], "not all of the slice"),
        ([0], [5, 6], [1], "one length"),
    ],
)
def test_elements_of_another_slice_or_order_are_refused(
    partitions: list[int], arrivals: list[int], marks: list[int], told: str
) -> None:
    with pytest.raises(TimelineError, match=told):
        punctuated_timeline(partitions, arrivals, marks, from_ms=0, to_ms=END, interval_ms=INTERVAL)
    late = PunctuatedProgress(*(timeline([Element(30, 0, 1)], 0, END, None, None, 0)[1].__dict__.values()))
    with pytest.raises(TimelineError, match="restored progress knows an arrival at 30"):
        punctuated_timeline([], [], [], from_ms=20, to_ms=END, interval_ms=INTERVAL, progress=late)
