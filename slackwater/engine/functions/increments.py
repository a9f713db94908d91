"""What each firing of a window adds to what the firing before it has left.

The kernels give every firing the list of all elements that its window had taken by then. Where an evictor
takes elements away, or a fold has put them together, what counts is what came since the firing before:

    lists of one window's firings    1 2 3    1 2 3 7    1 2 3 7 9 12    parked  1 2 3 7 9 12 20
    increments                       1 2 3    7          9 12                    20

Arrays of numbers; no element, no function.
"""

from typing import NamedTuple

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import group_pairs
from slackwater.windowing.columnar.element_lists import ElementLists
from slackwater.windowing.columnar.window_columns import NO_CONTENTS, Firings, OpenWindows


class Increments(NamedTuple):
    """The increments of the windows of a slice.

    Attributes:
        owners: int64[k], the number of each firing's window.
        window_owners: int64[n], the number of each window that is open at the slice's end.
        of_windows: what came to each open window after its last firing in the slice.
    """

    owners: Longs
    of_firings: ElementLists
    window_owners: Longs
    of_windows: ElementLists

    @classmethod
    def of(
        cls,
        firings: Firings,
        lists: ElementLists,
        windows: OpenWindows,
        accumulators: ElementLists,
        *,
        accumulates: bool,
    ) -> "Increments":
        """The increments of firings, in call order with `lists` of their elements, and of open windows, whose
        `contents` are rows of `accumulators`. Where firings purge, a list is an increment.
        """
        count = len(firings.keys)
        lists_of_windows = contents_of(windows, accumulators)
        groups, _, _ = group_pairs(
            np.append(firings.keys, windows.keys), np.append(firings.starts, windows.starts)
        )
        owners, window_owners = groups.codes[:count], groups.codes[count:]
        if not accumulates:
            return cls(owners, lists, window_owners, lists_of_windows)
        lengths = np.append(lists.lengths, lists_of_windows.lengths)
        order = np.argsort(groups.codes, kind="stable")
        lengths_before = np.zeros(len(lengths), np.int64)
        follows = groups.codes[order[1:]] == groups.codes[order[:-1]]
        lengths_before[order[1:][follows]] = lengths[order[:-1][follows]]
        lengths_before = np.minimum(lengths_before, lengths)
        return cls(
            owners,
            lists.without_first(lengths_before[:count]),
            window_owners,
            lists_of_windows.without_first(lengths_before[count:]),
        )


def contents_of(windows: OpenWindows, accumulators: ElementLists) -> ElementLists:
    """The elements of each window; none of a window without contents."""
    has_contents = windows.contents != NO_CONTENTS
    bounds = np.zeros((2, len(windows.keys)), np.int64)
    of_windows = accumulators.take(windows.contents[has_contents])
    bounds[:, has_contents] = of_windows.starts, of_windows.ends
    return ElementLists(accumulators.numbers, *bounds)
