"""Append-only lists of row numbers, many at once: the contents of sessions while these take elements and
absorb each other. A firing's contents are the beginning of a list, up to its length at that moment.

    list of session 1    a b │ c       firing shows a b
    list of session 2    d e
    1 absorbs 2          a b c d e │ f firing shows a b c d e

Lists are written out at the end: `append` and `absorb` only note what comes where.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.window_columns import NO_CONTENTS


class RunningRows(NamedTuple):
    """Concatenated lists of rows, none empty, and picks in them: the running totals of Contents. `starts`
    says where each list begins in `rows`, `picks` the position in `rows` of each pick's last row.
    """

    rows: Longs
    starts: Longs
    picks: Longs

    def join(self, other: RunningRows) -> RunningRows:
        """The lists of both; picks of `other` are numbered after the own ones."""
        before = len(self.rows)
        columns = (
            (self.rows, other.rows),
            (self.starts, other.starts + before),
            (self.picks, other.picks + before),
        )
        return RunningRows(*(np.concatenate(pair) for pair in columns))


class Paths:
    """Numbered lists of rows. NO_CONTENTS is no list: its size is 0, and nothing is added to it.

    An absorbed list never changes again. The level of a list is one above the lists it has absorbed, so lists
    are written out level by level. `sizes` are their lengths so far; its last place is for NO_CONTENTS.
    """

    def __init__(self, rows: Longs, lengths: Longs, most: int) -> None:
        """The first lists are consecutive pieces of `rows`; `most` is the greatest number of lists."""
        self.sizes = np.zeros(most + 1, np.int64)
        self.sizes[: len(lengths)] = lengths
        self._levels = np.zeros(most + 1, np.int64)
        self._list_count = len(lengths)
        owners, offsets = _ranges(np.zeros(len(lengths), np.int64), lengths)
        self._rows = [(owners, offsets, rows)]
        self._absorptions = [(rows[:0], rows[:0], rows[:0])]
        self._picks = [(rows[:0], rows[:0])]
        self._pick_count = 0

    def begin(self, count: int) -> Longs:
        self._list_count += count
        return np.arange(self._list_count - count, self._list_count)

    def append(self, paths: Longs, rows: Longs) -> None:
        """Append one row to each of these lists; no list occurs twice."""
        self._rows.append((paths, self.sizes[paths], rows))
        self.sizes[paths] += 1

    def absorb(self, paths: Longs, others: Longs) -> None:
        """Append all rows of another list to each of these lists; no list occurs twice."""
        self._absorptions.append((paths, self.sizes[paths], others))
        self.sizes[paths] += self.sizes[others]
        self._levels[paths] = np.maximum(self._levels[paths], self._levels[others] + 1)

    def pick(self, paths: Longs) -> Longs:
        """Pick each list as it is now: the number of the pick, NO_CONTENTS for no list."""
        is_list = paths != NO_CONTENTS
        lists = paths[is_list]
        self._picks.append((lists, self.sizes[lists]))
        numbers = np.where(is_list, self._pick_count + np.cumsum(is_list) - 1, NO_CONTENTS)
        self._pick_count += len(lists)
        return numbers

    def running_rows(self) -> RunningRows:
        """Write out the lists that have picks."""
        sizes = self.sizes[: self._list_count]
        begins = np.cumsum(sizes) - sizes
        running = np.empty(int(sizes.sum()), np.int64)
        paths, offsets, rows = (_concatenate(column) for column in zip(*self._rows, strict=True))
        running[begins[paths] + offsets] = rows
        paths, offsets, others = (_concatenate(column) for column in zip(*self._absorptions, strict=True))
        levels = self._levels[others]
        for level in range(int(levels.max()) + 1 if len(levels) else 0):
            at_level = np.flatnonzero(levels == level)
            pairs, sources = _ranges(begins[others[at_level]], sizes[others[at_level]])
            within = sources - begins[others[at_level]][pairs]
            running[(begins[paths[at_level]] + offsets[at_level])[pairs] + within] = running[sources]
        picked_paths, lengths = (_concatenate(column) for column in zip(*self._picks, strict=True))
        is_picked = np.zeros(self._list_count, np.bool_)
        is_picked[picked_paths] = True
        lengths_written = np.where(is_picked, sizes, 0)
        starts = np.cumsum(lengths_written) - lengths_written
        return RunningRows(
            running[np.repeat(is_picked, sizes)], starts[is_picked], starts[picked_paths] + lengths - 1
        )


def _ranges(begins: Longs, lengths: Longs) -> tuple[Longs, Longs]:
    """(range, integer) for each integer of the ranges [begin, begin + length), range after range."""
    owners = np.repeat(np.arange(len(lengths)), lengths)
    before = np.cumsum(lengths) - lengths
    return owners, (begins - before)[owners] + np.arange(len(owners))


def _concatenate(parts: Iterable[Longs]) -> Longs:
    return np.concatenate([np.zeros(0, np.int64), *parts])
