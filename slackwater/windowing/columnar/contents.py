"""The contents of firings and open windows, described by the accumulator rows that make them up: a kernel
first decides all firings by row number, then combines all accumulators at once.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np

from slackwater.windowing.columnar.accumulators import Accumulators
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups
from slackwater.windowing.columnar.element_lists import ElementLists

A = TypeVar("A", bound=Accumulators)


class Contents(NamedTuple):
    """Contents 0 to m - 1: each combines some rows; a row may be part of several.

    The first `groups.size` contents combine one group of `rows` each. The others are running totals, each row
    of `running_rows` combined with the earlier rows of its run, at the positions in `picks`:

        running_rows    a    b    c  │  d    e        two runs
        running totals  a    ab   abc│  d    de
        picks                ↑    ↑          ↑        contents ab, abc, de

    Row i of `rows` belongs to group `groups.codes[i]`. `running_starts` says where each run begins in
    `running_rows`: the first at 0, none empty.
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
    """The accumulators of every contents, in order, from the accumulators of single rows."""
    group_accumulators = accumulators.take(contents.rows).combine(contents.groups)
    totals = accumulators.take(contents.running_rows).running(contents.running_starts).take(contents.picks)
    return group_accumulators.join([totals])


def combine_lists(lists: ElementLists, accumulators: A) -> A:
    """One accumulator per list of rows; lists that begin at one place are running totals of one list."""
    starts, owners, counts = np.unique(lists.starts, return_inverse=True, return_counts=True)
    is_shared = counts > 1
    seen_once, seen_more = np.flatnonzero(~is_shared[owners]), np.flatnonzero(is_shared[owners])
    single_lists = lists.take(seen_once)
    groups = Groups(np.repeat(np.arange(len(seen_once)), single_lists.lengths), len(seen_once))
    longest_ends = np.zeros(len(starts), np.int64)
    np.maximum.at(longest_ends, owners, lists.ends)
    runs = ElementLists(lists.numbers, starts[is_shared], longest_ends[is_shared])
    run_starts = np.cumsum(runs.lengths) - runs.lengths
    run_of_list = (np.cumsum(is_shared) - 1)[owners[seen_more]]
    contents = Contents(
        rows=single_lists.explode(),
        groups=groups,
        running_rows=runs.explode(),
        running_starts=run_starts,
        picks=run_starts[run_of_list] + lists.lengths[seen_more] - 1,
    )
    places = np.empty(len(owners), np.int64)
    places[np.append(seen_once, seen_more)] = np.arange(len(owners))
    return combine_contents(contents, accumulators).take(places)
