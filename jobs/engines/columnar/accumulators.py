"""Accumulators of a pipeline's aggregates as Arrow columns: what the kernels take, join and combine.

Which rows belong together is the kernels' business; how accumulators combine, the aggregates'.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.aggregates import ColumnarAggregate, Columns, combine_spans
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups
from slackwater.windowing.columnar.arrays.spans import Spans


@dataclass(frozen=True)
class AccumulatorColumns:
    """Accumulators of `size` windows, pieces or elements: see `slackwater.windowing.columnar.accumulators`.

    What is joined stays in its blocks until someone asks for whole columns: most of it is only sliced.

    Attributes:
        aggregates: the columnar forms of a pipeline's `select`, in its order.
        blocks: rows that stand side by side, none without rows but for the only one.
    """

    aggregates: tuple[ColumnarAggregate, ...]
    blocks: tuple["_Block", ...]

    @classmethod
    def of(
        cls, aggregates: tuple[ColumnarAggregate, ...], columns: Iterable[Columns], size: int
    ) -> "AccumulatorColumns":
        """The columns of each aggregate, `size` rows long."""
        return cls(aggregates, (_Block(tuple(columns), size),))

    @classmethod
    def of_elements(cls, aggregates: tuple[ColumnarAggregate, ...], rows: pa.Table) -> "AccumulatorColumns":
        """Of each of the source's rows the accumulator that it alone makes."""
        each = Groups.of_each(rows.num_rows)
        return cls.of(aggregates, (item.partial(rows, each) for item in aggregates), rows.num_rows)

    @property
    def size(self) -> int:
        """How many rows there are."""
        return sum(block.size for block in self.blocks)

    @cached_property
    def columns(self) -> tuple[Columns, ...]:
        """The columns of each aggregate, whole."""
        if len(self.blocks) == 1:
            return self.blocks[0].columns
        return tuple(
            [pa.concat_arrays(pieces) for pieces in zip(*of_one, strict=True)]
            for of_one in zip(*(block.columns for block in self.blocks), strict=True)
        )

    def take(self, rows: Longs | slice) -> "AccumulatorColumns":
        chosen = _as_slice(rows) if isinstance(rows, np.ndarray) else rows
        if isinstance(chosen, slice):
            first, beyond, _ = chosen.indices(self.size)
            return AccumulatorColumns(self.aggregates, self._sliced(first, max(first, beyond)))
        if len(self.blocks) > 1 and 2 * len(chosen) < self.size:
            return self._gathered(chosen)
        indices = pa.array(chosen)
        columns = ([column.take(indices) for column in columns] for columns in self.columns)
        return self.of(self.aggregates, columns, len(chosen))

    def join(self, others: "Sequence[AccumulatorColumns]") -> "AccumulatorColumns":
        blocks = [block for part in (self, *others) for block in part.blocks if block.size]
        return AccumulatorColumns(self.aggregates, tuple(blocks) or self.blocks[:1])

    def combine(self, groups: Groups) -> "AccumulatorColumns":
        columns = (item.combine(columns, groups) for item, columns in self._each())
        return self.of(self.aggregates, columns, groups.size)

    def combine_spans(self, spans: Spans) -> "AccumulatorColumns":
        columns = (combine_spans(item, columns, spans) for item, columns in self._each())
        return self.of(self.aggregates, columns, len(spans.firsts))

    def running(self, starts: Longs) -> "AccumulatorColumns":
        columns = (item.running(columns, starts) for item, columns in self._each())
        return self.of(self.aggregates, columns, self.size)

    def _each(self) -> "zip[tuple[ColumnarAggregate, Columns]]":
        return zip(self.aggregates, self.columns, strict=True)

    def _gathered(self, rows: Longs) -> "AccumulatorColumns":
        """As `take` of few rows: from each block its own, put in order afterwards; the blocks stay as they
        are.
        """
        ends = np.cumsum([block.size for block in self.blocks])
        owners = np.searchsorted(ends, rows, side="right")
        by_block = np.argsort(owners, kind="stable")
        counts = np.bincount(owners, minlength=len(ends))
        parts = [
            AccumulatorColumns(self.aggregates, (block,)).take(of_block - (end - block.size))
            for block, of_block, end in zip(
                self.blocks, np.split(rows[by_block], np.cumsum(counts)[:-1]), ends.tolist(), strict=True
            )
        ]
        places = np.empty(len(rows), np.int64)
        places[by_block] = np.arange(len(rows))
        few = parts[0].join(parts[1:])
        return self.of(self.aggregates, few.columns, few.size).take(places)

    def _sliced(self, first: int, beyond: int) -> tuple["_Block", ...]:
        """The rows from `first` to before `beyond`."""
        blocks, start = [], 0
        for block in self.blocks:
            blocks.append(block.rows(first - start, beyond - start))
            start += block.size
        return tuple(block for block in blocks if block.size) or (blocks[0],)


@dataclass(frozen=True)
class _Block:
    """The columns of each aggregate, `size` rows long."""

    columns: tuple[Columns, ...]
    size: int

    def rows(self, first: int, beyond: int) -> "_Block":
        """The rows from `first` to before `beyond`, as far as there are any; nothing is copied."""
        first, beyond = (min(max(bound, 0), self.size) for bound in (first, beyond))
        if beyond - first == self.size:
            return self
        columns = tuple([column[first:beyond] for column in columns] for columns in self.columns)
        return _Block(columns, beyond - first)


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
