"""What an aggregate must do on whole columns.

The counterpart of `slackwater.jobs.engines.aggregates`, which says the same of one element: both give the
same parts and results, to the bit.
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

    Accumulators stand in Arrow columns of the aggregate's own choice, one row a group, without nulls where
    they can be helped: integers travel narrowed to their range. Rows can be taken and concatenated by anyone.

    Attributes:
        columns: names and types of the accumulator's columns.
    """

    columns: Parts

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        """Accumulators of the elements of each group. `rows` has the source's columns and, as int64,
        `__arrival_ms` and `__event_ms`.

        With every row a group of its own, this turns elements into accumulators. A group may be without rows
        here: its accumulator is that of no elements.
        """

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        """The accumulator of all elements in the accumulators of each group."""

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        """As `combine` of each row with the rows before it in its run; run i begins at row starts[i], the
        first at row 0.
        """

    def results(self, accumulators: Columns) -> pa.Array:
        """What a firing emits for each row, in the result's type.

        Raises:
            OverflowAtRow: a row has no result; a firing of the operator engine fails alike.
        """

    def encode(self, accumulators: Columns) -> Columns:
        """The parts in `window_state`, as the aggregate's `Accumulator.encode` gives them."""

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        """The inverse of `encode`."""


class OverflowAtRow(Exception):
    """A row of accumulators has no result. `error` is what the operator engine raises for it; the engine adds
    key and window.
    """

    def __init__(self, row: int, error: Exception) -> None:
        super().__init__(row, error)
        self.row = row
        self.error = error
