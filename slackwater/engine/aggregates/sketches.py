"""The base of both sketches: for each window a map from small integers (registers or buckets) to
integers."""

from abc import ABC, abstractmethod

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.bound_aggregate import Columns, Parts, build_lists, flatten_lists
from slackwater.windowing.columnar.arrays import maps
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups
from slackwater.windowing.columnar.arrays.maps import Entries, Fold

BUCKET = pa.struct([pa.field("bucket", pa.int32()), pa.field("count", pa.int64())])


class SparseMaps(ABC):
    """Accumulator: one list of (key, value) for each row, by ascending key. Subclasses make both of column
    values, and choose how values of one key fold.
    """

    columns: Parts = (("entries", pa.list_(BUCKET)),)
    fold: Fold

    def __init__(self, column: str) -> None:
        self._column = column

    @abstractmethod
    def _entries_of(self, values: pa.Array) -> tuple[Longs, Longs]: ...

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        column = rows.column(self._column).combine_chunks()
        valid_rows = np.flatnonzero(np.asarray(column.is_valid()))
        keys, values = self._entries_of(column.drop_null())
        return columns_of(maps.fold_entries(groups.codes[valid_rows], keys, values, self.fold), groups.size)

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        entries = entries_of(accumulators[0])
        return columns_of(
            maps.fold_entries(groups.codes[entries.rows], entries.keys, entries.values, self.fold),
            groups.size,
        )

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        rows = len(accumulators[0])
        return columns_of(maps.fold_runs(entries_of(accumulators[0]), starts, rows, self.fold), rows)


def entries_of(column: pa.Array) -> Entries:
    rows, items = flatten_lists(column)
    return Entries(rows, items.field(0).to_numpy().astype(np.int64), items.field(1).to_numpy())


def columns_of(entries: Entries, size: int) -> Columns:
    fields = [pa.array(entries.keys.astype(np.int32)), pa.array(entries.values)]
    return [build_lists(entries.rows, pa.StructArray.from_arrays(fields, fields=list(BUCKET)), size)]
