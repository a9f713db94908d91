"""Chains of spans that touch are those that a search over all pairs finds, however far apart keys and times
lie.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.windowing.columnar.sessions.chains import chain_intervals

FAR = [1, 1 << 20, 1 << 29]


def touching(spans: list[tuple[int, int, int]], gap: int) -> list[frozenset[int]]:
    """Rows of one key whose spans touch, directly or through others, by trying all pairs again and again."""
    chains = [frozenset({row}) for row in range(len(spans))]
    for row, (key, first, last) in enumerate(spans):
        for other, (other_key, other_first, other_last) in enumerate(spans[:row]):
            if key == other_key and first <= other_last + gap and other_first <= last + gap:
                joined = [chain for chain in chains if row in chain or other in chain]
                chains = [chain for chain in chains if chain not in joined] + [frozenset().union(*joined)]
    return chains


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(st.integers(-2, 2), st.integers(-30, 30), st.integers(0, 12)), min_size=1, max_size=14
    ),
    st.sampled_from([1, 7]),
    st.sampled_from(FAR),
    st.sampled_from(FAR),
    st.booleans(),
)
def test_chains_are_rows_that_touch(
    rows: list[tuple[int, int, int]], gap: int, key_unit: int, unit: int, are_points: bool
) -> None:
    spans = [
        (key * key_unit, first * unit, (first + (0 if are_points else length)) * unit)
        for key, first, length in rows
    ]
    keys, firsts, lasts = (np.array(column, np.int64) for column in zip(*spans, strict=True))
    chains = chain_intervals(keys, firsts, firsts if are_points else lasts, gap * unit)
    members = [chain.tolist() for chain in np.split(chains.order, chains.starts[1:])]
    assert {frozenset(chain) for chain in members} == set(touching(spans, gap * unit))
    assert chains.lasts.tolist() == [max(spans[row][2] for row in chain) for chain in members]
    assert [spans[row][:2] for row in chains.order.tolist()] == sorted(span[:2] for span in spans)
