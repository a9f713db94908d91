"""Assignment of single elements, in order of arrival, to windows: first and last step of the counted and
continuous kernels. Knows assigners, lateness and parked windows, but no triggers.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np

from slackwater.windowing.columnar.accumulators import Accumulators
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import group_pairs
from slackwater.windowing.columnar.contents import Contents, combine_contents
from slackwater.windowing.columnar.kernels import Counts, SliceInput, WindowState
from slackwater.windowing.columnar.numbered_windows import NumberedWindows
from slackwater.windowing.columnar.timeline.timeline import NEVER, Timeline
from slackwater.windowing.columnar.window_columns import (
    NO_CONTENTS,
    NO_TIME,
    Elements,
    OpenWindows,
    Pieces,
)

A = TypeVar("A", bound=Accumulators)


class WindowAssignments(NamedTuple):
    """The windows of a slice and the elements they take: one assignment per (element, window).

    Attributes:
        windows: every window that is open at the slice's start or takes an element, as it was before the
            slice; new windows are empty. A window's row is its number.
        restored_numbers: int64[p], the number of each window that was open at the slice's start.
        last_instants, cleanups: int64[n]; NEVER for the global window.
        owners, elements: int64[m], window number and element row of each assignment, in order of arrival.
        missed_count: number of (element, window) pairs whose window was already collected.
    """

    windows: OpenWindows
    restored_numbers: Longs
    last_instants: Longs
    cleanups: Longs
    owners: Longs
    elements: Longs
    missed_count: int

    @classmethod
    def of(
        cls, open_windows: OpenWindows, elements: Elements, numbered_windows: NumberedWindows | None
    ) -> WindowAssignments:
        """Assign elements to the grid's windows, or to the global window of their key."""
        if numbered_windows is None:
            rows, missed_count = np.arange(len(elements.keys)), 0
            numbers, open_numbers = np.zeros(len(rows), np.int64), np.zeros(len(open_windows.keys), np.int64)
        else:
            row_windows = numbered_windows.explode(numbered_windows.slices(elements.times))
            takes = ~numbered_windows.are_late(row_windows.windows, elements.watermarks[row_windows.rows])
            rows, numbers = row_windows.rows[takes], row_windows.windows[takes]
            open_numbers, missed_count = numbered_windows.numbers(open_windows.ends), len(takes) - len(rows)
        groups, keys, window_numbers = group_pairs(
            np.append(open_windows.keys, elements.keys[rows]), np.append(open_numbers, numbers)
        )
        if numbered_windows is None:
            starts = ends = np.full(len(keys), NO_TIME)
            last_instants = cleanups = np.full(len(keys), NEVER)
        else:
            starts, ends = numbered_windows.starts(window_numbers), numbered_windows.ends(window_numbers)
            last_instants, cleanups = (
                numbered_windows.last_instants(window_numbers),
                numbered_windows.cleanup_times(window_numbers),
            )
        restored_numbers = groups.codes[: len(open_numbers)]
        windows = _new_windows(keys, starts, ends)
        for column, values in zip(windows[3:], open_windows[3:], strict=True):
            column[restored_numbers] = values
        return cls(
            windows=windows,
            restored_numbers=restored_numbers,
            last_instants=last_instants,
            cleanups=cleanups,
            owners=groups.codes[len(open_numbers) :],
            elements=rows,
            missed_count=missed_count,
        )

    def are_open_at_end(self, timeline: Timeline) -> Booleans:
        is_collected = (self.cleanups <= timeline.final) | (self.last_instants <= timeline.collected_mark)
        stays: Booleans = ~is_collected | (self.cleanups == NEVER)
        return stays

    def windows_at_end(
        self,
        clocks: Longs,
        *,
        firings: Longs,
        last_fired_at: Longs,
        contents: Longs,
        pieces: Pieces | None = None,
    ) -> OpenWindows:
        """All windows after they have taken their elements. `clocks`, int64[m], is the clock at the element
        of each assignment; `firings`, `last_fired_at` and `contents`, int64[n], are as in OpenWindows;
        `pieces` are the pieces that the elements represent, if they do.
        """
        first, last = self.windows.first_arrivals.copy(), self.windows.last_arrivals.copy()
        if pieces is None:
            last[self.owners] = clocks  # of several elements of a window the last assignment counts
            element_counts = np.bincount(self.owners, minlength=len(first))
        else:
            np.maximum.at(last, self.owners, pieces.last_arrivals[self.elements])
            element_counts = np.zeros(len(first), np.int64)
            np.add.at(element_counts, self.owners, pieces.elements[self.elements])
        is_new = first == NO_TIME
        earliest = np.full(len(first), NO_TIME)
        earliest[self.owners[::-1]] = clocks[::-1]
        first[is_new] = earliest[is_new]
        return self.windows._replace(
            elements=self.windows.elements + element_counts,
            firings=firings,
            last_fired_at=last_fired_at,
            first_arrivals=first,
            last_arrivals=last,
            contents=contents,
        )

    def parked_numbers(self, windows: OpenWindows, timeline: Timeline) -> Longs:
        """The numbers of the windows that are open at the slice's end, by key and bounds."""
        rows = np.flatnonzero(self.are_open_at_end(timeline))
        return rows[np.lexsort((windows.ends[rows], windows.starts[rows], windows.keys[rows]))]

    def accumulators_of(
        self, contents: Contents, slice_input: SliceInput[A], initial_state: WindowState[A]
    ) -> A:
        """The accumulators of `contents`: row i is restored window i, row p + j assignment j's element."""
        rows = np.append(np.arange(len(self.restored_numbers)), self.elements + len(self.restored_numbers))
        contents = contents._replace(rows=rows[contents.rows], running_rows=rows[contents.running_rows])
        return combine_contents(contents, initial_state.accumulators.join([slice_input.element_accumulators]))

    def counts(self, windows_at_end: OpenWindows, unfired_elements: Longs, timeline: Timeline) -> Counts:
        """The counts of the slice; `unfired_elements`: per window, the elements that are in no firing yet."""
        is_collected = ~self.are_open_at_end(timeline)
        return Counts(
            windows_opened=len(self.windows.keys) - len(self.restored_numbers),
            windows_cleaned=int(np.count_nonzero(is_collected)),
            assignments_missed=self.missed_count,
            elements_cleaned=int(windows_at_end.elements[is_collected].sum()),
            elements_never_fired=int(unfired_elements[is_collected].sum()),
        )


def _new_windows(keys: Longs, starts: Longs, ends: Longs) -> OpenWindows:
    size = len(keys)
    return OpenWindows(
        keys=keys,
        starts=starts,
        ends=ends,
        elements=np.zeros(size, np.int64),
        firings=np.zeros(size, np.int64),
        last_fired_at=np.full(size, NO_TIME),
        first_arrivals=np.full(size, NO_TIME),
        last_arrivals=np.full(size, NO_TIME),
        contents=np.full(size, NO_CONTENTS),
    )
