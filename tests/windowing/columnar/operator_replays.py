"""Slices through the window operator, element by element: what kernels on whole columns are compared with.
The aggregate is a set of element numbers, so that a firing shows exactly what it held.

Not a test: the part that the kernels' tests share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from slackwater.windowing import AggregateFunction
from slackwater.windowing.assigners import WindowAssigner
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK, Timeline
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.key_types import LONG
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.runtime.key_group_runner import KeyGroupRunner
from slackwater.windowing.runtime.window_log import LoggedPane
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder
from slackwater.windowing.triggers import Trigger

INTERVAL = 50


class Element(NamedTuple):
    """One element; its number is its place in order of arrival."""

    arrival: int
    key: int
    time: int


class Numbers(AggregateFunction):
    """The set of the elements' numbers."""

    def create_accumulator(self) -> frozenset[int]:
        return frozenset()

    def add(self, value: int, accumulator: frozenset[int]) -> frozenset[int]:
        return accumulator | {value}

    def get_result(self, accumulator: frozenset[int]) -> frozenset[int]:
        return accumulator

    def merge(self, a: frozenset[int], b: frozenset[int]) -> frozenset[int]:
        return a | b


@dataclass(frozen=True)
class Slice:
    """One slice: its timeline, and its elements with their numbers."""

    timeline: Timeline
    numbers: range
    elements: Sequence[Element]


@st.composite
def slices(draw: st.DrawFn, keys: int = 3, spread: int = 300) -> list[Slice]:
    """Elements in order of arrival, cut into slices in which the watermark rises at some tick ends, far
    behind the elements or not.
    """
    length = draw(st.integers(1, 600))
    start = 1000
    rows = st.tuples(
        st.integers(start, start + length - 1),
        st.integers(1, keys),
        st.one_of(st.integers(-20, 20), st.integers(0, spread)),
    )
    drawn = sorted(draw(st.lists(rows, min_size=draw(st.sampled_from([0, 10, 25])), max_size=40)))
    elements = [Element(arrival, key, arrival - delay) for arrival, key, delay in drawn]
    cuts = sorted(draw(st.sets(st.integers(start + 1, start + length), max_size=2)) | {start + length})
    lag = draw(st.sampled_from([0, 20, 80]))
    parts, first, watermark = [], 0, INITIAL_WATERMARK
    for from_ms, to_ms in pairwise([start, *cuts]):
        ends, marks, initial = [], [], watermark
        for end in range(from_ms // INTERVAL * INTERVAL + INTERVAL, to_ms + 1, INTERVAL):
            times_so_far = [element.time for element in elements if element.arrival < end]
            if times_so_far and max(times_so_far) - lag > watermark and draw(st.integers(0, 2)):
                watermark = max(times_so_far) - lag
                ends.append(end)
                marks.append(watermark)
        beyond = sum(element.arrival < to_ms for element in elements)
        timeline = Timeline(
            from_ms, to_ms, INTERVAL, initial, np.array(ends, np.int64), np.array(marks, np.int64)
        )
        parts.append(Slice(timeline, range(first, beyond), elements[first:beyond]))
        first = beyond
    return parts


class SliceRows(NamedTuple):
    """What one slice gave: rows of the panes, windows and late elements, and counts. Windows: (start, end),
    None for the global one.
    """

    panes: list[tuple[Any, ...]]
    open: list[tuple[Any, ...]]
    late: list[tuple[int, int]]
    counts: dict[str, int]


def through_operator(
    parts: Sequence[Slice], assigner: WindowAssigner, trigger: Trigger, lateness_ms: int = 0
) -> list[SliceRows]:
    """Each slice restores what the one before it left."""
    builder = WindowOperatorBuilder(LONG, assigner).trigger(trigger)
    config = (builder.allowed_lateness_ms(lateness_ms) if lateness_ms else builder).aggregate(Numbers())
    rows_of_slices, snapshot = [], None
    for part in parts:
        runner = KeyGroupRunner(
            config,
            key_groups=KeyGroupRange(0, 127),
            max_parallelism=128,
            order_mode=OrderMode.ROCKSDB,
            timeline=part.timeline,
            from_ms=part.timeline.from_ms,
        )
        if snapshot is not None:
            runner.restore(snapshot)
        for number, element in zip(part.numbers, part.elements, strict=True):
            runner.process_element(element.key, number, element.time, element.arrival)
        runner.finish(part.timeline.to_ms)
        snapshot = runner.snapshot()
        contents = {
            (entry.key, entry.namespace): entry.value
            for entry in snapshot.entries
            if entry.state_name == config.contents.name
        }
        state_windows = {
            (entry.key, window): state
            for entry in snapshot.entries
            if entry.state_name == "merging-window-set"
            for window, state in entry.value
        }
        windows = [
            (
                window.key,
                _span(window.window),
                window.life.elements,
                window.life.firings,
                window.life.last_fired_at,
                window.life.first_arrival,
                window.life.last_arrival,
                contents.get(
                    (
                        window.key,
                        state_windows.get((window.key, window.window), window.window),
                    )
                ),
            )
            for window in snapshot.windows or ()
        ]
        late = [(item.value, item.watermark) for item in runner.late_elements]
        rows_of_slices.append(SliceRows(list(map(_pane, runner.panes)), windows, late, runner.counts()))
    return rows_of_slices


def _pane(pane: LoggedPane) -> tuple[Any, ...]:
    facts = (pane.firing, pane.kind, pane.elements, pane.watermark, pane.tick_end, pane.cause_arrival)
    return (pane.key, _span(pane.window), *facts, pane.result)


def _span(window: Any) -> tuple[int, int] | None:
    return (window.start, window.end) if hasattr(window, "start") else None
