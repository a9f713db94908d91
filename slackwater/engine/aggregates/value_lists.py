"""The base of aggregates over the different values of a window: `count_distinct`, `sum_distinct`,
`collect_set`, and with the number of occurrences of each value `mode`, `top`, `median` and `quantile`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.bound_aggregate import Columns, Parts, build_lists, flatten_lists
from slackwater.engine.aggregates.extremum import ValuesOfOrdinals, as_ordinals
from slackwater.windowing.columnar.arrays import maps
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups
from slackwater.windowing.columnar.arrays.maps import Entries, Fold


class ValueLists(ABC):
    """Accumulator: the different values, ascending, without nulls, in lists; with `has_counts` also how often
    each occurs, in lists of equal lengths. Subclasses say what results from them.
    """

    has_counts: bool
    result_type: pa.DataType

    def __init__(self, column: str, kind: pa.DataType) -> None:
        values: Parts = (("values", pa.list_(kind)),)
        self.columns: Parts = (*values, ("counts", pa.list_(pa.int64()))) if self.has_counts else values
        self.parts: Parts = self.columns
        self._column = column
        self._kind = kind

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        column = rows.column(self._column).combine_chunks().cast(self._kind)
        codes = groups.codes[np.asarray(column.is_valid())]
        return self._fold(codes, column.drop_null(), np.ones(len(codes), np.int64), groups.size)

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        rows, values, counts = self._items(accumulators)
        return self._fold(groups.codes[rows], values, counts, groups.size)

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        rows, values, counts = self._items(accumulators)
        ordinals, _, values_of = as_ordinals(values)
        size = len(accumulators[0])
        entries = maps.fold_entries(rows, ordinals, counts, Fold.SUM)
        return self._lists(maps.fold_runs(entries, starts, size, Fold.SUM), values_of, size)

    @abstractmethod
    def results(self, accumulators: Columns) -> pa.Array: ...

    def encode(self, accumulators: Columns) -> Columns:
        return accumulators

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return list(parts)

    def _items(self, accumulators: Columns) -> tuple[Longs, pa.Array, Longs]:
        """(row, value, count) of each item of the lists."""
        rows, values = flatten_lists(accumulators[0])
        if not self.has_counts:
            return rows, values, np.ones(len(rows), np.int64)
        return rows, values, accumulators[1].flatten().to_numpy()

    def _fold(self, codes: Longs, values: pa.Array, counts: Longs, size: int) -> Columns:
        ordinals, _, values_of = as_ordinals(values)
        return self._lists(maps.fold_entries(codes, ordinals, counts, Fold.SUM), values_of, size)

    def _lists(self, entries: Entries, values_of: ValuesOfOrdinals, size: int) -> Columns:
        values = values_of(entries.keys, np.ones(len(entries.keys), np.bool_))
        lists = [build_lists(entries.rows, values, size)]
        return (
            [*lists, build_lists(entries.rows, pa.array(entries.values), size)] if self.has_counts else lists
        )
