"""Windows that fire at every interval are, on whole columns, those of the window operator: firings, what they
hold, and what stays open.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    CumulateEventTimeWindows,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from slackwater.windowing.assigners import WindowAssigner
from slackwater.windowing.columnar.continuous import ONLY_AT_THE_END, ContinuousRules, replay_continuous
from slackwater.windowing.columnar.numbered_windows import windows_on
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK
from slackwater.windowing.triggers import Trigger
from tests.windowing.columnar import kernel_replays
from tests.windowing.columnar.operator_replays import Slice, slices, through_operator


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
    outer = trigger if accumulates else PurgingTrigger.of(trigger)
    theirs = through_operator(parts, assigner, outer, lateness_ms)
    grid = assigner.grid
    windows = None if grid is None else windows_on(grid, lateness_ms)
    rules = ContinuousRules(windows, interval_ms, accumulates)
    ours = kernel_replays.Replaying(lambda *inputs: replay_continuous(*inputs, rules))
    kernel_replays.check(ours, parts, theirs)


@pytest.mark.parametrize("accumulates", [True, False])
@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows(size_ms=130, offset_ms=7),
        SlidingEventTimeWindows(size_ms=150, slide_ms=60),
        SlidingEventTimeWindows(size_ms=40, slide_ms=60),
        CumulateEventTimeWindows(size_ms=150, step_ms=50),
    ],
    ids=["tumbling", "sliding", "gaps", "cumulative"],
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
