"""`collect_list` and `string_agg`: the values of a window in the order of their rows."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.aggregates.bound_aggregate import (
    Columns,
    Parts,
    build_lists,
    flatten_lists,
    null_if_empty,
)
from slackwater.engine.aggregates.ranked_rows import RankedRows, hash_keys
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups, Spans, run_numbers, run_starts


class CollectList:
    """The values as a list. Accumulator: the columns of `ranked_rows` as a list of structs for each row, in
    order; no more than the first `limit`.
    """

    def __init__(self, ranked_rows: RankedRows, limit: int | None) -> None:
        self.ranked_rows = ranked_rows
        self._item = pa.struct([pa.field(name, kind) for name, kind in ranked_rows.columns])
        self.columns: Parts = (("rows", pa.list_(self._item)),)
        self.parts: Parts = self.columns
        self.result_type: pa.DataType = pa.list_(ranked_rows.kind)
        self._limit = limit

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        valid_rows = np.flatnonzero(np.asarray(rows.column(self.ranked_rows.column).is_valid()))
        items = self._items_of(self.ranked_rows.read(rows.take(pa.array(valid_rows))))
        return self._lists(groups.codes[valid_rows], items, groups.size)

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        rows, items = flatten_lists(accumulators[0])
        return self._lists(groups.codes[rows], items, groups.size)

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        size = len(accumulators[0])
        rows = np.arange(size)
        lists, owners = Spans(starts[run_numbers(starts, size)], rows + 1).explode()
        return self.combine([accumulators[0].take(pa.array(lists))], owners)

    def results(self, accumulators: Columns) -> pa.Array:
        rows, items = flatten_lists(accumulators[0])
        return null_if_empty(build_lists(rows, items.field(0), len(accumulators[0])))

    def encode(self, accumulators: Columns) -> Columns:
        return accumulators

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return list(parts)

    def of_single_rows(self, columns: Columns) -> Columns:
        return [build_lists(np.arange(len(columns[0])), self._items_of(columns), len(columns[0]))]

    def _items_of(self, columns: Columns) -> pa.Array:
        return pa.StructArray.from_arrays(columns, fields=list(self._item))

    def _lists(self, codes: Longs, items: pa.Array, size: int) -> Columns:
        columns = items.flatten()
        keys = [codes, *self.ranked_rows.keys_of(columns), *hash_keys(columns[-1])]
        order = np.lexsort(tuple(reversed(keys)))
        codes = codes[order]
        if self._limit is not None:
            starts = run_starts(codes)
            is_within = np.arange(len(codes)) - starts[run_numbers(starts, len(codes))] < self._limit
            order, codes = order[is_within], codes[is_within]
        return [build_lists(codes, items.take(pa.array(order)), size)]


class StringAgg(CollectList):
    """The values of a text column, one after the other, with `separator` between them."""

    def __init__(self, ranked_rows: RankedRows, separator: str) -> None:
        super().__init__(ranked_rows, limit=None)
        self.result_type = pa.string()
        self._separator = separator

    def results(self, accumulators: Columns) -> pa.Array:
        return pc.binary_join(super().results(accumulators), self._separator)
