"""Sessions as chains of intervals: intervals of one key that overlap or touch, directly or through others.

intervals   ├──────┤     ├───┤        ├────┤
                ├─────┤      ├──┤
chains      └─────────┘  └──────┘     └────┘
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import run_numbers
from slackwater.windowing.columnar.arrays.orders import sort_non_negative
from slackwater.windowing.columnar.timeline.source_progress import running_maximum


class Chains(NamedTuple):
    """Rows of one key whose intervals [first, last + gap] overlap or touch, directly or through others.

    `order`, int64[n], are the rows sorted by key and first instant; chain i begins at `starts[i]` in it, and
    `lasts[i]` is its greatest last instant.
    """

    order: Longs
    starts: Longs
    lasts: Longs

    def numbers(self) -> Longs:
        """int64[n]: the chain of each row, in the rows' own order."""
        chains = np.empty(len(self.order), np.int64)
        chains[self.order] = run_numbers(self.starts, len(self.order))
        return chains


def chain_intervals(keys: Longs, firsts: Longs, lasts: Longs, gap_ms: int) -> Chains:
    """The chains of intervals [first, last + gap], ends included, as Flink merges windows that touch. O(n log
    n). Of single elements (lasts is firsts) the chains are the sessions, whatever the order of arrival.
    """
    if not len(keys):
        return Chains(keys, keys, keys)
    earliest, least = int(firsts.min()), int(keys.min())
    bits = (int(lasts.max()) - earliest + gap_ms + 1).bit_length()
    if (int(keys.max()) - least).bit_length() + bits > 62:
        return _chain_apart(keys, firsts, lasts, gap_ms)
    # Key and time as one number; keys lie further apart than any chain reaches.
    packed_starts = ((keys - least) << bits) | (firsts - earliest)
    order, packed_starts = sort_non_negative(packed_starts)
    reach = (
        packed_starts if lasts is firsts else np.maximum.accumulate(packed_starts + (lasts - firsts)[order])
    )
    starts = _starts(packed_starts[1:] - reach[:-1] > gap_ms)
    return Chains(order, starts, _at_ends(reach & ((1 << bits) - 1), starts) + earliest)


def _chain_apart(keys: Longs, firsts: Longs, lasts: Longs, gap_ms: int) -> Chains:
    """`chain_intervals` where key and time don't fit into one number."""
    order = np.lexsort((firsts, keys))
    keys, firsts = keys[order], firsts[order]
    reach = running_maximum(keys, lasts[order])
    starts = _starts((keys[1:] != keys[:-1]) | (firsts[1:] - reach[:-1] > gap_ms))
    return Chains(order, starts, _at_ends(reach, starts))


def _starts(is_apart: Booleans) -> Longs:
    """Where chains begin; `is_apart` compares each row but the first with the one before."""
    return np.concatenate([[0], np.flatnonzero(is_apart) + 1])


def _at_ends(values: Longs, starts: Longs) -> Longs:
    ends: Longs = values[np.append(starts[1:], len(values)) - 1]
    return ends
