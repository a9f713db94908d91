"""`count_distinct`, `sum_distinct` and `collect_set`: the different values, kept in open windows, parked as
sorted lists.
"""

import pyarrow as pa

from slackwater.engine.aggregates.bound_aggregate import BoundAggregate, Columns, flatten_lists, null_if_empty
from slackwater.engine.aggregates.value_lists import ValueLists
from slackwater.windowing.columnar.arrays.groups import Groups


class CountDistinct(ValueLists):
    has_counts = False
    result_type = pa.int64()

    def results(self, accumulators: Columns) -> pa.Array:
        return accumulators[0].value_lengths().cast(pa.int64())


class SumDistinct(ValueLists):
    """`sum` adds a column of the same name and type."""

    has_counts = False

    def __init__(self, column: str, kind: pa.DataType, sum_of_values: BoundAggregate) -> None:
        super().__init__(column, kind)
        self._sum = sum_of_values
        self.result_type = sum_of_values.result_type

    def results(self, accumulators: Columns) -> pa.Array:
        rows, values = flatten_lists(accumulators[0])
        groups = Groups(rows, len(accumulators[0]))
        return self._sum.results(self._sum.partial(pa.table({self._column: values}), groups))


class CollectSet(ValueLists):
    has_counts = False

    def __init__(self, column: str, kind: pa.DataType) -> None:
        super().__init__(column, kind)
        self.result_type = pa.list_(kind)

    def results(self, accumulators: Columns) -> pa.Array:
        return null_if_empty(accumulators[0])
