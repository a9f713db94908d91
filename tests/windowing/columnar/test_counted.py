"""Counted windows on whole columns are those of the window operator: firings, what they hold, and what is
open afterwards.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing import (
    CountTrigger,
    CumulateEventTimeWindows,
    GlobalWindows,
    NeverTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from slackwater.windowing.assigners import WindowAssigner
from slackwater.windowing.columnar.counted import CountRules, replay_counted
from slackwater.windowing.columnar.numbered_windows import windows_on
from slackwater.windowing.columnar.timeline.timeline import NEVER
from slackwater.windowing.triggers import Trigger
from tests.windowing.columnar.kernel_replays import Replaying, check
from tests.windowing.columnar.operator_replays import Slice, slices, through_operator


def counted(rules: CountRules) -> Replaying:
    return Replaying(lambda *inputs: replay_counted(*inputs, rules))


def trigger_of(max_count: int, accumulates: bool) -> Trigger:
    trigger = CountTrigger.of(max_count)
    return trigger if accumulates else PurgingTrigger.of(trigger)


@given(slices(), st.integers(1, 5), st.booleans())
@settings(max_examples=100)
def test_global_windows_are_those_of_the_operator(
    parts: list[Slice], max_count: int, accumulates: bool
) -> None:
    theirs = through_operator(parts, GlobalWindows.create(), trigger_of(max_count, accumulates))
    check(counted(CountRules(None, max_count, accumulates)), parts, theirs)


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
@given(slices(), st.integers(1, 5), st.booleans(), st.sampled_from([0, 30, 200]))
@settings(max_examples=25)
def test_windows_of_a_grid_are_those_of_the_operator(
    assigner: WindowAssigner, parts: list[Slice], max_count: int, accumulates: bool, lateness_ms: int
) -> None:
    theirs = through_operator(parts, assigner, trigger_of(max_count, accumulates), lateness_ms)
    grid = assigner.grid
    assert grid is not None
    check(counted(CountRules(windows_on(grid, lateness_ms), max_count, accumulates)), parts, theirs)


@given(slices())
@settings(max_examples=25)
def test_a_trigger_that_never_fires_counts_for_ever(parts: list[Slice]) -> None:
    theirs = through_operator(parts, GlobalWindows.create(), NeverTrigger())
    check(counted(CountRules(None, NEVER, accumulates=True)), parts, theirs)
