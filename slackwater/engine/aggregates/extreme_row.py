"""`min_by` and `max_by`: the value of a column where another one is least or greatest. Of rows that are equal
in the other column the value itself decides, so the result is a function of the pairs alone.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.bound_aggregate import Columns, Parts
from slackwater.engine.aggregates.extremum import plain_values
from slackwater.engine.aggregates.row_ranks import (
    best_rows,
    ordinal_keys,
    places_by,
    running_winners,
    take_rows,
    winners,
)
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups


class ExtremeRow:
    """Accumulator: the value and the value of the other column that it stands beside, both null where no row
    has both.
    """

    def __init__(self, value: tuple[str, pa.DataType], by: tuple[str, pa.DataType], *, is_max: bool) -> None:
        self.columns: Parts = (("value", value[1]), ("by", by[1]))
        self.parts: Parts = self.columns
        self.result_type = value[1]
        self._names = (value[0], by[0])
        self._is_max = is_max

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        columns = [
            plain_values(rows.column(name).combine_chunks().cast(kind))
            for name, (_, kind) in zip(self._names, self.columns, strict=True)
        ]
        return self.combine(columns, groups)

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        keys, rows = _ranks(accumulators)
        best = best_rows(keys, rows, groups, is_last=self._is_max)
        return take_rows(accumulators, winners(best, groups))

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        keys, rows = _ranks(accumulators)
        places = places_by([key[rows] for key in keys])
        best = running_winners(places, rows, starts, len(accumulators[0]), is_last=self._is_max)
        return take_rows(accumulators, best)

    def results(self, accumulators: Columns) -> pa.Array:
        return accumulators[0]

    def encode(self, accumulators: Columns) -> Columns:
        return accumulators

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return list(parts)


def _ranks(accumulators: Columns) -> tuple[list[Longs], Longs]:
    """(the keys of pairs, the other column first; the rows that have both)."""
    value, by = accumulators
    is_pair = np.asarray(value.is_valid()) & np.asarray(by.is_valid())
    return [*ordinal_keys(by), *ordinal_keys(value)], np.flatnonzero(is_pair)
