"""Tumbling and sliding windows on whole columns are those of the window operator: firings, what they hold,
and what is open afterwards. Where windows of late elements stand among open ones, against a dictionary.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing import (
    EventTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from slackwater.windowing.assigners import WindowAssigner
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import group_pairs
from slackwater.windowing.columnar.fixed import FixedRules, positions_among, replay_fixed
from slackwater.windowing.columnar.fixed_windows import FixedWindows
from slackwater.windowing.columnar.window_columns import Elements
from tests.windowing.columnar.kernel_replays import Replaying, check
from tests.windowing.columnar.operator_replays import Slice, slices, through_operator

YEAR_9999 = 253_402_300_799_000  # a window's number where one begins every millisecond

Pairs = list[tuple[int, int]]


def fixed(windows: FixedWindows, accumulates: bool, batches: int) -> Replaying:
    """Elements that are on time for all of their windows come as pieces by key, slice and batch."""

    def piecing(elements: Elements) -> tuple[Booleans, Longs]:
        places = windows.slices(elements.times)
        is_ahead = windows.earliest_last_instants(places) > elements.watermarks
        groups, _, _ = group_pairs(elements.keys, places)
        is_ahead &= windows.windows_per_slice(places) > 0
        return is_ahead, groups.codes * batches + np.arange(len(places)) % batches

    rules = FixedRules(windows, accumulates)
    return Replaying(lambda *given: replay_fixed(*given, rules), piecing, windows.slices)


@pytest.mark.parametrize("accumulates", [True, False])
@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows(size_ms=130, offset_ms=7),
        SlidingEventTimeWindows(size_ms=150, slide_ms=50),
        SlidingEventTimeWindows(size_ms=150, slide_ms=60),
        SlidingEventTimeWindows(size_ms=40, slide_ms=60),
    ],
    ids=["tumbling", "sliding", "uneven", "gaps"],
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
    check(fixed(FixedWindows(*grid, lateness_ms), accumulates, batches), parts, theirs)


def positions(of: Pairs, asked: Pairs) -> list[int]:
    columns = (
        np.array([pair[place] for pair in pairs], np.int64) for pairs in (of, asked) for place in (0, 1)
    )
    return positions_among(*columns).tolist()


def by_dictionary(of: Pairs, asked: Pairs) -> list[int]:
    places = {pair: place for place, pair in enumerate(of)}
    return [places.get(pair, -1) for pair in asked]


@given(
    st.lists(
        st.tuples(st.integers(0, 60_000), st.sampled_from([-3, 0, 7, YEAR_9999])), unique=True, max_size=20
    ),
    st.sets(st.tuples(st.integers(0, 60_000), st.sampled_from([-3, 0, 7, YEAR_9999])), max_size=20),
)
def test_windows_stand_where_a_dictionary_has_them(of: Pairs, others: set[tuple[int, int]]) -> None:
    asked = sorted(others | set(of[::2]))
    assert positions(of, asked) == by_dictionary(of, asked)


@pytest.mark.parametrize("keys", [1_000, 40_000, 60_000])
def test_one_window_of_the_year_9999_hides_none_of_many_keys(keys: int) -> None:
    """Key and window in one number would not fit 64 bits."""
    of = [(key, 1_700_000_000_000) for key in range(keys)] + [(keys - 1, YEAR_9999)]
    asked = of[:-1]
    assert positions(of, asked) == by_dictionary(of, asked)
