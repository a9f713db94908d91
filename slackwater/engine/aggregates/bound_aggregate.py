"""The protocol of an aggregate that is bound to a column: it accumulates whole columns. Accumulating is
commutative and associative, so order and tasks never change a part or a result.
"""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups, Spans

Columns = list[pa.Array]
Parts = tuple[tuple[str, pa.DataType], ...]


class ResultOverflow(ArithmeticError):
    """A sum left the range of its result type."""


class BoundAggregate(Protocol):
    """One aggregate of a pipeline, bound to the type of its column. Its accumulators are rows of `columns`,
    if possible without nulls: integers then travel in the fewest bytes that hold their range.

    Attributes:
        columns: (name, type) of the columns of accumulators, in memory and between tasks.
        parts: (suffix, type) of the columns `<result>__<suffix>` of `window_state` that hold them.
        result_type: of its results, where null is SQL's null.
    """

    columns: Parts
    parts: Parts
    result_type: pa.DataType

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        """The accumulator of the elements of each group, also of one without rows. `rows` has the source's
        columns and, as int64, `__arrival_ms` and `__event_ms`.
        """

    def combine(self, accumulators: Columns, groups: Groups) -> Columns: ...

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        """For each row the accumulator of its run up to and including it; run i begins at starts[i]."""

    def results(self, accumulators: Columns) -> pa.Array:
        """The result of each row. Raises OverflowAtRow for the first row without one."""

    def encode(self, accumulators: Columns) -> Columns:
        """The `parts` of each row, canonical: equal multisets of values give equal parts."""

    def decode(self, parts: Sequence[pa.Array]) -> Columns: ...


class OverflowAtRow(Exception):
    """A row has no result; the engine raises `error` with the row's key and window."""

    def __init__(self, row: int, error: Exception) -> None:
        super().__init__(row, error)
        self.row = row
        self.error = error


@runtime_checkable
class AdditiveAggregate(Protocol):
    """An aggregate whose accumulators add up, column by column, unless they are too large for that."""

    def adds_up(self, accumulators: Columns) -> bool: ...


def combine_spans(aggregate: BoundAggregate, accumulators: Columns, spans: Spans) -> Columns:
    """The accumulator of all elements of each span of rows; spans may overlap, as sliding windows do. By
    differences of running totals where accumulators add up, else by combining the rows.
    """
    if isinstance(aggregate, AdditiveAggregate) and aggregate.adds_up(accumulators):
        return [pa.array(spans.sum(column.to_numpy())) for column in accumulators]
    rows, owners = spans.explode()
    indices = pa.array(rows)
    return aggregate.combine([column.take(indices) for column in accumulators], owners)


def flatten_lists(lists: pa.Array) -> tuple[Longs, Any]:
    """(row of each item, the items). Null lists are empty."""
    lengths = lists.value_lengths().fill_null(0).to_numpy().astype(np.int64)
    return np.repeat(np.arange(len(lists)), lengths), lists.flatten()


def build_lists(rows: Longs, items: pa.Array, size: int) -> pa.Array:
    """One list for each of `size` rows, of the items that have its row number; `rows` ascend."""
    offsets = np.zeros(size + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=size), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), items)


def null_if_empty(lists: pa.Array) -> pa.Array:
    """The same lists, null in place of lists of nothing, as SQL aggregates of no values are."""
    return pc.if_else(pc.greater(lists.value_lengths(), 0), lists, pa.scalar(None, lists.type))
