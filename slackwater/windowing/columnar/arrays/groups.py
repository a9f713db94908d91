"""Groups of equal 64-bit integers, runs of equal rows, spans of consecutive rows, and sum, minimum and
maximum of each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.orders import sort_with_places

# Group numbers come from a table with an entry for each possible value, where these are at most
# ENTRIES_PER_ROW for each row and FREE_ENTRIES more. Values that span more are sorted, and those that span
# more than SORTED_PER_ROW for each row are hashed, as there may be few distinct ones.
FREE_ENTRIES: Final = 1 << 16
ENTRIES_PER_ROW: Final = 4
SORTED_PER_ROW: Final = 16
_ENTRIES_IN_CACHE: Final = 1 << 15
_ROWS_COMPARED_FIRST: Final = 1 << 10  # columns that differ mostly do so in these rows


@dataclass(frozen=True)
class Groups:
    """The group of each row: `codes`, int64[n], are group numbers from 0 to `size` - 1.

    Attributes:
        known_sums: (values, sums) of the first column that was summed: several aggregates often sum equal
            counts.
        known_counts: `counts`, where grouping computed them anyway.
    """

    codes: Longs
    size: int
    known_sums: list[tuple[Longs, Longs]] = field(default_factory=list, compare=False, repr=False)
    known_counts: Longs | None = field(default=None, compare=False, repr=False)

    @classmethod
    def singletons(cls, rows: int) -> Groups:
        return cls(np.arange(rows, dtype=np.int64), rows)

    @cached_property
    def counts(self) -> Longs:
        if self.known_counts is not None:
            return self.known_counts
        return np.bincount(self.codes, minlength=self.size)


class ValueCodes(NamedTuple):
    """A code below `size` for each row's value; `present` has the codes that occur, ascending."""

    codes: Longs
    size: int
    present: Longs

    @classmethod
    def of(cls, codes: Longs, size: int) -> ValueCodes:
        is_present = np.zeros(size, np.bool_)
        is_present[codes] = True
        return cls(codes, size, np.flatnonzero(is_present))

    def numbers_by_code(self, numbers: Longs) -> Longs:
        """int64[n]: numbers[i] for each row whose code is present[i]."""
        # Of many numbers a table of 32 bits fits the processor's cache more often.
        is_narrow = _ENTRIES_IN_CACHE < self.size < 1 << 31
        table = np.empty(self.size, np.int32 if is_narrow else np.int64)
        table[self.present] = numbers
        # No code is out of bounds; "clip" is the mode that does not check.
        return table.take(self.codes, mode="clip").astype(np.int64, copy=False)


def code_values(values: Longs) -> tuple[ValueCodes, Longs]:
    """(codes of the values, their distinct values): ascending, or by appearance where they lie far apart."""
    if not len(values):
        return ValueCodes(values, 0, values), values
    least = int(values.min())
    span = int(values.max()) - least + 1
    if span > SORTED_PER_ROW * len(values) + FREE_ENTRIES:
        dictionary_array = pa.array(values).dictionary_encode()
        distinct: Longs = dictionary_array.dictionary.to_numpy()
        return ValueCodes(
            dictionary_array.indices.to_numpy().astype(np.int64), len(distinct), np.arange(len(distinct))
        ), distinct
    if span > ENTRIES_PER_ROW * len(values) + FREE_ENTRIES:
        order, ascending = sort_with_places(values)
        starts = run_starts(ascending)
        codes = np.empty(len(values), np.int64)
        codes[order] = run_numbers(starts, len(values))
        return ValueCodes(codes, len(starts), np.arange(len(starts))), ascending[starts]
    value_codes = ValueCodes.of(values - least, span)
    return value_codes, value_codes.present + least


def group_values(values: Longs) -> tuple[Groups, Longs]:
    """(groups of equal values, the value of each group); order as in `code_values`."""
    value_codes, distinct = code_values(values)
    size = len(value_codes.present)
    return Groups(
        value_codes.codes if size == value_codes.size else value_codes.numbers_by_code(np.arange(size)), size
    ), distinct


def group_pairs(first: Longs, second: Longs, outside: Longs | None = None) -> tuple[Groups, Longs, Longs]:
    """(groups of rows equal in both columns, the first value of each group, the second). Rows at `outside`,
    each named once, form one more group, the last, which has no values.
    """
    if outside is None or not len(outside):
        return _group_pairs(first, second, None, 0)
    inner_row = _first_besides(outside)
    if inner_row == len(first):
        return Groups(np.zeros(len(first), np.int64), 1), first[:0], second[:0]
    groups, ones, others = _group_pairs(first, second, outside, inner_row)
    counts = np.append(groups.counts, len(outside))
    counts[groups.codes[inner_row]] -= len(outside)
    groups.codes[outside] = groups.size  # changed in place: `groups` was made here
    return Groups(groups.codes, groups.size + 1, known_counts=counts), ones, others


def _first_besides(rows: Longs) -> int:
    is_named = np.zeros(len(rows) + 1, np.bool_)
    is_named[rows[rows <= len(rows)]] = True
    return int(np.argmin(is_named))


def _group_pairs(
    first: Longs, second: Longs, outside: Longs | None, inner_row: int
) -> tuple[Groups, Longs, Longs]:
    """`group_pairs`, with the rows at `outside` in the group of `inner_row`, which is not among them."""
    if not len(first):
        return Groups(first, 0), first, second
    if outside is not None:  # so that they widen no range
        second = second.copy()
        second[outside] = second[inner_row]
    least, low = int(first.min()), int(second.min())
    width = int(second.max()) - low + 1
    size = (int(first.max()) - least + 1) * width
    if size >= 1 << 62:
        (one, ones), (other, others) = group_values(first), group_values(second)
        groups, at, beside = _group_pairs(one.codes, other.codes, outside, inner_row)
        return groups, ones[at], others[beside]
    pair_codes = first - least
    pair_codes *= width
    pair_codes += second
    pair_codes -= low
    if outside is not None:
        pair_codes[outside] = pair_codes[inner_row]
    groups, pair_codes = _group_numbers(pair_codes, size)
    ones = pair_codes // width
    # The remainder by a product and a difference: numpy takes many times as long for `%`.
    return groups, ones + least, pair_codes - ones * width + low


def _group_numbers(numbers: Longs, size: int) -> tuple[Groups, Longs]:
    """`group_values` for at least one number, all from 0 to size - 1."""
    if size > ENTRIES_PER_ROW * len(numbers) + FREE_ENTRIES:
        return group_values(numbers)
    counts = np.bincount(numbers, minlength=size)
    present = np.flatnonzero(counts)
    if len(present) < size:
        numbers = ValueCodes(numbers, size, present).numbers_by_code(np.arange(len(present)))
    return Groups(numbers, len(present), known_counts=counts[present]), present


def run_starts(*columns: Longs) -> Longs:
    """int64[r]: where each run of consecutive rows that are equal in all columns begins."""
    rows = len(columns[0])
    if not rows:
        return np.zeros(0, np.int64)
    is_start = np.zeros(rows, np.bool_)
    is_start[0] = True
    for column in columns:
        is_start[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(is_start)


def run_numbers(starts: Longs, rows: int) -> Longs:
    """int64[rows]: the number of each row's run; run i begins at row starts[i]."""
    return np.repeat(np.arange(len(starts)), np.diff(np.append(starts, rows)))


def least_of_groups(values: Longs, groups: Groups) -> Longs:
    least = np.full(groups.size, np.iinfo(np.int64).max)
    if len(values) and bool(np.all(values[1:] >= values[:-1])):
        least[groups.codes[::-1]] = values[::-1]  # of equal indices the last assignment counts
    else:
        np.minimum.at(least, groups.codes, values)
    return least


def greatest_of_groups(values: Longs, groups: Groups) -> Longs:
    greatest = np.full(groups.size, np.iinfo(np.int64).min)
    if len(values) and bool(np.all(values[1:] >= values[:-1])):
        greatest[groups.codes] = values
    else:
        np.maximum.at(greatest, groups.codes, values)
    return greatest


def bounds_of(values: Longs) -> tuple[int, int]:
    """(least, greatest) of these values; (0, 0) for none."""
    return (int(values.min()), int(values.max())) if len(values) else (0, 0)


def sum_of_groups(values: Longs, groups: Groups, bounds: tuple[int, int] | None = None) -> Longs:
    """The sum of each group, exact if it fits 64 bits. Known `bounds` of the values save a pass."""
    if not len(values):
        return np.zeros(groups.size, np.int64)
    for summed_values, sums in groups.known_sums:
        if np.array_equal(
            summed_values[:_ROWS_COMPARED_FIRST], values[:_ROWS_COMPARED_FIRST]
        ) and np.array_equal(summed_values, values):
            return sums
    sums = _sums(values, groups, *(bounds or bounds_of(values)))
    if not groups.known_sums:
        groups.known_sums.append((values, sums))
    return sums


def _sums(values: Longs, groups: Groups, least: int, greatest: int) -> Longs:
    if least == greatest == 1:
        return groups.counts
    if max(-least, greatest) * len(values) < 1 << 53:  # doubles hold every partial sum exactly
        return np.bincount(groups.codes, weights=values, minlength=groups.size).astype(np.int64)
    total = np.zeros(groups.size, np.int64)
    np.add.at(total, groups.codes, values)
    return total


class Spans(NamedTuple):
    """Span i holds the rows from firsts[i] to before beyonds[i], at least one."""

    firsts: Longs
    beyonds: Longs

    def where(self, chosen: Booleans) -> Spans:
        return Spans(self.firsts[chosen], self.beyonds[chosen])

    def explode(self) -> tuple[Longs, Groups]:
        """(the rows of all spans, span after span, the span of each)."""
        counts = self.beyonds - self.firsts
        owners = np.repeat(np.arange(len(counts)), counts)
        before = np.cumsum(counts) - counts
        return np.arange(len(owners)) + (self.firsts - before)[owners], Groups(owners, len(counts))

    def sum(self, values: Longs) -> Longs:
        """The sum of each span, exact if it fits 64 bits: totals may wrap, their differences do not."""
        totals = np.zeros(len(values) + 1, np.int64)
        np.cumsum(values, out=totals[1:])
        return totals[self.beyonds] - totals[self.firsts]

    def least(self, values: Longs) -> Longs:
        return self._reduce_spans(np.minimum, values)

    def greatest(self, values: Longs) -> Longs:
        return self._reduce_spans(np.maximum, values)

    def _reduce_spans(self, function: np.ufunc, values: Longs) -> Longs:
        bounds = np.empty(2 * len(self.firsts), np.int64)
        bounds[::2], bounds[1::2] = self.firsts, self.beyonds
        # reduceat also gives a value for the rows between two spans, at every odd place.
        values_of_spans: Longs = function.reduceat(np.append(values, 0), bounds)[::2]
        return values_of_spans
