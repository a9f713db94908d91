"""`mode` and `top`: the most frequent values, of equally frequent ones the least first."""

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.bound_aggregate import Columns, build_lists, null_if_empty
from slackwater.engine.aggregates.value_lists import ValueLists
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import run_numbers, run_starts


class Top(ValueLists):
    """The `limit` most frequent values with their counts, as a list of structs."""

    has_counts = True

    def __init__(self, column: str, kind: pa.DataType, limit: int) -> None:
        super().__init__(column, kind)
        self._item = pa.struct([pa.field("value", kind), pa.field("count", pa.int64())])
        self.result_type = pa.list_(self._item)
        self._limit = limit

    def results(self, accumulators: Columns) -> pa.Array:
        rows, values, counts = self._items(accumulators)
        items = _most_frequent(rows, counts, self._limit)
        fields = [values.take(pa.array(items)), pa.array(counts[items])]
        structs = pa.StructArray.from_arrays(fields, fields=list(self._item))
        return null_if_empty(build_lists(rows[items], structs, len(accumulators[0])))


class Mode(ValueLists):
    has_counts = True

    def __init__(self, column: str, kind: pa.DataType) -> None:
        super().__init__(column, kind)
        self.result_type = kind

    def results(self, accumulators: Columns) -> pa.Array:
        rows, values, counts = self._items(accumulators)
        items = _most_frequent(rows, counts, 1)
        item_of_row = np.full(len(accumulators[0]), -1, np.int64)
        item_of_row[rows[items]] = items
        return values.take(pa.array(item_of_row, mask=item_of_row < 0))


def _most_frequent(rows: Longs, counts: Longs, limit: int) -> Longs:
    """The positions of the `limit` greatest counts of each row, in their order; of equal ones the first."""
    order = np.lexsort((-counts, rows))  # stable
    starts = run_starts(rows)
    return order[np.arange(len(rows)) - starts[run_numbers(starts, len(rows))] < limit]
