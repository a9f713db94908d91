"""The protocol of aggregates on whole columns; parts and results equal `accumulator`'s, to the bit."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa

from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups, Spans

Columns = list[pa.Array]
Parts = tuple[tuple[str, pa.DataType], ...]


class ColumnarAggregate(Protocol):
    """One aggregate of a pipeline. Its accumulators are rows of `columns`, if possible without nulls:
    integers then travel in the fewest bytes that hold their range.
    """

    columns: Parts

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        """The accumulator of the elements of each group, also of one without rows. `rows` has the source's
        columns and, as int64, `__arrival_ms` and `__event_ms`.
        """

    def combine(self, accumulators: Columns, groups: Groups) -> Columns: ...

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        """For each row the accumulator of its run up to and including it; run i begins at starts[i]."""

    def results(self, accumulators: Columns) -> pa.Array:
        """The result of each row. Raises OverflowAtRow where the operator engine's firing fails."""

    def encode(self, accumulators: Columns) -> Columns:
        """The parts of each row in `window_state`, the same that `Accumulator.encode` makes."""

    def decode(self, parts: Sequence[pa.Array]) -> Columns: ...


class OverflowAtRow(Exception):
    """A row has no result. `error` is what the operator engine raises; the engine adds key and window."""

    def __init__(self, row: int, error: Exception) -> None:
        super().__init__(row, error)
        self.row = row
        self.error = error


@runtime_checkable
class AdditiveAggregate(Protocol):
    """An aggregate whose accumulators add up, column by column, unless they are too large for that."""

    def adds_up(self, accumulators: Columns) -> bool: ...


def combine_spans(aggregate: ColumnarAggregate, accumulators: Columns, spans: Spans) -> Columns:
    """The accumulator of all elements of each span of rows; spans may overlap, as sliding windows do. By
    differences of running totals where accumulators add up, else by combining the rows.
    """
    if isinstance(aggregate, AdditiveAggregate) and aggregate.adds_up(accumulators):
        return [pa.array(spans.sum(column.to_numpy())) for column in accumulators]
    rows, owners = spans.explode()
    indices = pa.array(rows)
    return aggregate.combine([column.take(indices) for column in accumulators], owners)
