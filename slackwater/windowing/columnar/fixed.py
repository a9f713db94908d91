"""The kernel of tumbling, sliding, cumulative and calendar windows with an event-time trigger, also inside a
purging one.

A watermark only rises, so every window first takes elements on time, then fires, then takes late elements,
each of which fires it again until the window is collected:

    elements on time      firing       late elements, a firing each       cleanup
    ├─────────────────────────●────────────●──────●────────────●──────────────┤
                      last instant                          last instant + lateness

So one slice is three steps on whole columns:

1. Waiting windows, which have not fired before the slice, are merged from their pieces and parked contents.
2. A waiting window whose last instant a watermark of the slice reaches fires on time.
3. Late elements, sorted by window and arrival, fire their windows again, each with the running total of the
window's contents and the late elements up to this one.

In here a window is its number on the grid (see NumberedWindows): comparing windows needs no times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from slackwater.windowing.columnar.accumulators import Accumulators
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs, rows_where
from slackwater.windowing.columnar.arrays.groups import (
    group_pairs,
    run_numbers,
    run_starts,
    sum_of_groups,
)
from slackwater.windowing.columnar.arrays.orders import order_of_pairs, positions_of_pairs
from slackwater.windowing.columnar.kernels import Counts, SliceInput, SliceResult, WindowState
from slackwater.windowing.columnar.numbered_windows import NumberedWindows
from slackwater.windowing.columnar.timeline.timeline import Timeline
from slackwater.windowing.columnar.window_columns import (
    NO_CONTENTS,
    NO_TIME,
    Firings,
    LateElements,
    OpenWindows,
    PaneKind,
    Pieces,
    concatenate,
    on_time_firings,
    rows_of,
    timers_at_last_instants,
)
from slackwater.windowing.columnar.window_pieces import (
    LateAssignments,
    WindowPieces,
    arrival_bounds,
    assign_elements,
    pieces_of_windows,
)

A = TypeVar("A", bound=Accumulators)


@dataclass(frozen=True)
class FixedRules:
    """The declared windows and trigger. Unless it `accumulates`, a window is purged when it fires."""

    windows: NumberedWindows
    accumulates: bool


def replay_fixed(
    slice_input: SliceInput[A], initial_state: WindowState[A], timeline: Timeline, rules: FixedRules
) -> SliceResult[A]:
    """Replay one slice.

    `slice_input` has pieces by key and grid slice, in any order, of elements that are on time for all of
    their windows, and single elements that the watermark has passed in some window. Returns firings on time,
    then late firings by window. Open windows come by end and then key: equal times and unfired windows are
    adjacent, which makes the snapshot faster to write, hash and read.
    """
    return _FixedSlice(rules.windows, rules.accumulates, timeline).replay(slice_input, initial_state)


@dataclass(frozen=True)
class _FixedSlice:
    """The replay of one slice of one range. `starts` and `ends` of its `OpenWindows` both hold the window's
    number, until `_with_times` replaces it by times.
    """

    windows: NumberedWindows
    accumulates: bool
    timeline: Timeline

    def replay(self, slice_input: SliceInput[A], initial_state: WindowState[A]) -> SliceResult[A]:
        numbers = self.windows.numbers(initial_state.windows.ends)
        windows_at_start = initial_state.windows._replace(starts=numbers, ends=numbers)
        has_fired = numbers <= self.windows.newest_passed(self.timeline.initial)
        waiting_rows, fired_rows = rows_where(~has_fired), rows_where(has_fired)
        on_time, late, missed_count = assign_elements(slice_input, self.windows)
        due, accumulators = self._merge_due_windows(
            [pieces_of_windows(slice_input, self.windows, self._newest_collected), on_time],
            rows_of(windows_at_start, waiting_rows),
            initial_state.accumulators.take(waiting_rows),
        )
        after_firing, firings = self._fire_due_windows(due)
        fired_windows = rows_of(windows_at_start, fired_rows)
        existing = concatenate(
            [after_firing, _with_contents(fired_windows, len(due.keys) + np.arange(len(fired_windows.keys)))]
        )
        accumulators = accumulators.join([initial_state.accumulators.take(fired_rows)])
        refired_windows, is_replaced, refirings, totals = self._fire_late_elements(
            existing, accumulators, late
        )
        windows, elements_cleaned = self._windows_still_open(existing, is_replaced, refired_windows)
        total = len(existing.keys) - int(np.count_nonzero(is_replaced)) + len(refired_windows.keys)
        next_firings, timers = timers_at_last_instants(windows, self.windows.lateness_ms, self.timeline)
        return SliceResult(
            firings=[firings, refirings],
            windows=windows,
            triggers=None,
            next_firings=next_firings,
            timers=timers,
            accumulators=accumulators.join([totals]),
            late=LateElements.none(),
            counts=Counts(
                windows_opened=total - len(windows_at_start.keys),
                windows_cleaned=total - len(windows.keys),
                assignments_missed=missed_count,
                elements_cleaned=elements_cleaned,
            ),
        )

    @property
    def _newest_collected(self) -> int:
        return self.windows.newest_collected(self.timeline.final)

    def _with_times(self, windows: OpenWindows) -> OpenWindows:
        return windows._replace(
            starts=self.windows.starts(windows.starts), ends=self.windows.ends(windows.starts)
        )

    def _merge_due_windows(
        self, parts: Sequence[WindowPieces[A]], waiting: OpenWindows, waiting_accumulators: A
    ) -> tuple[OpenWindows, A]:
        """The windows that have not fired before the slice, each merged from its pieces and its parked
        contents, and their accumulators: sorted by window and then key, so that windows that fire or are
        collected are consecutive rows, unless they lie far apart (see `group_pairs`).
        """
        parked_pieces = Pieces(
            keys=waiting.keys,
            firsts=waiting.starts,
            lasts=waiting.ends,
            elements=waiting.elements,
            first_arrivals=waiting.first_arrivals,
            last_arrivals=waiting.last_arrivals,
        )
        pieces = concatenate([*(part.pieces for part in parts), parked_pieces])
        if not len(pieces.keys):
            return waiting, waiting_accumulators
        first_part, *others = [*(part.accumulators for part in parts), waiting_accumulators]
        groups, numbers, keys = group_pairs(pieces.firsts, pieces.keys)
        first, last = arrival_bounds(pieces, pieces.firsts, groups, self._newest_collected)
        due = OpenWindows(
            keys=keys,
            starts=numbers,
            ends=numbers,
            elements=sum_of_groups(pieces.elements, groups),
            firings=np.zeros(groups.size, np.int64),
            last_fired_at=np.full(groups.size, NO_TIME),
            first_arrivals=first,
            last_arrivals=last,
            contents=np.arange(groups.size),
        )
        return due, first_part.join(others).combine(groups)

    def _fire_due_windows(self, due: OpenWindows) -> tuple[OpenWindows, Firings]:
        """(all windows afterwards, firings) for windows whose last instant the slice's watermarks reach."""
        fires = due.starts <= self.windows.newest_passed(self.timeline.final)
        firing_windows = rows_of(due, at := rows_where(fires))
        rises = _compute_by_window(
            firing_windows.starts,
            lambda numbers: np.searchsorted(self.timeline.watermarks, self.windows.last_instants(numbers)),
        )
        tick_ends = self.timeline.tick_ends[rises]
        firings = on_time_firings(
            self._with_times(firing_windows), self.timeline.watermarks[rises], tick_ends
        )
        last_fired_at = due.last_fired_at.copy()
        last_fired_at[at] = tick_ends
        contents = due.contents if self.accumulates else np.where(fires, NO_CONTENTS, due.contents)
        after_firing = due._replace(
            firings=fires.astype(np.int64), last_fired_at=last_fired_at, contents=contents
        )
        return after_firing, firings

    def _fire_late_elements(
        self, existing: OpenWindows, accumulators: A, late: LateAssignments[A]
    ) -> tuple[OpenWindows, Booleans, Firings, A]:
        """Fire a window again for each of its late elements: with the running total, or, where firings purge,
        with that element alone.

            window before the slice   5 elements         (no base: a window that a late element creates)
            late elements             a     b     c
            contents of the firings   5+a   5+a+b 5+a+b+c

        Returns the refired windows afterwards; bool for each existing window that one of them replaces; the
        firings; and their accumulators, whose rows are numbered after the rows of `existing`.
        """
        begins = run_starts(late.keys, late.numbers)
        runs = run_numbers(begins, len(late.keys))
        bases = positions_of_pairs(
            (late.keys[begins], late.numbers[begins]), among=(existing.keys, existing.starts)
        )
        with_base = np.flatnonzero(bases >= 0)
        base = rows_of(existing, bases[with_base])
        elements_before, firings_before = np.zeros((2, len(begins)), np.int64)
        elements_before[with_base], firings_before[with_base] = base.elements, base.firings
        places = np.arange(len(late.keys)) - begins[runs] + 1
        totals = late.accumulators
        if self.accumulates:
            holds = base.contents != NO_CONTENTS
            totals = _running_totals(accumulators.take(base.contents[holds]), with_base[holds], totals, runs)
        firings = Firings(
            keys=late.keys,
            starts=self.windows.starts(late.numbers),
            ends=self.windows.ends(late.numbers),
            firings=firings_before[runs] + places,
            kinds=np.full(len(late.keys), PaneKind.LATE),
            elements=elements_before[runs] + places,
            watermarks=late.watermarks,
            tick_ends=np.full(len(late.keys), NO_TIME),
            causes=late.clocks,
            contents=len(existing.keys) + np.arange(len(late.keys)),
        )
        first_arrivals = late.clocks[begins]
        first_arrivals[with_base] = base.first_arrivals
        refired_windows = self._refired_windows(late, firings, begins, first_arrivals)
        is_replaced = np.zeros(len(existing.keys), np.bool_)
        is_replaced[bases[with_base]] = True
        return refired_windows, is_replaced, firings, totals

    def _refired_windows(
        self, late: LateAssignments[A], firings: Firings, begins: Longs, first_arrivals: Longs
    ) -> OpenWindows:
        """The windows after their last late element; `begins` says where the elements of each begin."""
        ends = np.append(begins, len(late.keys))[1:] - 1
        return OpenWindows(
            keys=late.keys[ends],
            starts=late.numbers[ends],
            ends=late.numbers[ends],
            elements=firings.elements[ends],
            firings=firings.firings[ends],
            last_fired_at=late.clocks[ends],
            first_arrivals=first_arrivals,
            last_arrivals=late.clocks[ends],
            contents=firings.contents[ends] if self.accumulates else np.full(len(ends), NO_CONTENTS),
        )

    def _windows_still_open(
        self, existing: OpenWindows, is_replaced: Booleans, refired_windows: OpenWindows
    ) -> tuple[OpenWindows, int]:
        """(windows open at the slice's end, by end and key; number of elements of the collected ones)."""
        is_open, is_open_again = (
            windows.starts > self._newest_collected for windows in (existing, refired_windows)
        )
        elements_cleaned = (
            existing.elements[~is_open & ~is_replaced].sum() + refired_windows.elements[~is_open_again].sum()
        )
        windows = concatenate(
            [
                rows_of(existing, rows_where(is_open & ~is_replaced)),
                rows_of(refired_windows, rows_where(is_open_again)),
            ]
        )
        windows_in_order = rows_of(windows, order_of_pairs(windows.starts, windows.keys))
        return self._with_times(windows_in_order), int(elements_cleaned)


def _with_contents(windows: OpenWindows, contents: Longs) -> OpenWindows:
    """The same windows with other numbers of contents; windows without contents stay so."""
    return windows._replace(contents=np.where(windows.contents == NO_CONTENTS, NO_CONTENTS, contents))


def _running_totals(base_accumulators: A, owners: Longs, late_accumulators: A, runs: Longs) -> A:
    """Running totals of each run; the total of run owners[i] begins with row i of `base_accumulators`."""
    runs_of_rows = np.append(owners, runs)
    order = np.lexsort((np.append(np.full(len(owners), -1), np.arange(len(runs))), runs_of_rows))
    totals = base_accumulators.join([late_accumulators]).take(order).running(run_starts(runs_of_rows[order]))
    return totals.take(np.flatnonzero(order >= len(owners)))


def _compute_by_window(windows: Longs, function: Callable[[Longs], Longs]) -> Longs:
    """`function` of each row's window, computed once per number if their range is smaller than the rows."""
    if not len(windows):
        return windows
    first, last = int(windows.min()), int(windows.max())
    if last - first >= len(windows):
        return function(windows)
    return function(np.arange(first, last + 1))[windows - first]
