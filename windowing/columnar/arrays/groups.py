"""Which rows belong together: dense group numbers for rows that have equal integers, and runs of equal rows.

Arrays of 64-bit integers in, the same out. No key, no window and no aggregate is known here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.windowing.columnar.arrays.columns import Longs

# A table of group numbers by value may have so many entries, beside so many for each row; beyond that values
# are sorted, and hashed where they lie so far apart that there may be few of them.
_FREE_ENTRIES: Final = 1 << 16
_ENTRIES_PER_ROW: Final = 4
_SORTED_PER_ROW: Final = 16
_TOLD_APART: Final = 1 << 10


@dataclass(frozen=True)
class Groups:
    """Each row's group.

    Attributes:
        codes: int64[n] from 0 to size - 1.
        size: number of groups.
        summed: the first values that were summed, and their sums: most counts are the same ones.
    """

    codes: Longs
    size: int
    summed: list[tuple[Longs, Longs]] = field(default_factory=list, compare=False, repr=False)

    @classmethod
    def of_each(cls, rows: int) -> Groups:
        """Every row a group of its own."""
        return cls(np.arange(rows, dtype=np.int64), rows)

    @cached_property
    def counts(self) -> Longs:
        """int64[size]: the rows of each group."""
        return np.bincount(self.codes, minlength=self.size)


class Coded(NamedTuple):
    """Each row's value as a small number, which need not have been given to any row.

    Attributes:
        codes: int64[n] from 0 to size - 1.
        size: how many numbers there may be.
        present: those that some row has, ascending.
    """

    codes: Longs
    size: int
    present: Longs

    @classmethod
    def of(cls, codes: Longs, size: int) -> Coded:
        """Codes from 0 to size - 1."""
        is_there = np.zeros(size, np.bool_)
        is_there[codes] = True
        return cls(codes, size, np.flatnonzero(is_there))

    def numbered(self, numbers: Longs) -> Longs:
        """int64[n]: what stands in `numbers` at the place that each row's code has in `present`."""
        table = np.empty(
            self.size, np.int32 if self.size < 1 << 31 else np.int64
        )  # half of a table is nearer to the processor
        table[self.present] = numbers
        return table.take(self.codes, mode="clip").astype(
            np.int64
        )  # all of them are there: no bound is checked


def code_values(values: Longs) -> tuple[Coded, Longs]:
    """Codes of values, and the value of each that is there: ascending where the values lie close together,
    else in order of appearance.
    """
    if not len(values):
        return Coded(values, 0, values), values
    least = int(values.min())
    span = int(values.max()) - least + 1
    if span > _SORTED_PER_ROW * len(values) + _FREE_ENTRIES:
        encoded = pa.array(values).dictionary_encode()
        distinct: Longs = encoded.dictionary.to_numpy()
        return Coded(
            encoded.indices.to_numpy().astype(np.int64), len(distinct), np.arange(len(distinct))
        ), distinct
    if span > _ENTRIES_PER_ROW * len(values) + _FREE_ENTRIES:
        order, ascending = in_order(values)
        starts = run_starts(ascending)
        codes = np.empty(len(values), np.int64)
        codes[order] = run_numbers(starts, len(values))
        return Coded(codes, len(starts), np.arange(len(starts))), ascending[starts]
    coded = Coded.of(values - least, span)
    return coded, coded.present + least


def in_order(values: Longs) -> tuple[Longs, Longs]:
    """(the places of the values in ascending order, equal ones as they come; the values in that order)."""
    bits = len(values).bit_length()
    least = int(values.min()) if len(values) else 0
    if len(values) and int(values.max()) - least >= 1 << (63 - bits):
        order = np.argsort(values, kind="stable")
        return order, values[order]
    packed = (
        values - least
    )  # each with its place behind it: numbers are sorted in a third of the time that their places take
    packed <<= bits
    packed |= np.arange(len(values))
    packed.sort()
    return packed & ((1 << bits) - 1), (packed >> bits) + least


def order_of_pairs(first: Longs, second: Longs) -> Longs:
    """The places of pairs in ascending order, equal ones as they come. Runs of pairs that ascend already are
    only merged.
    """
    if not len(first):
        return first
    least, low = int(first.min()), int(second.min())
    width = int(second.max()) - low + 1
    if (int(first.max()) - least + 1) * width >= 1 << 62:
        return np.lexsort((second, first))
    packed = (first - least) * width
    packed += second - low
    return np.argsort(packed, kind="stable")


def group_values(values: Longs) -> tuple[Groups, Longs]:
    """Groups of equal values, and each group's value: ascending where the values lie close together, else in
    order of appearance.
    """
    coded, distinct = code_values(values)
    size = len(coded.present)
    return Groups(coded.codes if size == coded.size else coded.numbered(np.arange(size)), size), distinct


def group_pairs(first: Longs, second: Longs, outside: Longs | None = None) -> tuple[Groups, Longs, Longs]:
    """Groups of rows equal in both columns, and each group's two values. Rows at `outside`, if there are any,
    make one more group together, the last; it has no values."""
    if outside is not None and len(outside):
        return _group_inside(first, second, outside)
    if not len(first):
        return Groups(first, 0), first, second
    least, low = int(first.min()), int(second.min())
    width = int(second.max()) - low + 1
    if (int(first.max()) - least + 1) * width >= 1 << 62:
        (one, ones), (other, others) = group_values(first), group_values(second)
        groups, at, beside = group_pairs(one.codes, other.codes)
        return groups, ones[at], others[beside]
    packed = (first - least) * width
    packed += second - low
    groups, packed = group_values(packed)
    ones = packed // width
    return groups, ones + least, packed - ones * width + low  # numpy takes long to find remainders


def _group_inside(first: Longs, second: Longs, outside: Longs) -> tuple[Groups, Longs, Longs]:
    is_inside = np.ones(len(first), np.bool_)
    is_inside[outside] = False
    inner_row = int(np.argmax(is_inside))
    if not is_inside[inner_row]:
        return Groups(np.zeros(len(first), np.int64), 1), first[:0], second[:0]
    # As copies of one that is inside they widen no range and make no group, and nothing is moved.
    first, second = first.copy(), second.copy()
    first[outside], second[outside] = first[inner_row], second[inner_row]
    groups, ones, others = group_pairs(first, second)
    groups.codes[outside] = groups.size  # nobody else has these codes
    return Groups(groups.codes, groups.size + 1), ones, others


def run_starts(*columns: Longs) -> Longs:
    """Where each run of rows that are equal in all (sorted) columns begins."""
    rows = len(columns[0])
    if not rows:
        return np.zeros(0, np.int64)
    is_start = np.zeros(rows, np.bool_)
    is_start[0] = True
    for column in columns:
        is_start[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(is_start)


def run_numbers(starts: Longs, rows: int) -> Longs:
    """The run of each of `rows` rows, from the runs' starts."""
    return np.repeat(np.arange(len(starts)), np.diff(np.append(starts, rows)))


def least_of_groups(values: Longs, groups: Groups) -> Longs:
    """The least value of each group."""
    least = np.full(groups.size, np.iinfo(np.int64).max)
    if len(values) and bool(np.all(values[1:] >= values[:-1])):
        least[groups.codes[::-1]] = values[::-1]  # of equal indices the last one counts
    else:
        np.minimum.at(least, groups.codes, values)
    return least


def greatest_of_groups(values: Longs, groups: Groups) -> Longs:
    """The greatest value of each group."""
    greatest = np.full(groups.size, np.iinfo(np.int64).min)
    if len(values) and bool(np.all(values[1:] >= values[:-1])):
        greatest[groups.codes] = values
    else:
        np.maximum.at(greatest, groups.codes, values)
    return greatest


def sum_of_groups(values: Longs, groups: Groups) -> Longs:
    """The sum of each group, exact as long as it fits 64 bits."""
    if not len(values):
        return np.zeros(groups.size, np.int64)
    for summed_values, sums in groups.summed:
        if np.array_equal(summed_values[:_TOLD_APART], values[:_TOLD_APART]) and np.array_equal(
            summed_values, values
        ):
            return sums
    sums = _sums(values, groups)
    if not groups.summed:
        groups.summed.append((values, sums))
    return sums


def _sums(values: Longs, groups: Groups) -> Longs:
    least, greatest = int(values.min()), int(values.max())
    if least == greatest == 1:
        return groups.counts
    if max(-least, greatest) * len(values) < 1 << 53:  # doubles hold every partial sum exactly
        return np.bincount(groups.codes, weights=values, minlength=groups.size).astype(np.int64)
    total = np.zeros(groups.size, np.int64)
    np.add.at(total, groups.codes, values)
    return total
