"""Which windows take which elements, where every element is looked at by itself, in order of arrival.

Of triggers nothing is known here: only of assigners, lateness and what is parked. The kernels of counted and
continuous windows begin and end here.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np

from slackwater.windowing.columnar.accumulators import Accumulators
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import group_pairs
from slackwater.windowing.columnar.contents import Contents, combined
from slackwater.windowing.columnar.fixed_windows import FixedWindows
from slackwater.windowing.columnar.kernels import SliceInput, WindowState
from slackwater.windowing.columnar.timeline.timeline import NEVER, Timeline
from slackwater.windowing.columnar.window_columns import (
    NO_CONTENTS,
    NO_TIME,
    Elements,
    OpenWindows,
)

A = TypeVar("A", bound=Accumulators)


class Assigned(NamedTuple):
    """The windows of a slice and the elements that they take; an element of several windows is several.

    Attributes:
        windows: every window that is open at the slice's start or takes an element of it; its place is its
            number. What it was before the slice; one that is new has neither elements nor contents.
        restored: int64[p], the number of each restored window.
        last_instants, cleanups: int64[n]; NEVER for the global window.
        owners: int64[m], the number of the window that takes an element, in order of arrival.
        elements: int64[m], that element's row.
        missed: how often an element was late for a window.
    """

    windows: OpenWindows
    restored: Longs
    last_instants: Longs
    cleanups: Longs
    owners: Longs
    elements: Longs
    missed: int

    @classmethod
    def of(cls, restored: OpenWindows, elements: Elements, fixed: FixedWindows | None) -> Assigned:
        """The windows of `fixed`, or the global one of each key."""
        if fixed is None:
            rows, missed = np.arange(len(elements.keys)), 0
            numbers, before = np.zeros(len(rows), np.int64), np.zeros(len(restored.keys), np.int64)
        else:
            exploded = fixed.explode(fixed.slices(elements.times))
            takes = ~fixed.are_late(exploded.windows, elements.watermarks[exploded.rows])
            rows, numbers = exploded.rows[takes], exploded.windows[takes]
            before, missed = fixed.numbers(restored.starts), len(takes) - len(rows)
        groups, keys, of_groups = group_pairs(
            np.append(restored.keys, elements.keys[rows]), np.append(before, numbers)
        )
        if fixed is None:
            starts = ends = np.full(len(keys), NO_TIME)
            last_instants = cleanups = np.full(len(keys), NEVER)
        else:
            starts = fixed.starts(of_groups)
            ends = starts + fixed.size_ms
            last_instants, cleanups = fixed.last_instants(of_groups), fixed.cleanup_times(of_groups)
        of_restored = groups.codes[: len(before)]
        windows = _new_windows(keys, starts, ends)
        for column, values in zip(windows[3:], restored[3:], strict=True):
            column[of_restored] = values
        return cls(
            windows=windows,
            restored=of_restored,
            last_instants=last_instants,
            cleanups=cleanups,
            owners=groups.codes[len(before) :],
            elements=rows,
            missed=missed,
        )

    def stay(self, timeline: Timeline) -> Booleans:
        """bool[n]: which windows are open at the slice's end."""
        is_collected = (self.cleanups <= timeline.final) | (self.last_instants <= timeline.collected)
        stays: Booleans = ~is_collected | (self.cleanups == NEVER)
        return stays

    def after(self, clocks: Longs, *, firings: Longs, last_fired_at: Longs, contents: Longs) -> OpenWindows:
        """Every window as it is once it has taken its elements.

        Args:
            clocks: int64[m], at the arrival of each taking.
            firings, last_fired_at, contents: int64[n], as in OpenWindows.
        """
        first, last = self.windows.first_arrivals.copy(), self.windows.last_arrivals.copy()
        last[self.owners] = clocks  # of several elements of a window the last one counts
        is_new = first == NO_TIME
        earliest = np.full(len(first), NO_TIME)
        earliest[self.owners[::-1]] = clocks[::-1]
        first[is_new] = earliest[is_new]
        return self.windows._replace(
            elements=self.windows.elements + np.bincount(self.owners, minlength=len(first)),
            firings=firings,
            last_fired_at=last_fired_at,
            first_arrivals=first,
            last_arrivals=last,
            contents=contents,
        )

    def parked(self, windows: OpenWindows, timeline: Timeline) -> Longs:
        """The numbers of those that stay, by key and start."""
        rows = np.flatnonzero(self.stay(timeline))
        return rows[np.lexsort((windows.starts[rows], windows.keys[rows]))]

    def accumulators_of(
        self, contents: Contents, slice_input: SliceInput[A], initial_state: WindowState[A]
    ) -> A:
        """The accumulators of contents whose row i is restored window i, and row p + j the element of taking
        j.
        """
        rows = np.append(np.arange(len(self.restored)), self.elements + len(self.restored))
        contents = contents._replace(rows=rows[contents.rows], running_rows=rows[contents.running_rows])
        return combined(contents, initial_state.accumulators.join([slice_input.element_accumulators]))


def _new_windows(keys: Longs, starts: Longs, ends: Longs) -> OpenWindows:
    """Windows before their first element."""
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
