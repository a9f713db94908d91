"""Counted windows on whole columns are those of the window operator: firings, what they hold, and what is
open afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing import CountTrigger, GlobalWindows, PurgingTrigger
from slackwater.windowing.columnar.count_windows import CountedWindows, replay_counts
from tests.windowing.columnar.operator_replays import Slice, members, slices, through_operator

NEVER = -(2**63)


def replayed(
    parts: Sequence[Slice], max_count: int, accumulates: bool
) -> list[tuple[list[Any], list[Any], int]]:
    """(panes, open windows, windows opened) of each slice, by the kernel; contents are kept here from slice
    to slice.
    """
    windows = CountedWindows(*np.zeros((len(CountedWindows._fields), 0), np.int64))
    held: list[frozenset[int] | None] = []
    results = []
    for part in parts:
        keys, clocks = (
            np.array([getattr(element, name) for element in part.elements], np.int64)
            for name in ("key", "arrival")
        )
        rows = [contents or frozenset() for contents in held] + [
            frozenset({number}) for number in part.numbers
        ]
        firings, after, contents = replay_counts(
            windows, keys, clocks, max_count=max_count, accumulates=accumulates, never=NEVER
        )
        sets = members(contents, rows)
        watermarks = part.timeline.at_arrival(clocks)
        panes = [
            (
                int(keys[at]),
                None,
                firing,
                "count",
                elements,
                int(watermarks[at]),
                None,
                int(clocks[at]),
                sets[number],
            )
            for at, firing, elements, number in zip(*(column.tolist() for column in firings), strict=True)
        ]
        held = [None if number < 0 else sets[number] for number in after.contents.tolist()]
        opened = [
            (
                key,
                None,
                elements,
                fired,
                None if at == NEVER else at,
                first,
                last,
                sets[number] if number >= 0 else None,
            )
            for key, _, elements, fired, at, first, last, number in zip(
                *(column.tolist() for column in after), strict=True
            )
        ]
        results.append((panes, opened, len(after.keys) - len(windows.keys)))
        windows = after
    return results


@given(slices(), st.integers(1, 5), st.booleans())
@settings(max_examples=100)
def test_counted_windows_are_those_of_the_operator(
    parts: list[Slice], max_count: int, accumulates: bool
) -> None:
    trigger = CountTrigger.of(max_count)
    theirs = through_operator(
        parts, GlobalWindows.create(), trigger if accumulates else PurgingTrigger.of(trigger)
    )
    for (panes, opened, how_many), expected in zip(
        replayed(parts, max_count, accumulates), theirs, strict=True
    ):
        assert Counter(panes) == Counter(expected.panes)
        assert Counter(opened) == Counter(expected.open)
        assert how_many == expected.counts["windows_opened"]
