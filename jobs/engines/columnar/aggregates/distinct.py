"""Exact distinct counts on whole columns: each accumulator the list of its values, in order, as it is parked."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.columnar.aggregates.lists import flattened, listed
from slackwater.jobs.engines.columnar.aggregates.ordinals import as_ordinals
from slackwater.jobs.engines.columnar.aggregates.protocol import Columns, Parts
from slackwater.windowing.columnar import maps
from slackwater.windowing.columnar.columns import Longs
from slackwater.windowing.columnar.groups import Groups


class ColumnarCountDistinct:
    """Accumulator: the different values, ascending."""

    def __init__(self, column: str, kind: pa.DataType) -> None:
        self.columns: Parts = (("values", pa.list_(kind)),)
        self._column = column
        self._kind = kind

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        return self._listed(
            groups.codes, rows.column(self._column).combine_chunks().cast(self._kind), groups.size
        )

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        rows, values = flattened(accumulators[0])
        return self._listed(groups.codes[rows], values, groups.size)

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        rows, values = flattened(accumulators[0])
        numbers, _, values_of = as_ordinals(values)
        entries = maps.folded(rows, numbers, np.zeros(len(rows), np.int64), maps.Fold.MAX)
        entries = maps.running(entries, starts, len(accumulators[0]), maps.Fold.MAX)
        return [
            listed(
                entries.rows,
                values_of(entries.keys, np.ones(len(entries.keys), np.bool_)),
                len(accumulators[0]),
            )
        ]

    def _listed(self, codes: Longs, values: pa.Array, size: int) -> Columns:
        numbers, is_valid, values_of = as_ordinals(values)
        kept = np.flatnonzero(is_valid)
        entries = maps.folded(codes[kept], numbers[kept], np.zeros(len(kept), np.int64), maps.Fold.MAX)
        return [listed(entries.rows, values_of(entries.keys, np.ones(len(entries.keys), np.bool_)), size)]

    def results(self, accumulators: Columns) -> pa.Array:
        return accumulators[0].value_lengths().cast(pa.int64())

    def encode(self, accumulators: Columns) -> Columns:
        return accumulators

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return [parts[0]]
