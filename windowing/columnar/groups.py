"""Which rows belong together: dense group numbers for rows that have equal integers, and runs of equal rows.

Arrays of 64-bit integers in, the same out. No key, no window and no aggregate is known here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from windowing.columnar.columns import Longs

# A table of group numbers by value may have so many entries, beside so many for each row; beyond that values are hashed.
_FREE_ENTRIES: Final = 1 << 16
_ENTRIES_PER_ROW: Final = 6


class Groups(NamedTuple):
    """Each row's group.

    Attributes:
        codes: int64[n] from 0 to size - 1.
        size: number of groups.
    """

    codes: Longs
    size: int

    @classmethod
    def of_each(cls, rows: int) -> Groups:
        """Every row a group of its own."""
        return cls(np.arange(rows, dtype=np.int64), rows)


def group_values(values: Longs) -> tuple[Groups, Longs]:
    """Groups of equal values, and each group's value: ascending where the values lie close together, else in order of appearance."""
    if not len(values):
        return Groups(values, 0), values
    least = int(values.min())
    span = int(values.max()) - least + 1
    if span > _ENTRIES_PER_ROW * len(values) + _FREE_ENTRIES:
        encoded = pa.array(values).dictionary_encode()
        distinct: Longs = encoded.dictionary.to_numpy()
        return Groups(encoded.indices.to_numpy().astype(np.int64), len(distinct)), distinct
    codes = values - least
    is_there = np.zeros(span, np.bool_)
    is_there[codes] = True
    there = np.flatnonzero(is_there)
    if len(there) < span:
        number = np.cumsum(is_there) - 1
        codes = number[codes]
    return Groups(codes, len(there)), there + least


def group_pairs(first: Longs, second: Longs) -> tuple[Groups, Longs, Longs]:
    """Groups of rows equal in both columns, and each group's two values."""
    if not len(first):
        return Groups(first, 0), first, second
    least, low = int(first.min()), int(second.min())
    width = int(second.max()) - low + 1
    if (int(first.max()) - least + 1) * width >= 1 << 62:
        (one, ones), (other, others) = group_values(first), group_values(second)
        groups, at, beside = group_pairs(one.codes, other.codes)
        return groups, ones[at], others[beside]
    groups, packed = group_values((first - least) * width + (second - low))
    return groups, packed // width + least, packed % width + low


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
    most = max(abs(int(values.min())), abs(int(values.max())))
    if most == 1 and int(values.min()) == 1:
        return np.bincount(groups.codes, minlength=groups.size)
    if most * len(values) < 1 << 53:  # doubles hold every partial sum exactly
        return np.bincount(groups.codes, weights=values, minlength=groups.size).astype(np.int64)
    total = np.zeros(groups.size, np.int64)
    np.add.at(total, groups.codes, values)
    return total
