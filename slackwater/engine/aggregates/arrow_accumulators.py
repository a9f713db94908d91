"""Accumulators of a pipeline as Arrow columns: the engine's implementation of the kernels' `Accumulators`,
and the accumulators of lists of elements.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.bound_aggregate import (
    BoundAggregate,
    Columns,
    OverflowAtRow,
    combine_spans,
)
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups, Spans
from slackwater.windowing.columnar.arrays.orders import distinct_values
from slackwater.windowing.columnar.contents import combine_lists
from slackwater.windowing.columnar.element_lists import ElementLists

NUMBERS_AT_ONCE: Final = 1 << 17
_SPARSE: Final = 16  # times as many numbers in a range: they are sorted rather than marked in it


@dataclass(frozen=True)
class ArrowAccumulators:
    """One accumulator of each aggregate for each of `size` windows, pieces or elements. Joining keeps blocks
    of rows apart without a copy, until `columns` is read. No block is empty, unless it is the only one.
    """

    aggregates: tuple[BoundAggregate, ...]
    blocks: tuple["_Block", ...]

    @classmethod
    def of(
        cls, aggregates: tuple[BoundAggregate, ...], columns: Iterable[Columns], size: int
    ) -> "ArrowAccumulators":
        return cls(aggregates, (_Block(tuple(columns), size),))

    @classmethod
    def from_elements(cls, aggregates: tuple[BoundAggregate, ...], rows: pa.Table) -> "ArrowAccumulators":
        each = Groups.singletons(rows.num_rows)
        return cls.of(aggregates, (item.partial(rows, each) for item in aggregates), rows.num_rows)

    @classmethod
    def from_rows(
        cls, aggregates: tuple[BoundAggregate, ...], rows: pa.Table, positions: Longs
    ) -> "ArrowAccumulators":
        """Of the elements at `positions`, which ascend."""
        chosen = _as_slice(positions)
        if isinstance(chosen, slice):
            return cls.from_elements(aggregates, rows.slice(chosen.start, len(positions)))
        return cls.from_elements(aggregates, rows.take(pa.array(positions)))

    @property
    def size(self) -> int:
        return sum(block.size for block in self.blocks)

    @cached_property
    def columns(self) -> tuple[Columns, ...]:
        if len(self.blocks) == 1:
            return self.blocks[0].columns
        return tuple(
            [pa.concat_arrays(pieces) for pieces in zip(*columns_of_one, strict=True)]
            for columns_of_one in zip(*(block.columns for block in self.blocks), strict=True)
        )

    def take(self, rows: Longs | slice) -> "ArrowAccumulators":
        chosen = _as_slice(rows) if isinstance(rows, np.ndarray) else rows
        if isinstance(chosen, slice):
            first, beyond, _ = chosen.indices(self.size)
            return ArrowAccumulators(self.aggregates, self._blocks_between(first, max(first, beyond)))
        if len(self.blocks) > 1 and 2 * len(chosen) < self.size:
            return self._take_by_block(chosen)
        indices = pa.array(chosen)
        columns = ([column.take(indices) for column in columns] for columns in self.columns)
        return self.of(self.aggregates, columns, len(chosen))

    def join(self, others: "Sequence[ArrowAccumulators]") -> "ArrowAccumulators":
        blocks = [block for part in (self, *others) for block in part.blocks if block.size]
        return ArrowAccumulators(self.aggregates, tuple(blocks) or self.blocks[:1])

    def combine(self, groups: Groups) -> "ArrowAccumulators":
        columns = (item.combine(columns, groups) for item, columns in self._each())
        return self.of(self.aggregates, columns, groups.size)

    def combine_spans(self, spans: Spans) -> "ArrowAccumulators":
        columns = (combine_spans(item, columns, spans) for item, columns in self._each())
        return self.of(self.aggregates, columns, len(spans.firsts))

    def running(self, starts: Longs) -> "ArrowAccumulators":
        columns = (item.running(columns, starts) for item, columns in self._each())
        return self.of(self.aggregates, columns, self.size)

    def results(self) -> list[pa.Array]:
        """The results of each aggregate. Raises OverflowAtRow for the first row that lacks one."""
        results, failures = [], []
        for item, columns in self._each():
            try:
                results.append(item.results(columns))
            except OverflowAtRow as failure:
                failures.append(failure)
        if failures:
            raise min(failures, key=lambda failure: failure.row)
        return results

    def _each(self) -> "zip[tuple[BoundAggregate, Columns]]":
        return zip(self.aggregates, self.columns, strict=True)

    def _take_by_block(self, rows: Longs) -> "ArrowAccumulators":
        """`take` of few rows out of several blocks, which are not concatenated."""
        ends = np.cumsum([block.size for block in self.blocks])
        owners = np.searchsorted(ends, rows, side="right")
        by_block = np.argsort(owners, kind="stable")
        counts = np.bincount(owners, minlength=len(ends))
        parts = [
            ArrowAccumulators(self.aggregates, (block,)).take(rows_in_block - (end - block.size))
            for block, rows_in_block, end in zip(
                self.blocks, np.split(rows[by_block], np.cumsum(counts)[:-1]), ends.tolist(), strict=True
            )
        ]
        places = np.empty(len(rows), np.int64)
        places[by_block] = np.arange(len(rows))
        taken_rows = parts[0].join(parts[1:])
        return self.of(self.aggregates, taken_rows.columns, taken_rows.size).take(places)

    def _blocks_between(self, first: int, beyond: int) -> tuple["_Block", ...]:
        blocks, start = [], 0
        for block in self.blocks:
            blocks.append(block.rows(first - start, beyond - start))
            start += block.size
        return tuple(block for block in blocks if block.size) or (blocks[0],)


@dataclass(frozen=True)
class _Block:
    columns: tuple[Columns, ...]
    size: int

    def rows(self, first: int, beyond: int) -> "_Block":
        """The rows from `first` to before `beyond`, not copied; bounds may lie outside."""
        first, beyond = (min(max(bound, 0), self.size) for bound in (first, beyond))
        if beyond - first == self.size:
            return self
        columns = tuple([column[first:beyond] for column in columns] for columns in self.columns)
        return _Block(columns, beyond - first)


def combine_elements(
    lists: ElementLists,
    parked_accumulators: ArrowAccumulators,
    accumulate: Callable[[Longs], ArrowAccumulators],
) -> ArrowAccumulators:
    """The accumulator of each list, none of them empty. Numbers in lists are first those of parked
    accumulators, then those of elements; `accumulate` makes the accumulators of some elements. Lists are
    combined a portion at a time, because an accumulator of each element takes more memory than its row.
    """
    starts, runs_of_lists = np.unique(lists.starts, return_inverse=True)
    ends = starts.copy()
    np.maximum.at(ends, runs_of_lists, lists.ends)
    runs = ElementLists(lists.numbers, starts, ends)
    portions = (np.cumsum(runs.lengths) - runs.lengths) // NUMBERS_AT_ONCE
    order = np.argsort(runs_of_lists, kind="stable")
    parts: list[ArrowAccumulators] = []
    bounds = np.append(np.flatnonzero(np.diff(portions, prepend=-1)), len(portions))
    cuts = np.searchsorted(runs_of_lists[order], bounds)
    for first, beyond, start, end in zip(bounds, bounds[1:], cuts, cuts[1:], strict=False):
        rows = order[start:end]
        runs_of_portion = runs.take(slice(first, beyond))
        lengths = runs_of_portion.lengths
        shifts = (np.cumsum(lengths) - lengths - runs_of_portion.starts)[runs_of_lists[rows] - first]
        numbers = runs_of_portion.explode()
        used_numbers, places = _places_among_distinct(numbers)
        parked_numbers, element_numbers = np.split(
            used_numbers, np.searchsorted(used_numbers, [parked_accumulators.size])
        )
        accumulators = parked_accumulators.take(parked_numbers)
        if len(element_numbers):
            accumulators = accumulators.join([accumulate(element_numbers - parked_accumulators.size)])
        portion = ElementLists(places, lists.starts[rows] + shifts, lists.ends[rows] + shifts)
        parts.append(combine_lists(portion, accumulators))
    if not parts:
        return parked_accumulators.take(slice(0, 0))
    positions = np.empty(len(order), np.int64)
    positions[order] = np.arange(len(order))
    return parts[0].join(parts[1:]).take(positions)


def _places_among_distinct(numbers: Longs) -> tuple[Longs, Longs]:
    """(the distinct numbers, ascending, the place of each number among them)."""
    least, greatest = int(numbers.min()), int(numbers.max())
    if greatest - least > _SPARSE * len(numbers):
        distinct = distinct_values(numbers)
        return distinct, np.searchsorted(distinct, numbers)
    is_used = np.zeros(greatest - least + 1, np.bool_)
    is_used[numbers - least] = True
    return np.flatnonzero(is_used) + least, (np.cumsum(is_used) - 1)[numbers - least]


def _as_slice(rows: Longs) -> Longs | slice:
    """Consecutive ascending positions as a slice, which copies no rows; other positions as they are."""
    if not len(rows):
        return slice(0, 0)
    first, last = int(rows[0]), int(rows[-1])
    if first >= 0 and last - first == len(rows) - 1 and bool(np.all(rows[1:] - rows[:-1] == 1)):
        return slice(first, last + 1)
    return rows
