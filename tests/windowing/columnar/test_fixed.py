"""Tumbling, sliding and cumulative windows on whole columns are those of the window operator: firings, what
they hold, and what is open afterwards.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing import (
    CumulateEventTimeWindows,
    EventTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from slackwater.windowing.assigners import WindowAssigner
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import group_pairs
from slackwater.windowing.columnar.fixed import FixedRules, replay_fixed
from slackwater.windowing.columnar.numbered_windows import NumberedWindows, windows_on
from slackwater.windowing.columnar.window_columns import Elements
from tests.windowing.columnar.kernel_replays import Replaying, check
from tests.windowing.columnar.operator_replays import Slice, slices, through_operator


def fixed(windows: NumberedWindows, accumulates: bool, batches: int) -> Replaying:
    """Elements that are on time for all of their windows come as pieces by key, slice and batch."""

    def piecing(elements: Elements) -> tuple[Booleans, Longs]:
        places = windows.slices(elements.times)
        is_ahead = windows.earliest_last_instants(places) > elements.watermarks
        groups, _, _ = group_pairs(elements.keys, places)
        is_ahead &= windows.windows_per_slice(places) > 0
        return is_ahead, groups.codes * batches + np.arange(len(places)) % batches

    rules = FixedRules(windows, accumulates)
    return Replaying(lambda *inputs: replay_fixed(*inputs, rules), piecing, windows.slices)


@pytest.mark.slow
@pytest.mark.parametrize("accumulates", [True, False])
@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows(size_ms=130, offset_ms=7),
        SlidingEventTimeWindows(size_ms=150, slide_ms=50),
        SlidingEventTimeWindows(size_ms=150, slide_ms=60),
        SlidingEventTimeWindows(size_ms=40, slide_ms=60),
        CumulateEventTimeWindows(size_ms=150, step_ms=50, offset_ms=7),
    ],
    ids=["tumbling", "sliding", "uneven", "gaps", "cumulative"],
)
@given(slices(), st.sampled_from([0, 30, 200]), st.sampled_from([1, 3]))
@settings(max_examples=40)
def test_windows_are_those_of_the_operator(
    assigner: WindowAssigner, accumulates: bool, parts: list[Slice], lateness_ms: int, batches: int
) -> None:
    trigger = EventTimeTrigger() if accumulates else PurgingTrigger.of(EventTimeTrigger())
    theirs = through_operator(parts, assigner, trigger, lateness_ms)
    grid = assigner.grid
    assert grid is not None
    check(fixed(windows_on(grid, lateness_ms), accumulates, batches), parts, theirs)
