"""The rows that are first or last by several keys, in each group and along runs. Keys are columns of
integers, the most significant first.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.bound_aggregate import Columns
from slackwater.engine.aggregates.extremum import as_ordinals
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import (
    Groups,
    greatest_of_groups,
    least_of_groups,
    run_numbers,
    run_starts,
)


def ordinal_keys(values: pa.Array) -> list[Longs]:
    """The keys of a column: nulls first, NaN last."""
    ordinals, is_valid, _ = as_ordinals(values)
    return [is_valid.astype(np.int64), np.where(is_valid, ordinals, 0)]


def best_rows(keys: Iterable[Longs], rows: Longs, groups: Groups, *, is_last: bool) -> Longs:
    """The first or last of `rows` in each group; equal rows stay."""
    best_of = greatest_of_groups if is_last else least_of_groups
    for key in keys:
        values, codes = key[rows], groups.codes[rows]
        rows = rows[values == best_of(values, Groups(codes, groups.size))[codes]]
    return rows


def winners(rows: Longs, groups: Groups) -> Longs:
    """The row of each group among the best ones; -1 for a group without any."""
    row_of_group = np.full(groups.size, -1, np.int64)
    row_of_group[groups.codes[rows]] = rows
    return row_of_group


def running_winners(places: Longs, rows: Longs, starts: Longs, size: int, *, is_last: bool) -> Longs:
    """For each of `size` rows the first or last row of its run so far, -1 for none. Only `rows` count, whose
    places in the order are `places`; run i begins at starts[i].
    """
    count = len(rows) + 1
    ranks = np.zeros(size, np.int64)  # 0: no row yet
    ranks[rows] = places + 1 if is_last else count - 1 - places
    floors = run_numbers(starts, size) * count
    best = np.maximum.accumulate(ranks + floors) - floors if size else ranks
    row_of_rank = np.full(count, -1, np.int64)
    row_of_rank[ranks[rows]] = rows
    return row_of_rank[best]


def places_by(keys: Sequence[Longs]) -> Longs:
    """Each row's place in the order of `keys`; equal rows have one place."""
    order = np.lexsort(tuple(reversed(keys)))
    starts = run_starts(*(key[order] for key in keys))
    places = np.empty(len(order), np.int64)
    places[order] = run_numbers(starts, len(order))
    return places


def take_rows(columns: Columns, rows: Longs) -> Columns:
    """The rows of columns, null for -1."""
    indices = pa.array(rows, mask=rows < 0)
    return [column.take(indices) for column in columns]
