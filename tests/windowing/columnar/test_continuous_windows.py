"""Windows that fire at every interval are, on whole columns, those of the window operator: firings, what they
hold, and what stays open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    Trigger,
    TumblingEventTimeWindows,
)
from slackwater.windowing.assigners import WindowAssigner
from slackwater.windowing.columnar.continuous_windows import (
    EARLY,
    LATE,
    NO_TIME,
    ONLY_AT_THE_END,
    ContinuousWindows,
    Takings,
    replay_continuous,
)
from slackwater.windowing.columnar.timeline import INITIAL_WATERMARK
from slackwater.windowing.java import LONG_MAX
from tests.windowing.columnar.operator_replays import Slice, members, slices, through_operator

Id = tuple[int, tuple[int, int] | None]


class Replaying:
    """Slices through the kernel: which windows there are, whom they take and what they hold is kept here in
    dicts.
    """

    def __init__(
        self, assigner: WindowAssigner, interval_ms: int, accumulates: bool, lateness_ms: int
    ) -> None:
        self.assigner, self.interval_ms, self.accumulates, self.lateness_ms = (
            assigner,
            interval_ms,
            accumulates,
            lateness_ms,
        )
        self.open: dict[Id, tuple[tuple[int, ...], frozenset[int] | None]] = {}

    def cleanup(self, window: Id) -> int:
        return LONG_MAX if window[1] is None else window[1][1] - 1 + self.lateness_ms

    def windows_of(self, key: int, time: int, watermark: int) -> list[Id]:
        spans = (
            None if not hasattr(w, "start") else (w.start, w.end)
            for w in self.assigner.assign_windows(None, time, None)
        )
        return [(key, span) for span in spans if span is None or self.cleanup((key, span)) > watermark]

    def replay(self, part: Slice) -> tuple[list[Any], list[Any]]:
        """(panes, open windows) of one slice."""
        before = list(self.open)
        numbers = {window: number for number, window in enumerate(before)}
        taken = []
        for position, (element, watermark) in enumerate(
            zip(
                part.elements,
                part.timeline.at_arrival(np.array([e.arrival for e in part.elements], np.int64)).tolist(),
                strict=True,
            )
        ):
            for window in self.windows_of(element.key, element.time, watermark):
                taken.append(
                    (
                        numbers.setdefault(window, len(numbers)),
                        element.time,
                        element.arrival,
                        part.numbers[position],
                    )
                )
        *columns, values = np.array(taken, np.int64).reshape(-1, 4).T
        rows = [self.open[window][1] or frozenset() for window in before] + [
            frozenset({number}) for number in values.tolist()
        ]
        parked = np.array([self.open[window][0] for window in before], np.int64).reshape(-1, 7).T
        is_empty = np.array([self.open[window][1] is None for window in before], np.bool_)
        firings, after, contents = replay_continuous(
            ContinuousWindows(*parked, np.where(is_empty, -1, 0)),
            np.arange(len(before)),
            np.array([LONG_MAX if span is None else span[1] - 1 for _, span in numbers], np.int64),
            Takings(*columns),
            interval_ms=self.interval_ms,
            accumulates=self.accumulates,
            timeline=part.timeline,
        )
        sets, names = members(contents, rows), list(numbers)
        panes = [
            self._pane(names, sets, row) for row in zip(*(column.tolist() for column in firings), strict=True)
        ]
        self.open = {
            window: (tuple(facts), sets[held] if held >= 0 else None)
            for window, (*facts, held) in zip(
                names, zip(*(column.tolist() for column in after), strict=True), strict=True
            )
            if self.cleanup(window) > part.timeline.final
        }
        opened = [
            (key, span, elements, fired, None if at == NO_TIME else at, first, last, held)
            for (key, span), ((_, elements, _, fired, at, first, last), held) in self.open.items()
        ]
        return panes, opened

    def _pane(self, names: list[Id], sets: list[frozenset[int]], row: Sequence[int]) -> tuple[Any, ...]:
        window, firing, kind, elements, watermark, moment, contents = row
        key, span = names[window]
        name = (
            "count" if span is None else "early" if kind == EARLY else "late" if kind == LATE else "on_time"
        )
        moments = (None, moment) if kind == LATE else (moment, None)
        return (key, span, firing, name, elements, watermark, *moments, sets[contents])


def shifted(parts: list[Slice], by: int) -> list[Slice]:
    """The same slices with events and watermarks so much later."""
    return [
        replace(
            part,
            timeline=replace(
                part.timeline,
                initial=part.timeline.initial
                if part.timeline.initial == INITIAL_WATERMARK
                else part.timeline.initial + by,
                watermarks=part.timeline.watermarks + by,
            ),
            elements=[element._replace(time=element.time + by) for element in part.elements],
        )
        for part in parts
    ]


def check(
    parts: list[Slice],
    assigner: WindowAssigner,
    trigger: Trigger,
    interval_ms: int,
    accumulates: bool,
    lateness_ms: int,
) -> None:
    theirs = through_operator(
        parts, assigner, trigger if accumulates else PurgingTrigger.of(trigger), lateness_ms
    )
    ours = Replaying(assigner, interval_ms, accumulates, lateness_ms)
    for part, expected in zip(parts, theirs, strict=True):
        panes, opened = ours.replay(part)
        assert Counter(panes) == Counter(expected.panes)
        assert Counter(opened) == Counter(expected.open)


@pytest.mark.parametrize("accumulates", [True, False])
@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows(size_ms=130, offset_ms=7),
        SlidingEventTimeWindows(size_ms=150, slide_ms=60),
        SlidingEventTimeWindows(size_ms=40, slide_ms=60),
    ],
    ids=["tumbling", "sliding", "gaps"],
)
@given(slices(), st.sampled_from([7, 40, 200]), st.sampled_from([0, 30, 200]), st.sampled_from([0, -1300]))
@settings(max_examples=25)
def test_windows_are_those_of_the_operator(
    assigner: WindowAssigner,
    accumulates: bool,
    parts: list[Slice],
    interval_ms: int,
    lateness_ms: int,
    later_ms: int,
) -> None:
    check(
        shifted(parts, later_ms),
        assigner,
        ContinuousEventTimeTrigger(interval_ms=interval_ms),
        interval_ms,
        accumulates,
        lateness_ms,
    )


@pytest.mark.parametrize("accumulates", [True, False])
@given(slices(), st.sampled_from([7, 40, 200]))
@settings(max_examples=25)
def test_the_global_window_goes_on_firing(accumulates: bool, parts: list[Slice], interval_ms: int) -> None:
    check(
        parts,
        GlobalWindows.create(),
        ContinuousEventTimeTrigger(interval_ms=interval_ms),
        interval_ms,
        accumulates,
        0,
    )


@given(slices(), st.booleans(), st.sampled_from([0, 30]))
@settings(max_examples=25)
def test_without_an_interval_only_the_last_instant_fires(
    parts: list[Slice], accumulates: bool, lateness_ms: int
) -> None:
    assigner = TumblingEventTimeWindows(size_ms=130, offset_ms=7)
    check(parts, assigner, EventTimeTrigger(), ONLY_AT_THE_END, accumulates, lateness_ms)
