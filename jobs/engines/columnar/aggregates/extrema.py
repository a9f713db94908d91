"""Smallest and greatest values on whole columns: as integers in the values' order, whatever their type.

NaN is greater than every number, -0.0 is 0.0; text is ordered by code points.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.columnar.aggregates.ordinals import as_ordinals
from slackwater.jobs.engines.columnar.aggregates.protocol import Columns, Parts
from slackwater.windowing.columnar.columns import Longs
from slackwater.windowing.columnar.groups import Groups, greatest_of_groups, least_of_groups, run_numbers

_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class ColumnarExtremum:
    """Smallest or greatest value of a column; null for none. Accumulator: the value."""

    def __init__(self, column: str, is_least: bool, kind: pa.DataType) -> None:
        self.columns: Parts = (("value", kind),)
        self._column = column
        self._is_least = is_least
        self._kind = kind

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        column = rows.column(self._column)
        return self.combine([column.combine_chunks().cast(self._kind)], groups)

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        ordinals, is_valid, values_of = as_ordinals(accumulators[0])
        if not is_valid.all():
            ordinals, groups = ordinals[is_valid], Groups(groups.codes[is_valid], groups.size)
        found = np.zeros(groups.size, np.bool_)
        found[groups.codes] = True
        best = least_of_groups(ordinals, groups) if self._is_least else greatest_of_groups(ordinals, groups)
        return [values_of(best, found)]

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        ordinals, is_valid, values_of = as_ordinals(accumulators[0])
        rows = len(ordinals)
        # Ranks fit with the number of the run into one integer, so that one running maximum serves all runs.
        distinct, ranks = np.unique(ordinals, return_inverse=True)
        if self._is_least:
            ranks = len(distinct) - 1 - ranks
        ranks = np.where(is_valid, ranks + 1, 0)
        floors = run_numbers(starts, rows) * (len(distinct) + 1)
        best = np.maximum.accumulate(ranks + floors) - floors if rows else ranks
        places = np.maximum(best - 1, 0)
        if self._is_least:
            places = len(distinct) - 1 - places
        return [values_of(distinct[places] if rows else ordinals, best > 0)]

    def results(self, accumulators: Columns) -> pa.Array:
        return accumulators[0]

    def encode(self, accumulators: Columns) -> Columns:
        return accumulators

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return [parts[0]]
