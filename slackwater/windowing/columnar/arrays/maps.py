"""Maps from integers to integers, one per row, as columns of entries; folds of equal rows and along runs."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import run_numbers, run_starts


class Fold(Enum):
    SUM = np.add
    MAX = np.maximum


class Entries(NamedTuple):
    """Entries in order of (row, key), each pair once; int64[n] each."""

    rows: Longs
    keys: Longs
    values: Longs


def fold_entries(rows: Longs, keys: Longs, values: Longs, fold: Fold) -> Entries:
    """Maps from entries in any order; several values of one (row, key) are folded."""
    order = np.lexsort((keys, rows))
    rows, keys = rows[order], keys[order]
    starts = run_starts(rows, keys)
    if not len(starts):
        return Entries(rows, keys, values)
    return Entries(rows[starts], keys[starts], fold.value.reduceat(values[order], starts))


def fold_runs(entries: Entries, starts: Longs, rows: int, fold: Fold) -> Entries:
    """Each row's map folded with the earlier ones of its run; run i of `rows` rows begins at starts[i]."""
    if not len(entries.rows):
        return entries
    run = run_numbers(starts, rows)
    order = np.lexsort((entries.rows, entries.keys, run[entries.rows]))
    at, keys, values = (column[order] for column in entries)
    firsts = run_starts(run[at], keys)
    so_far = _running_folds(values, firsts, fold)
    # The running value of a key holds for every row until the key's next entry, or the run's end.
    ends = np.append(starts[1:], rows)[run[at]]
    is_last = np.append(np.diff(run_numbers(firsts, len(at))) > 0, True)
    until = np.where(is_last, ends, np.append(at[1:], rows))
    lengths = until - at
    offsets = np.cumsum(lengths) - lengths
    places = np.repeat(at, lengths) + np.arange(int(lengths.sum())) - np.repeat(offsets, lengths)
    return fold_entries(places, np.repeat(keys, lengths), np.repeat(so_far, lengths), fold)


def _running_folds(values: Longs, firsts: Longs, fold: Fold) -> Longs:
    """Running folds of non-negative values inside each run; run i begins at firsts[i]."""
    number = run_numbers(firsts, len(values))
    if fold is Fold.SUM:
        totals = np.cumsum(values)
        before = np.zeros(len(firsts), np.int64)
        before[1:] = totals[firsts[1:] - 1]
        running_sums: Longs = totals - before[number]
        return running_sums
    height = int(values.max()) + 1
    running_maxima: Longs = np.maximum.accumulate(values + number * height) - number * height
    return running_maxima
