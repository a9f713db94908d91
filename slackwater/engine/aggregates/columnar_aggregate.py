"""The protocol of aggregates on whole columns.

The counterpart of `accumulator`, which is the protocol for one element at a time: both make the same parts
and results, to the bit.
"""

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups

Columns = list[pa.Array]
Parts = tuple[tuple[str, pa.DataType], ...]


class ColumnarAggregate(Protocol):
    """One aggregate of a pipeline, bound to the type of its column.

    Its accumulators stand in Arrow columns of its own choice, one row for each group, if possible without
    nulls: integers then travel in the fewest bytes that hold their range. Callers take and concatenate rows.

    Attributes:
        columns: names and types of the accumulator's columns.
    """

    columns: Parts

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        """The accumulator of the elements of each group. `rows` has the source's columns and, as int64,
        `__arrival_ms` and `__event_ms`.

        With every row a group of its own, this turns elements into accumulators. A group without rows gets
        the accumulator of no elements.
        """

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        """The accumulator of all elements in the accumulators of each group."""

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        """For each row the accumulator combined from it and the rows before it in its run. Run i begins at
        row starts[i], the first run at row 0.
        """

    def results(self, accumulators: Columns) -> pa.Array:
        """The result that a firing emits for each row, in the result's type.

        Raises:
            OverflowAtRow: a row has no result; the operator engine fails at the same firing.
        """

    def encode(self, accumulators: Columns) -> Columns:
        """The parts of each row in `window_state`, the same that `Accumulator.encode` makes."""

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        """The inverse of `encode`."""


class OverflowAtRow(Exception):
    """A row of accumulators has no result. `error` is the error that the operator engine raises for it; the
    columnar engine adds key and window.
    """

    def __init__(self, row: int, error: Exception) -> None:
        super().__init__(row, error)
        self.row = row
        self.error = error
