"""Which rows of accumulators make up the contents of each firing and of each open window.

Row numbers only: whoever holds the accumulators combines them.
"""

from __future__ import annotations

from typing import NamedTuple

from slackwater.windowing.columnar.columns import Longs
from slackwater.windowing.columnar.groups import Groups


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
