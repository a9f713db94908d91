"""Accumulators of a pipeline's aggregates as Arrow columns: what the kernels take, join and combine.

Which rows belong together is the kernels' business; how accumulators combine, the aggregates'.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.aggregates import ColumnarAggregate, Columns, combine_spans
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups
from slackwater.windowing.columnar.arrays.spans import Spans


@dataclass(frozen=True)
class AccumulatorColumns:
    """Accumulators of `size` windows, pieces or elements: see `slackwater.windowing.columnar.accumulators`.

    Attributes:
        aggregates: the columnar forms of a pipeline's `select`, in its order.
        columns: the columns of each of them, `size` rows long.
    """

    aggregates: tuple[ColumnarAggregate, ...]
    columns: tuple[Columns, ...]
    size: int

    @classmethod
    def of_elements(cls, aggregates: tuple[ColumnarAggregate, ...], rows: pa.Table) -> "AccumulatorColumns":
        """Of each of the source's rows the accumulator that it alone makes."""
        each = Groups.of_each(rows.num_rows)
        return cls(aggregates, tuple(item.partial(rows, each) for item in aggregates), rows.num_rows)

    def take(self, rows: Longs | slice) -> "AccumulatorColumns":
        chosen = _as_slice(rows) if isinstance(rows, np.ndarray) else rows
        if isinstance(chosen, slice):
            size = len(range(*chosen.indices(self.size)))
            columns = tuple([column[chosen] for column in columns] for columns in self.columns)
            return AccumulatorColumns(self.aggregates, columns, size)
        indices = pa.array(chosen)
        columns_taken = tuple([column.take(indices) for column in columns] for columns in self.columns)
        return AccumulatorColumns(self.aggregates, columns_taken, len(chosen))

    def join(self, others: "Sequence[AccumulatorColumns]") -> "AccumulatorColumns":
        """Without a copy where one of them has all rows."""
        full = [part for part in (self, *others) if part.size] or [self]
        if len(full) == 1:
            return full[0]
        columns = tuple(
            [pa.concat_arrays(pieces) for pieces in zip(*of_one, strict=True)]
            for of_one in zip(*(part.columns for part in full), strict=True)
        )
        return AccumulatorColumns(self.aggregates, columns, sum(part.size for part in full))

    def combine(self, groups: Groups) -> "AccumulatorColumns":
        columns = tuple(item.combine(columns, groups) for item, columns in self._each())
        return AccumulatorColumns(self.aggregates, columns, groups.size)

    def combine_spans(self, spans: Spans) -> "AccumulatorColumns":
        columns = tuple(combine_spans(item, columns, spans) for item, columns in self._each())
        return AccumulatorColumns(self.aggregates, columns, len(spans.firsts))

    def running(self, starts: Longs) -> "AccumulatorColumns":
        columns = tuple(item.running(columns, starts) for item, columns in self._each())
        return AccumulatorColumns(self.aggregates, columns, self.size)

    def _each(self) -> "zip[tuple[ColumnarAggregate, Columns]]":
        return zip(self.aggregates, self.columns, strict=True)


def _as_slice(rows: Longs) -> Longs | slice:
    """Positions that stand side by side, as a slice, by which nothing needs to be copied; others as they
    are.
    """
    if not len(rows):
        return slice(0, 0)
    first, last = int(rows[0]), int(rows[-1])
    if first >= 0 and last - first == len(rows) - 1 and bool(np.all(rows[1:] - rows[:-1] == 1)):
        return slice(first, last + 1)
    return rows
