"""Sessions as intervals: which rows of a key overlap or touch, directly or through others.

Arrays of integers in, row numbers out. Watermarks and firings are unknown here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from windowing.columnar.columns import Longs
from windowing.columnar.groups import run_numbers
from windowing.columnar.source_progress import running_maximum


class Chains(NamedTuple):
    """Rows of one key whose spans [first, last + gap] overlap or touch, directly or through others, make a chain.

    Attributes:
        order: int64[n], the rows sorted by key and first instant.
        starts: int64[c], where each chain begins in `order`.
        lasts: int64[c], the greatest last instant of each.
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
    """The chains of spans [first, last + gap], both ends included, as Flink merges windows that touch. O(n log n).

    With single elements (lasts = firsts) the chains are the sessions of these elements, whatever their order of arrival.
    """
    order = _sorted_by(keys, firsts)
    sorted_keys, sorted_firsts = keys[order], firsts[order]
    reach = sorted_firsts if lasts is firsts else _running_lasts(sorted_keys, lasts[order])
    is_start = np.ones(len(order), np.bool_)
    is_start[1:] = (sorted_keys[1:] != sorted_keys[:-1]) | (sorted_firsts[1:] - reach[:-1] > gap_ms)
    starts = np.flatnonzero(is_start)
    return Chains(order, starts, reach[np.append(starts[1:], len(order)) - 1] if len(order) else reach)


def _sorted_by(keys: Longs, times: Longs) -> Longs:
    """The rows' order by both columns."""
    if not len(keys):
        return np.zeros(0, np.int64)
    earliest, least = int(times.min()), int(keys.min())
    bits = (int(times.max()) - earliest).bit_length()
    if (int(keys.max()) - least).bit_length() + bits < 63:
        return np.argsort(((keys - least) << bits) | (times - earliest))
    return np.lexsort((times, keys))


def _running_lasts(keys: Longs, lasts: Longs) -> Longs:
    """The running maximum of `lasts` within each run of equal keys."""
    if bool(np.all((lasts[1:] >= lasts[:-1]) | (keys[1:] != keys[:-1]))):
        return lasts
    return running_maximum(keys, lasts)
