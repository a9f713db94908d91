"""`first` and `last`: the value of the row that is first or last by event time or by arrival.

Whole columns are compared, the most significant first, and the best rows of each group are kept. Only these
are hashed: usually one row in each group, more where times and order column are equal.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.bound_aggregate import Columns
from slackwater.engine.aggregates.ranked_rows import RankedRows, hash_keys
from slackwater.engine.aggregates.row_ranks import (
    best_rows,
    places_by,
    running_winners,
    take_rows,
    winners,
)
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups


class FirstOrLast:
    """The value of the row with the least or greatest rank. Accumulator: the columns of `ranked_rows`; all of
    them null where there is no row.
    """

    def __init__(self, ranked_rows: RankedRows, *, is_last: bool) -> None:
        self.ranked_rows = ranked_rows
        self.columns = ranked_rows.columns
        self.parts = self.columns
        self.result_type = ranked_rows.kind
        self._is_last = is_last

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        # Only the best rows of each group by times and order column remain; if these are several, `combine`
        # decides by their hashes.
        valid_rows = np.flatnonzero(np.asarray(rows.column(self.ranked_rows.column).is_valid()))
        keys = self.ranked_rows.keys_before_hash(rows)
        remaining_rows = best_rows(keys, valid_rows, groups, is_last=self._is_last)
        return self.combine(
            self.ranked_rows.read(rows.take(pa.array(remaining_rows))),
            Groups(groups.codes[remaining_rows], groups.size),
        )

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        keys = self.ranked_rows.keys_of(accumulators)
        rows = best_rows(keys, _valid_rows(accumulators), groups, is_last=self._is_last)
        if int(np.bincount(groups.codes[rows], minlength=1).max()) > 1:
            best_groups = Groups(groups.codes[rows], groups.size)
            words = hash_keys(accumulators[-1].take(pa.array(rows)))
            rows = rows[best_rows(words, np.arange(len(rows)), best_groups, is_last=self._is_last)]
        return take_rows(accumulators, winners(rows, groups))

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        rows = _valid_rows(accumulators)
        columns = take_rows(accumulators, rows)
        places = places_by([*self.ranked_rows.keys_of(columns), *hash_keys(columns[-1])])
        best = running_winners(places, rows, starts, len(accumulators[0]), is_last=self._is_last)
        return take_rows(accumulators, best)

    def results(self, accumulators: Columns) -> pa.Array:
        return accumulators[0]

    def encode(self, accumulators: Columns) -> Columns:
        return accumulators

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return list(parts)

    def of_single_rows(self, columns: Columns) -> Columns:
        return columns


def _valid_rows(accumulators: Columns) -> Longs:
    return np.flatnonzero(np.asarray(accumulators[-1].is_valid()))
