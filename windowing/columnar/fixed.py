"""The kernel of tumbling and sliding windows with an event-time trigger, also inside a purging one.

A watermark only rises, so in the life of every window elements on time come first, then its firing, then late
elements, each of which fires it again until the window is collected:

    elements on time      firing       late elements, a firing each       cleanup
    ├─────────────────────────●────────────●──────●────────────●──────────────┤
                      last instant                          last instant + lateness

So one slice is three steps on whole columns. *Due* windows, those that have not fired before, are put
together from all of their pieces and from what was parked of them. Those that a watermark of the slice
reaches fire. Late elements, sorted by window and arrival, fire theirs again with running totals upon what it
held. Windows are numbers on a grid meanwhile (see FixedWindows): where a time would be computed, a number is
compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from slackwater.windowing.columnar.accumulators import Accumulators
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs, rows_where
from slackwater.windowing.columnar.arrays.groups import (
    Groups,
    greatest_of_groups,
    group_pairs,
    least_of_groups,
    run_numbers,
    run_starts,
    sum_of_groups,
)
from slackwater.windowing.columnar.arrays.orders import order_of_pairs, positions_of_pairs
from slackwater.windowing.columnar.fixed_windows import FixedWindows
from slackwater.windowing.columnar.kernels import Counts, SliceInput, SliceResult, WindowState
from slackwater.windowing.columnar.parking import timers_at_last_instants
from slackwater.windowing.columnar.timeline.timeline import Timeline
from slackwater.windowing.columnar.window_columns import (
    NO_CONTENTS,
    NO_TIME,
    Firings,
    LateElements,
    OpenWindows,
    PaneKind,
    Pieces,
    rows_of,
    together,
)

A = TypeVar("A", bound=Accumulators)


@dataclass(frozen=True)
class FixedRules:
    """What the user chose.

    Attributes:
        windows: the assigner's, with their lateness.
        accumulates: whether a firing leaves contents where they are; otherwise it purges them.
    """

    windows: FixedWindows
    accumulates: bool


def replay_fixed(
    slice_input: SliceInput[A], initial_state: WindowState[A], timeline: Timeline, rules: FixedRules
) -> SliceResult[A]:
    """Replay one slice.

    Args:
        received: pieces by slice of elements on time for all of their windows, in any order; and the elements
            that are behind for some window of theirs.
        restored: the windows that are open at the slice's start.
        timeline: the slice's watermarks.
        rules: what the user chose.

    Returns:
        Firings on time, then late ones by window; open windows the oldest of all keys first, so that equal
        times stand side by side, and what some windows lack is at one end: they are written, hashed and read
        in less time.
    """
    return _Slice(rules.windows, rules.accumulates, timeline).replay(slice_input, initial_state)


class _Part(NamedTuple, Generic[A]):
    """Pieces of windows, whose places are numbers of windows here, and the accumulator of each."""

    pieces: Pieces
    accumulators: A


class _LateTakings(NamedTuple, Generic[A]):
    """Late elements that fire windows again, by window and arrival; one row for each (element, window)."""

    keys: Longs
    numbers: Longs
    clocks: Longs
    watermarks: Longs
    accumulators: A


@dataclass(frozen=True)
class _Slice:
    """One slice of one range. `starts` and `ends` of OpenWindows are both the window's number on the grid
    here; `_on_the_clock` gives their times.
    """

    windows: FixedWindows
    accumulates: bool
    timeline: Timeline

    def replay(self, slice_input: SliceInput[A], initial_state: WindowState[A]) -> SliceResult[A]:
        numbers = self.windows.numbers(initial_state.windows.starts)
        before = initial_state.windows._replace(starts=numbers, ends=numbers)
        has_fired = numbers <= self.windows.newest_passed(self.timeline.initial)
        of_waiting, of_fired = rows_where(~has_fired), rows_where(has_fired)
        on_time, late, missed = self._assign(slice_input)
        due, accumulators = self._due(
            [self._windows_of_pieces(slice_input), on_time],
            rows_of(before, of_waiting),
            initial_state.accumulators.take(of_waiting),
        )
        fired, firings = self._fire(due)
        old = rows_of(before, of_fired)
        existing = together([fired, _with_contents(old, len(due.keys) + np.arange(len(old.keys)))])
        accumulators = accumulators.join([initial_state.accumulators.take(of_fired)])
        refired, is_replaced, refirings, totals = self._refire(existing, accumulators, late)
        windows, elements_cleaned = self._staying(existing, is_replaced, refired)
        total = len(existing.keys) - int(np.count_nonzero(is_replaced)) + len(refired.keys)
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
                windows_opened=total - len(before.keys),
                windows_cleaned=total - len(windows.keys),
                assignments_missed=missed,
                elements_cleaned=elements_cleaned,
            ),
        )

    @property
    def _newest_closed(self) -> int:
        """The newest of the windows that are collected by the slice's end."""
        return self.windows.newest_collected(self.timeline.final)

    def _on_the_clock(self, windows: OpenWindows) -> OpenWindows:
        """The same windows with their times instead of their numbers."""
        starts = self.windows.starts(windows.starts)
        return windows._replace(starts=starts, ends=starts + self.windows.size_ms)

    def _windows_of_pieces(self, slice_input: SliceInput[A]) -> _Part[A]:
        """Pieces of slices as pieces of the windows that hold them."""
        pieces = slice_input.pieces
        if self.windows.overlap and len(pieces.keys):
            return self._of_spans(pieces, slice_input.piece_accumulators)
        numbers = self.windows.newest_windows(pieces.firsts)
        return _Part(pieces._replace(firsts=numbers, lasts=numbers), slice_input.piece_accumulators)

    def _of_spans(self, pieces: Pieces, piece_accumulators: A) -> _Part[A]:
        """As `_windows_of_pieces` where windows overlap. The pieces of a key become one row a slice, of which
        each window spans some.
        """
        groups, keys, slices = group_pairs(pieces.keys, pieces.firsts)
        ascends = (keys[1:] > keys[:-1]) | ((keys[1:] == keys[:-1]) & (slices[1:] > slices[:-1]))
        if not ascends.all():  # keys and slices that lie far apart are numbered as they appear
            order = np.lexsort((slices, keys))
            ranks = np.empty(groups.size, np.int64)
            ranks[order] = np.arange(groups.size)
            groups, keys, slices = Groups(ranks[groups.codes], groups.size), keys[order], slices[order]
        numbers, spans = self.windows.spanned(slices, run_starts(keys))
        first, last = self._arrivals(pieces, self.windows.newest_windows(pieces.firsts), groups)
        is_needed = numbers > self._newest_closed
        first_of_spans, last_of_spans = np.zeros((2, len(numbers)), np.int64)
        if is_needed.any():
            open_spans = spans.where(is_needed)
            first_of_spans[is_needed], last_of_spans[is_needed] = (
                open_spans.least(first),
                open_spans.greatest(last),
            )
        of_windows = Pieces(
            keys=keys[spans.firsts],
            firsts=numbers,
            lasts=numbers,
            elements=spans.sum(sum_of_groups(pieces.elements, groups)),
            first_arrivals=first_of_spans,
            last_arrivals=last_of_spans,
        )
        return _Part(of_windows, piece_accumulators.combine(groups).combine_spans(spans))

    def _arrivals(self, pieces: Pieces, newest_windows: Longs, groups: Groups) -> tuple[Longs, Longs]:
        """First and last arrival of each group of pieces; 0 where all windows of a group are closed by the
        slice's end, as nobody will ask.
        """
        open_rows = np.flatnonzero(newest_windows > self._newest_closed)
        if not len(open_rows):
            return np.zeros(groups.size, np.int64), np.zeros(groups.size, np.int64)
        groups_of_open = Groups(groups.codes[open_rows], groups.size)
        first = least_of_groups(pieces.first_arrivals[open_rows], groups_of_open)
        return first, greatest_of_groups(pieces.last_arrivals[open_rows], groups_of_open)

    def _assign(self, slice_input: SliceInput[A]) -> tuple[_Part[A], _LateTakings[A], int]:
        """Elements that are behind for some of their windows: pieces of those that wait, takings of those
        that have fired, and how often an element missed one.
        """
        keys, times, clocks, watermarks = slice_input.elements
        exploded = self.windows.explode(self.windows.slices(times))
        in_force = watermarks[exploded.rows]
        waits = self.windows.last_instants(exploded.windows) > in_force
        is_missed = self.windows.are_late(exploded.windows, in_force)
        rows, numbers = exploded.rows[waits], exploded.windows[waits]
        on_time = Pieces(
            keys=keys[rows],
            firsts=numbers,
            lasts=numbers,
            elements=np.ones(len(rows), np.int64),
            first_arrivals=clocks[rows],
            last_arrivals=clocks[rows],
        )
        is_again = ~waits & ~is_missed
        late_rows, numbers = exploded.rows[is_again], exploded.windows[is_again]
        order = np.lexsort((late_rows, numbers, keys[late_rows]))
        late_rows, numbers = late_rows[order], numbers[order]
        late = _LateTakings(
            keys=keys[late_rows],
            numbers=numbers,
            clocks=clocks[late_rows],
            watermarks=watermarks[late_rows],
            accumulators=slice_input.element_accumulators.take(late_rows),
        )
        part = _Part(on_time, slice_input.element_accumulators.take(rows))
        return part, late, int(np.count_nonzero(is_missed))

    def _due(self, parts: Sequence[_Part[A]], waiting: OpenWindows, of_waiting: A) -> tuple[OpenWindows, A]:
        """Windows that have not fired before the slice, each from all of its pieces and what was parked of
        it: the oldest window of all keys first where they lie close together, so that those that fire, and
        those that close, stand side by side.
        """
        parked = Pieces(
            keys=waiting.keys,
            firsts=waiting.starts,
            lasts=waiting.ends,
            elements=waiting.elements,
            first_arrivals=waiting.first_arrivals,
            last_arrivals=waiting.last_arrivals,
        )
        pieces = together([*(part.pieces for part in parts), parked])
        if not len(pieces.keys):
            return waiting, of_waiting
        first_part, *others = [*(part.accumulators for part in parts), of_waiting]
        groups, numbers, keys = group_pairs(pieces.firsts, pieces.keys)
        first, last = self._arrivals(pieces, pieces.firsts, groups)
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

    def _fire(self, due: OpenWindows) -> tuple[OpenWindows, Firings]:
        """Fire the windows whose last instant a watermark of the slice reaches."""
        fires = due.starts <= self.windows.newest_passed(self.timeline.final)
        fired = rows_of(due, at := rows_where(fires))
        rises = _by_window(
            fired.starts,
            lambda numbers: np.searchsorted(self.timeline.watermarks, self.windows.last_instants(numbers)),
        )
        tick_ends, starts = self.timeline.tick_ends[rises], self.windows.starts(fired.starts)
        firings = Firings(
            keys=fired.keys,
            starts=starts,
            ends=starts + self.windows.size_ms,
            firings=np.ones(len(rises), np.int64),
            kinds=np.full(len(rises), PaneKind.ON_TIME),
            elements=fired.elements,
            watermarks=self.timeline.watermarks[rises],
            tick_ends=tick_ends,
            causes=np.full(len(rises), NO_TIME),
            contents=fired.contents,
        )
        last_fired_at = due.last_fired_at.copy()
        last_fired_at[at] = tick_ends
        contents = due.contents if self.accumulates else np.where(fires, NO_CONTENTS, due.contents)
        after = due._replace(firings=fires.astype(np.int64), last_fired_at=last_fired_at, contents=contents)
        return after, firings

    def _refire(
        self, existing: OpenWindows, accumulators: A, late: _LateTakings[A]
    ) -> tuple[OpenWindows, Booleans, Firings, A]:
        """Fire a window again for each late element: with running totals, or with that element alone where
        firings purge.

        Returns:
            Those windows as they are then, which of `existing` they replace, the firings, and what these
            show; contents are numbered on from those of `existing`.
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
        elements, firing_numbers = elements_before[runs] + places, firings_before[runs] + places
        totals = late.accumulators
        if self.accumulates:
            holds = base.contents != NO_CONTENTS
            totals = _running(accumulators.take(base.contents[holds]), with_base[holds], totals, runs)
        contents = len(existing.keys) + np.arange(len(late.keys))
        starts = self.windows.starts(late.numbers)
        firings = Firings(
            keys=late.keys,
            starts=starts,
            ends=starts + self.windows.size_ms,
            firings=firing_numbers,
            kinds=np.full(len(late.keys), PaneKind.LATE),
            elements=elements,
            watermarks=late.watermarks,
            tick_ends=np.full(len(late.keys), NO_TIME),
            causes=late.clocks,
            contents=contents,
        )
        ends = np.append(begins, len(late.keys))[1:] - 1
        first_arrivals = late.clocks[begins]
        first_arrivals[with_base] = base.first_arrivals
        refired = OpenWindows(
            keys=late.keys[ends],
            starts=late.numbers[ends],
            ends=late.numbers[ends],
            elements=elements[ends],
            firings=firing_numbers[ends],
            last_fired_at=late.clocks[ends],
            first_arrivals=first_arrivals,
            last_arrivals=late.clocks[ends],
            contents=contents[ends] if self.accumulates else np.full(len(ends), NO_CONTENTS),
        )
        is_replaced = np.zeros(len(existing.keys), np.bool_)
        is_replaced[bases[with_base]] = True
        return refired, is_replaced, firings, totals

    def _staying(
        self, existing: OpenWindows, is_replaced: Booleans, refired: OpenWindows
    ) -> tuple[OpenWindows, int]:
        """(windows that are open at the slice's end, the oldest of all keys first; elements of the others),
        each window as it is by then.
        """
        is_open, is_open_again = (windows.starts > self._newest_closed for windows in (existing, refired))
        cleaned = existing.elements[~is_open & ~is_replaced].sum() + refired.elements[~is_open_again].sum()
        windows = together(
            [
                rows_of(existing, rows_where(is_open & ~is_replaced)),
                rows_of(refired, rows_where(is_open_again)),
            ]
        )
        ordered = rows_of(windows, order_of_pairs(windows.starts, windows.keys))
        return self._on_the_clock(ordered), int(cleaned)


def _with_contents(windows: OpenWindows, contents: Longs) -> OpenWindows:
    """The same windows, those that hold anything with these contents."""
    return windows._replace(contents=np.where(windows.contents == NO_CONTENTS, NO_CONTENTS, contents))


def _running(of_bases: A, owners: Longs, of_late: A, runs: Longs) -> A:
    """The running totals of runs of late elements, upon what their windows held before: row i of `of_bases`
    stands in front of run owners[i].
    """
    of_runs = np.append(owners, runs)
    order = np.lexsort((np.append(np.full(len(owners), -1), np.arange(len(runs))), of_runs))
    totals = of_bases.join([of_late]).take(order).running(run_starts(of_runs[order]))
    return totals.take(np.flatnonzero(order >= len(owners)))


def _by_window(windows: Longs, function: Callable[[Longs], Longs]) -> Longs:
    """`function` of each window, computed once for each of those between the first and the last where they
    are fewer than the rows.
    """
    if not len(windows):
        return windows
    first, last = int(windows.min()), int(windows.max())
    if last - first >= len(windows):
        return function(windows)
    return function(np.arange(first, last + 1))[windows - first]
