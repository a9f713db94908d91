"""The contents of firings and open windows, described by the rows of accumulators that make them up.

A kernel decides all firings first, by row numbers; `combine_contents` combines the accumulators afterwards,
all at once.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from slackwater.windowing.columnar.accumulators import Accumulators
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups

A = TypeVar("A", bound=Accumulators)


class Contents(NamedTuple):
    """Contents 0 to m - 1: each combines the accumulators of some rows; a row may be part of several
    contents.

    The first `groups.size` contents combine the rows of one group each. The others are running totals: each
    row of `running_rows` combined with the rows before it in its run, as far as its position is in `picks`.

        running_rows    a    b    c  │  d    e        two runs
        running totals  a    ab   abc│  d    de
        picks                ↑    ↑          ↑        contents ab, abc, de

    Attributes:
        rows: int64[n], the rows to combine; row i belongs to group `groups.codes[i]`.
        groups: one for each of the first contents.
        running_rows: int64[k].
        running_starts: int64[r], where each run begins in `running_rows`; the first at 0, none empty.
        picks: int64[p], positions in `running_rows`.
    """

    rows: Longs
    groups: Groups
    running_rows: Longs
    running_starts: Longs
    picks: Longs

    @property
    def size(self) -> int:
        return self.groups.size + len(self.picks)


def combine_contents(contents: Contents, accumulators: A) -> A:
    """The accumulators of every contents, in their order, from those of the rows that make them up."""
    group_accumulators = accumulators.take(contents.rows).combine(contents.groups)
    totals = accumulators.take(contents.running_rows).running(contents.running_starts).take(contents.picks)
    return group_accumulators.join([totals])
