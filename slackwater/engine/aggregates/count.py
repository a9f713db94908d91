"""`count`: the number of elements in a window, or of those whose column is not null."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.bound_aggregate import Columns, Parts
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups, sum_of_groups


def count_values(column: pa.ChunkedArray, groups: Groups) -> Longs:
    """How many values of each group are not null."""
    if not column.null_count:
        return groups.counts
    return np.bincount(groups.codes[np.asarray(column.is_valid())], minlength=groups.size)


def running_sum(values: Longs, starts: Longs) -> Longs:
    """Running sums inside each run; exact as long as they fit 64 bits."""
    if not len(values):
        return values
    totals = np.cumsum(values)
    before = np.zeros(len(starts), np.int64)
    before[1:] = totals[starts[1:] - 1]
    running: Longs = totals - np.repeat(before, np.diff(np.append(starts, len(values))))
    return running


class Count:
    columns: Parts = (("count", pa.int64()),)
    parts = columns
    result_type = pa.int64()

    def __init__(self, column: str | None) -> None:
        self._column = column

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        if self._column is None:
            return [pa.array(groups.counts)]
        return [pa.array(count_values(rows.column(self._column), groups))]

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        return [pa.array(sum_of_groups(accumulators[0].to_numpy(), groups))]

    def adds_up(self, accumulators: Columns) -> bool:
        return True

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        return [pa.array(running_sum(accumulators[0].to_numpy(), starts))]

    def results(self, accumulators: Columns) -> pa.Array:
        return accumulators[0]

    def encode(self, accumulators: Columns) -> Columns:
        return accumulators

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return list(parts)
