"""Which rows of accumulators make up the contents of each firing and of each open window.

Kernels that decide first and combine afterwards describe contents by row numbers; `combined` makes them.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from slackwater.windowing.columnar.accumulators import Accumulators
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups

A = TypeVar("A", bound=Accumulators)


class Contents(NamedTuple):
    """Contents 0 to m - 1, each the accumulators of some rows combined; the same row may be part of several.

    The first `groups.size` are combinations of the rows of a group. The others are running totals: of
    `running_rows`, which stand in runs, combine each row with those before it in its run, and take those at
    `picks`.

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


def combined(contents: Contents, accumulators: A) -> A:
    """The accumulators of every contents, in their order, from those of the rows that make them up."""
    grouped = accumulators.take(contents.rows).combine(contents.groups)
    totals = accumulators.take(contents.running_rows).running(contents.running_starts).take(contents.picks)
    return grouped.join([totals])
