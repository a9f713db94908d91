"""Orders of rows: sorting values with their places, distinct values, the order of pairs, and lookup of pairs.

A value and its place, or the two values of a pair, are packed into one integer where they fit:

    bit   63                 n                 0
           │ value - least   │ place of the row │

numpy sorts such integers in a third of the time of an indirect sort, and equal values keep their order
because their places ascend.
"""

from __future__ import annotations

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Longs


def sort_with_places(values: Longs) -> tuple[Longs, Longs]:
    """(places before sorting, values ascending); equal values keep their order."""
    bits = len(values).bit_length()
    least = int(values.min()) if len(values) else 0
    if len(values) and int(values.max()) - least >= 1 << (63 - bits):
        order = np.argsort(values, kind="stable")
        return order, values[order]
    packed_values = values - least
    packed_values <<= bits
    packed_values |= np.arange(len(values))
    packed_values.sort()
    return packed_values & ((1 << bits) - 1), (packed_values >> bits) + least


def sort_non_negative(values: Longs) -> tuple[Longs, Longs]:
    """A faster `sort_with_places` for non-negative values."""
    bits = len(values).bit_length()
    if int(values.max(initial=0)).bit_length() + bits > 63:
        order = np.argsort(values, kind="stable")
        return order, values[order]
    packed_values = np.sort((values << bits) | np.arange(len(values)))
    return packed_values & ((1 << bits) - 1), packed_values >> bits


def distinct_values(values: Longs) -> Longs:
    """The distinct values, ascending. `np.unique` hashes unless asked for more, up to 70 times slower."""
    values = np.sort(values)
    is_first = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=is_first[1:])
    return values[is_first]


def order_of_pairs(first: Longs, second: Longs) -> Longs:
    """The places of pairs in ascending order, stable: a merge sort for pairs in a few ascending runs."""
    if not len(first):
        return first
    least, low = int(first.min()), int(second.min())
    width = int(second.max()) - low + 1
    if (int(first.max()) - least + 1) * width >= 1 << 62:
        return np.lexsort((second, first))
    pair_codes = (first - least) * width
    pair_codes += second - low
    return np.argsort(pair_codes, kind="stable")


def stable_order(codes: Longs, size: int) -> Longs:
    """The stable ascending order of numbers below size, by 16 bits at a time, which numpy sorts by radix."""
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    for shift in range(16, size.bit_length(), 16):
        order = order[np.argsort((codes[order] >> shift).astype(np.uint16), kind="stable")]
    return order


def positions_of_pairs(pairs: tuple[Longs, Longs], among: tuple[Longs, Longs]) -> Longs:
    """int64[n]: the position of each of the ascending, distinct pairs in `among`, -1 where it is missing.

    The first column of `pairs` is non-negative and small: a table has an entry for each value up to the
    greatest. `among` are distinct pairs in any order.
    """
    (firsts, seconds), (other_firsts, other_seconds) = pairs, among
    positions = np.full(len(firsts), -1)
    if not len(firsts) or not len(other_firsts):
        return positions
    is_first = np.zeros(max(int(firsts[-1]), int(other_firsts.max())) + 1, np.bool_)
    is_first[firsts] = True
    candidates = np.flatnonzero(is_first[other_firsts])
    candidate_seconds = other_seconds[candidates]
    low, high = (int(bound(np.append(candidate_seconds, seconds))) for bound in (np.min, np.max))
    width = high - low + 1
    if (int(firsts[-1]) + 1) * width >= 1 << 62:  # such a pair does not fit one integer: ranks for values
        ranks = np.unique(np.append(candidate_seconds, seconds), return_inverse=True)[1]
        candidate_seconds, seconds = ranks[: len(candidates)], ranks[len(candidates) :]
        low, width = 0, len(ranks)
    pair_codes = firsts * width + (seconds - low)
    candidate_codes = other_firsts[candidates] * width + (candidate_seconds - low)
    at = np.minimum(np.searchsorted(pair_codes, candidate_codes), len(pair_codes) - 1)
    rows = np.flatnonzero(pair_codes[at] == candidate_codes)
    positions[at[rows]] = candidates[rows]
    return positions
