"""Lists of rows that grow while sessions take elements in and absorb one another; what a firing shows is the
beginning of one.

Row numbers only, and many lists at once; what a row holds is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.window_columns import NO_CONTENTS


class Running(NamedTuple):
    """Lists of rows, one after the other, and positions in them; see Contents.

    Attributes:
        rows: int64[k].
        starts: int64[r], where each list begins; none is empty.
        picks: int64[p], the last row of each list's beginning that was picked.
    """

    rows: Longs
    starts: Longs
    picks: Longs

    def then(self, other: Running) -> Running:
        """The lists of both; picks of `other` are numbered after one's own."""
        before = len(self.rows)
        columns = (
            (self.rows, other.rows),
            (self.starts, other.starts + before),
            (self.picks, other.picks + before),
        )
        return Running(*(np.concatenate(pair) for pair in columns))


class Paths:
    """Numbered lists of rows. NO_CONTENTS stands for no list: its size is 0, and nothing is added to it.

    A list that was absorbed is not changed any more, so a list's level (one above the levels of those that it
    has absorbed) says when it can be written out.

    Attributes:
        sizes: int64, the length of each list now; the last place is that of NO_CONTENTS.
    """

    def __init__(self, rows: Longs, lengths: Longs, most: int) -> None:
        """The first lists are `rows` in pieces of these lengths; there will be `most` lists in all."""
        self.sizes = np.zeros(most + 1, np.int64)
        self.sizes[: len(lengths)] = lengths
        self._levels = np.zeros(most + 1, np.int64)
        self._begun = len(lengths)
        owners, offsets = _each(np.zeros(len(lengths), np.int64), lengths)
        self._rows = [(owners, offsets, rows)]
        self._absorbed = [(rows[:0], rows[:0], rows[:0])]
        self._picks = [(rows[:0], rows[:0])]
        self._picked = 0

    def begin(self, count: int) -> Longs:
        """The numbers of so many new lists."""
        self._begun += count
        return np.arange(self._begun - count, self._begun)

    def append(self, paths: Longs, rows: Longs) -> None:
        """One row more for each of these lists, none twice."""
        self._rows.append((paths, self.sizes[paths], rows))
        self.sizes[paths] += 1

    def absorb(self, paths: Longs, others: Longs) -> None:
        """All rows of another list more for each of these lists; no list occurs twice."""
        self._absorbed.append((paths, self.sizes[paths], others))
        self.sizes[paths] += self.sizes[others]
        self._levels[paths] = np.maximum(self._levels[paths], self._levels[others] + 1)

    def pick(self, paths: Longs) -> Longs:
        """The number of what each list holds now; NO_CONTENTS for none."""
        is_there = paths != NO_CONTENTS
        lists = paths[is_there]
        self._picks.append((lists, self.sizes[lists]))
        numbers = np.where(is_there, self._picked + np.cumsum(is_there) - 1, NO_CONTENTS)
        self._picked += len(lists)
        return numbers

    def written(self) -> Running:
        """The lists of which something was picked."""
        sizes = self.sizes[: self._begun]
        begins = np.cumsum(sizes) - sizes
        running = np.empty(int(sizes.sum()), np.int64)
        paths, offsets, rows = (_concatenated(column) for column in zip(*self._rows, strict=True))
        running[begins[paths] + offsets] = rows
        paths, offsets, others = (_concatenated(column) for column in zip(*self._absorbed, strict=True))
        levels = self._levels[others]
        for level in range(int(levels.max()) + 1 if len(levels) else 0):
            of_level = np.flatnonzero(levels == level)
            of_pair, sources = _each(begins[others[of_level]], sizes[others[of_level]])
            within = sources - begins[others[of_level]][of_pair]
            running[(begins[paths[of_level]] + offsets[of_level])[of_pair] + within] = running[sources]
        picked, lengths = (_concatenated(column) for column in zip(*self._picks, strict=True))
        is_picked = np.zeros(self._begun, np.bool_)
        is_picked[picked] = True
        lengths_written = np.where(is_picked, sizes, 0)
        starts = np.cumsum(lengths_written) - lengths_written
        return Running(running[np.repeat(is_picked, sizes)], starts[is_picked], starts[picked] + lengths - 1)


def _each(begins: Longs, lengths: Longs) -> tuple[Longs, Longs]:
    """Ranges of integers one after the other: (which range, the integer)."""
    owners = np.repeat(np.arange(len(lengths)), lengths)
    before = np.cumsum(lengths) - lengths
    return owners, (begins - before)[owners] + np.arange(len(owners))


def _concatenated(parts: Iterable[Longs]) -> Longs:
    """Arrays one after the other; none of them, too."""
    return np.concatenate([np.zeros(0, np.int64), *parts])
