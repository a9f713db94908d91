"""`count_distinct`: the exact number of different values, kept in open windows, parked as sorted lists."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.bound_aggregate import Columns, Parts, build_lists, flatten_lists
from slackwater.engine.aggregates.extremum import as_ordinals
from slackwater.windowing.columnar.arrays import maps
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups


class CountDistinct:
    """Accumulator: the different values, ascending, without nulls."""

    result_type = pa.int64()

    def __init__(self, column: str, kind: pa.DataType) -> None:
        self.columns: Parts = (("values", pa.list_(kind)),)
        self.parts: Parts = self.columns
        self._column = column
        self._kind = kind

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        return self._value_lists(
            groups.codes, rows.column(self._column).combine_chunks().cast(self._kind), groups.size
        )

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        rows, values = flatten_lists(accumulators[0])
        return self._value_lists(groups.codes[rows], values, groups.size)

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        rows, values = flatten_lists(accumulators[0])
        numbers, _, values_of = as_ordinals(values)
        entries = maps.fold_entries(rows, numbers, np.zeros(len(rows), np.int64), maps.Fold.MAX)
        entries = maps.fold_runs(entries, starts, len(accumulators[0]), maps.Fold.MAX)
        return [
            build_lists(
                entries.rows,
                values_of(entries.keys, np.ones(len(entries.keys), np.bool_)),
                len(accumulators[0]),
            )
        ]

    def _value_lists(self, codes: Longs, values: pa.Array, size: int) -> Columns:
        numbers, is_valid, values_of = as_ordinals(values)
        valid_rows = np.flatnonzero(is_valid)
        entries = maps.fold_entries(
            codes[valid_rows], numbers[valid_rows], np.zeros(len(valid_rows), np.int64), maps.Fold.MAX
        )
        return [
            build_lists(entries.rows, values_of(entries.keys, np.ones(len(entries.keys), np.bool_)), size)
        ]

    def results(self, accumulators: Columns) -> pa.Array:
        return accumulators[0].value_lengths().cast(pa.int64())

    def encode(self, accumulators: Columns) -> Columns:
        return accumulators

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return [parts[0]]
