"""The kernel of windows whose trigger fires at each multiple of an interval that the watermark passes, and at
their last instant, also inside a purging trigger (Flink: ContinuousEventTimeTrigger). For a trigger that
fires only at the end of the global window the interval is ONLY_AT_THE_END.

    event time   ──┬───────┬───────┬───────┬──────┤
                 first   firings, one for each    last instant
                element  multiple of the interval

The first element of a window arms it: the next firing is at the first multiple of the interval after the
element's time (rounded towards zero, as in Flink). When the watermark passes that multiple, the window fires,
and once more for each further multiple up to the watermark, all at the same tick end. A firing holds the
elements that came before this tick end, whatever their times. An element that comes after the last instant
has passed fires its window at once.

So the rises of the watermark alone decide which elements a firing holds. Elements of one window that come
between two rises, before its last instant has passed, may come combined into a piece: the first of them
represents all, because it may be the one that arms the window.

    watermark rises  ─────┬───────────────┬───────────┬──
    elements              a  b  c  d      e  f        g
    pieces                abcd, by a      ef, by e    g
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from slackwater.windowing.columnar.accumulators import Accumulators
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import Groups, group_pairs, run_numbers, run_starts
from slackwater.windowing.columnar.assignments import WindowAssignments
from slackwater.windowing.columnar.contents import Contents
from slackwater.windowing.columnar.kernels import SliceInput, SliceResult, WindowState
from slackwater.windowing.columnar.numbered_windows import NumberedWindows
from slackwater.windowing.columnar.timeline.timeline import NEVER, Timeline
from slackwater.windowing.columnar.window_columns import (
    NO_CONTENTS,
    NO_TIME,
    Firings,
    LateElements,
    OpenWindows,
    PaneKind,
    Pieces,
    Timers,
    TriggerStates,
    rows_of,
    timers_for,
    timers_of,
)

A = TypeVar("A", bound=Accumulators)

ONLY_AT_THE_END: Final = NEVER  # an interval without a multiple before any last instant


@dataclass(frozen=True)
class ContinuousRules:
    """The declared windows (None: the global window) and trigger. `interval_ms` may be ONLY_AT_THE_END.
    Unless it `accumulates`, a window is purged when it fires, and does not fire without contents.
    """

    windows: NumberedWindows | None
    interval_ms: int
    accumulates: bool


def replay_continuous(
    slice_input: SliceInput[A], initial_state: WindowState[A], timeline: Timeline, rules: ContinuousRules
) -> SliceResult[A]:
    """Replay one slice. Firings come by window and, within it, in order; open windows by key and start.

    Args:
        slice_input: elements that some window takes. Without pieces each represents itself; otherwise element
            i represents row i of the pieces and accumulators.
        initial_state: a window's trigger state is the time of its next firing (of the last one, once that is
            past); NO_TIME if its first element came after its last instant.
    """
    assert initial_state.triggers is not None
    assignments = WindowAssignments.of(initial_state.windows, slice_input.elements, rules.windows)
    triggers_at_start = _triggers_at_start(assignments, initial_state.triggers, rules.interval_ms)
    slice_ = _ContinuousSlice.of(assignments, triggers_at_start, slice_input, rules.interval_ms, timeline)
    if rules.accumulates:
        slice_firings = slice_.fire_accumulating()
    else:
        slice_firings = slice_.fire_purging(initial_state.windows.contents)
    windows_at_end, triggers = slice_.state_at_end(slice_firings)
    parked_numbers = assignments.parked_numbers(windows_at_end, timeline)
    windows, fire_times = rows_of(windows_at_end, parked_numbers), triggers.values[parked_numbers]
    last_instants, cleanups = assignments.last_instants[parked_numbers], assignments.cleanups[parked_numbers]
    waits = last_instants > timeline.final
    values = np.full(len(parked_numbers), NO_TIME) if rules.interval_ms == ONLY_AT_THE_END else fire_times
    return SliceResult(
        firings=[slice_firings.firings],
        windows=windows,
        triggers=TriggerStates(values=values, unfired_elements=triggers.unfired_elements[parked_numbers]),
        next_firings=np.where(waits & (fire_times != NEVER), fire_times, NO_TIME),
        timers=[
            *_timers_of_trigger(windows, waits, fire_times, last_instants),
            *timers_of(windows, waits, last_instants, cleanups),
        ],
        accumulators=assignments.accumulators_of(slice_firings.contents, slice_input, initial_state),
        late=LateElements.none(),
        counts=assignments.counts(windows_at_end, triggers.unfired_elements, timeline),
    )


def _triggers_at_start(
    assignments: WindowAssignments, restored_triggers: TriggerStates, interval_ms: int
) -> TriggerStates:
    """Each window's trigger state before the slice; NO_TIME for new windows, which nothing has armed yet."""
    size, restored_numbers = len(assignments.windows.keys), assignments.restored_numbers
    triggers = TriggerStates(values=np.full(size, NO_TIME), unfired_elements=np.zeros(size, np.int64))
    for column, values in zip(triggers, restored_triggers, strict=True):
        column[restored_numbers] = values
    if interval_ms == ONLY_AT_THE_END:
        triggers.values[restored_numbers] = assignments.last_instants[restored_numbers]
    return triggers


def _timers_of_trigger(
    windows: OpenWindows, waits: Booleans, fire_times: Longs, last_instants: Longs
) -> list[Timers]:
    """Timers of next firings before the last instant; for global windows, of the firing at the end."""
    return [
        timers_for("trigger", windows, waits & (fire_times < last_instants), fire_times),
        timers_for("trigger", windows, waits & (last_instants == NEVER), last_instants),
    ]


class _SliceFirings(NamedTuple):
    """The firings of a slice: by window and, within it, in order.

    `owners`, int64[k], are their window numbers; `contents` the rows that make up the contents of firings
    and windows; `contents_at_end`, int64[n], the contents of each window at the slice's end, or NO_CONTENTS.
    """

    firings: Firings
    owners: Longs
    contents: Contents
    contents_at_end: Longs


@dataclass(frozen=True)
class _ContinuousSlice:
    """The assignments of one slice, sorted by window and arrival.

    Attributes:
        fire_times: int64[n], the next firing of each window, restored or set when the slice arms it.
        unfired_elements: int64[n], per window, elements in no firing before the slice.
        order: int64[m], the place of each row among the assignments.
        owners, clocks, watermarks: int64[m], each row's window, and clock and watermark at its element.
        rises: int64[m], how often the watermark has risen in the slice before the element.
        is_late: bool[m], the watermark has passed the window's last instant: the element fires it at once.
        begins, counts: int64[n], the first row of each window, and its number of rows.
        elements_before: int64[m + 1], number of elements represented by the earlier rows.
        pieces: what the elements represent; None if themselves.
        armed_at: int64[n], rises of the watermark when the slice armed the window; 0 if it was armed before.
    """

    assignments: WindowAssignments
    fire_times: Longs
    unfired_elements: Longs
    interval_ms: int
    timeline: Timeline
    order: Longs
    owners: Longs
    clocks: Longs
    watermarks: Longs
    rises: Longs
    is_late: Booleans
    begins: Longs
    counts: Longs
    elements_before: Longs
    pieces: Pieces | None
    armed_at: Longs

    @classmethod
    def of(
        cls,
        assignments: WindowAssignments,
        triggers_at_start: TriggerStates,
        slice_input: SliceInput[Any],
        interval_ms: int,
        timeline: Timeline,
    ) -> _ContinuousSlice:
        order = np.argsort(assignments.owners, kind="stable")
        rows = assignments.elements[order]
        owners, in_order = assignments.owners[order], rows_of(slice_input.elements, rows)
        pieces = slice_input.pieces if len(slice_input.pieces.keys) else None
        elements_of_rows = np.ones(len(rows), np.int64) if pieces is None else pieces.elements[rows]
        last_instants, fire_times = assignments.last_instants, triggers_at_start.values.copy()
        is_late = last_instants[owners] <= in_order.watermarks
        rises = np.searchsorted(timeline.tick_ends, in_order.clocks, side="right")
        counts = np.bincount(owners, minlength=len(last_instants))
        armed_at = np.zeros(len(last_instants), np.int64)
        firsts = run_starts(owners)
        arming = firsts[(fire_times[owners[firsts]] == NO_TIME) & ~is_late[firsts]]
        armed_windows, times = owners[arming], in_order.times[arming]
        floors = times - np.fmod(times, interval_ms)
        fire_times[armed_windows] = np.minimum(floors + interval_ms, last_instants[armed_windows])
        armed_at[armed_windows] = rises[arming]
        return cls(
            assignments=assignments,
            fire_times=fire_times,
            unfired_elements=triggers_at_start.unfired_elements,
            interval_ms=interval_ms,
            timeline=timeline,
            order=order,
            owners=owners,
            clocks=in_order.clocks,
            watermarks=in_order.watermarks,
            rises=rises,
            is_late=is_late,
            begins=np.cumsum(counts) - counts,
            counts=counts,
            elements_before=np.append(0, np.cumsum(elements_of_rows)),
            pieces=pieces,
            armed_at=armed_at,
        )

    @property
    def last_instants(self) -> Longs:
        return self.assignments.last_instants

    def fire_accumulating(self) -> _SliceFirings:
        """Firings of windows that keep their contents: each shows all elements of its window so far."""
        due = np.flatnonzero(self._are_due())
        firing_counts = self._count_passed_firings(due) + (self.last_instants[due] <= self.timeline.final)
        windows = np.repeat(due, firing_counts)
        numbers = np.arange(len(windows)) - np.repeat(np.cumsum(firing_counts) - firing_counts, firing_counts)
        times = np.minimum(self.fire_times[windows] + numbers * self.interval_ms, self.last_instants[windows])
        rises = np.maximum(np.searchsorted(self.timeline.watermarks, times), self.armed_at[windows])
        taken_by_then = self._count_taken(windows, rises)
        # Contents are running totals; the restored contents of a window precede its elements.
        path_owners = np.append(self.assignments.restored_numbers, self.owners)
        path = np.argsort(path_owners, kind="stable")
        starts = run_starts(path_owners[path])
        is_restored = np.zeros(len(self.counts), np.int64)
        is_restored[self.assignments.restored_numbers] = 1
        # The place in the path of each window's last row before its elements of the slice.
        places = self.begins + np.cumsum(is_restored) - 1
        late = np.flatnonzero(self.is_late)
        late_places = places[self.owners[late]] + self._places_in_windows(late)
        picks, pick_numbers = np.unique(
            np.concatenate([places[windows] + taken_by_then, late_places, places + self.counts]),
            return_inverse=True,
        )
        contents, late_contents, contents_at_end = np.split(
            pick_numbers.reshape(-1), np.cumsum([len(windows), len(late)])
        )
        firings, owners = self._firings(
            windows,
            times=times,
            rises=rises,
            row_counts=taken_by_then,
            contents=contents,
            late_contents=late_contents,
        )
        nothing = np.zeros(0, np.int64)
        restored_count = len(self.assignments.restored_numbers)
        rows = np.append(np.arange(restored_count), self.order + restored_count)[path]
        running_contents = Contents(nothing, Groups(nothing, 0), rows, starts, picks)
        return _SliceFirings(
            firings=firings, owners=owners, contents=running_contents, contents_at_end=contents_at_end
        )

    def fire_purging(self, contents: Longs) -> _SliceFirings:
        """Firings that purge: each shows the elements since the last one. `contents`: of restored windows."""
        holds = np.flatnonzero(contents != NO_CONTENTS)
        nothing = np.zeros(0, np.int64)
        windows = np.append(self.assignments.restored_numbers[holds], self.owners)
        rises = np.append(np.zeros(len(holds), np.int64), self.rises)
        times = self._next_firings(windows, rises)
        late = np.append(np.zeros(len(holds), np.bool_), self.is_late)
        never = len(self.timeline)
        batches = np.maximum(np.searchsorted(self.timeline.watermarks, times), rises)
        batches[late] = never + self._places_in_windows(np.flatnonzero(self.is_late))
        groups, group_windows, group_batches = group_pairs(windows, batches)
        group_times = np.zeros(groups.size, np.int64)
        group_times[groups.codes] = times
        by_watermark = np.flatnonzero(group_batches < never)
        by_watermark = by_watermark[np.lexsort((group_batches[by_watermark], group_windows[by_watermark]))]
        fired_windows, fired_rises = group_windows[by_watermark], group_batches[by_watermark]
        taken_by_then = self._count_taken(fired_windows, fired_rises)
        firings, owners = self._firings(
            fired_windows,
            times=group_times[by_watermark],
            rises=fired_rises,
            row_counts=taken_by_then,
            contents=by_watermark,
            late_contents=groups.codes[late],
        )
        contents_at_end = np.full(len(self.counts), NO_CONTENTS)
        waits = group_batches == never
        contents_at_end[group_windows[waits]] = np.flatnonzero(waits)
        rows = np.append(holds, self.order + len(self.assignments.restored_numbers))
        batch_contents = Contents(rows, groups, nothing, nothing, nothing)
        return _SliceFirings(
            firings=firings, owners=owners, contents=batch_contents, contents_at_end=contents_at_end
        )

    def state_at_end(self, slice_firings: _SliceFirings) -> tuple[OpenWindows, TriggerStates]:
        windows_at_start, firings, owners = (
            self.assignments.windows,
            slice_firings.firings,
            slice_firings.owners,
        )
        due = np.flatnonzero(self._are_due())
        fire_times = self.fire_times.copy()
        fire_times[due] = np.minimum(
            fire_times[due] + self._count_passed_firings(due) * self.interval_ms, self.last_instants[due]
        )
        element_counts = self._count_elements(np.arange(len(self.counts)), self.counts)
        last_fired_at, unfired_elements = (
            windows_at_start.last_fired_at.copy(),
            self.unfired_elements + element_counts,
        )
        # Of several firings of a window the last assignment counts.
        last_fired_at[owners] = np.where(firings.causes == NO_TIME, firings.tick_ends, firings.causes)
        unfired_elements[owners] = (windows_at_start.elements + element_counts)[owners] - firings.elements
        clocks = np.empty(len(self.order), np.int64)
        clocks[self.order] = self.clocks
        windows = self.assignments.windows_at_end(
            clocks,
            firings=windows_at_start.firings + np.bincount(owners, minlength=len(unfired_elements)),
            last_fired_at=last_fired_at,
            contents=slice_firings.contents_at_end,
            pieces=self.pieces,
        )
        return windows, TriggerStates(values=fire_times, unfired_elements=unfired_elements)

    def _are_due(self) -> Booleans:
        """bool[n]: a watermark of the slice reaches the window's next firing after the window was armed."""
        timeline, next_firings = self.timeline, self.fire_times
        is_waiting = (next_firings != NO_TIME) & (self.last_instants > timeline.initial)
        is_due: Booleans = is_waiting & (self.armed_at < len(timeline)) & (next_firings <= timeline.final)
        return is_due

    def _count_passed_firings(self, due: Longs) -> Longs:
        """Per due window, the number of firings before its last instant that the slice's watermarks pass."""
        next_firings = self.fire_times[due]
        until = np.minimum(self.timeline.final, self.last_instants[due] - 1)
        return np.where(next_firings <= until, (until - next_firings) // self.interval_ms + 1, 0)

    def _next_firings(self, windows: Longs, rises: Longs) -> Longs:
        """Each window's next firing after so many rises of the watermark; meaningless for late elements."""
        next_firings = self.fire_times[windows]
        watermarks = np.append(self.timeline.initial, self.timeline.watermarks)[rises]
        passing_rows = np.flatnonzero(
            (rises > self.armed_at[windows])
            & (next_firings <= watermarks)
            & (watermarks < self.last_instants[windows])
        )
        since = next_firings[passing_rows]
        steps = (watermarks[passing_rows] - since) // self.interval_ms + 1
        next_firings[passing_rows] = np.minimum(
            since + steps * self.interval_ms, self.last_instants[windows[passing_rows]]
        )
        return next_firings

    def _count_taken(self, windows: Longs, rises: Longs) -> Longs:
        """How many rows each window has taken at the watermark's rise number `rises` (from 0)."""
        width = len(self.timeline) + 1
        return (
            np.searchsorted(self.owners * width + self.rises, windows * width + rises, side="right")
            - self.begins[windows]
        )

    def _count_elements(self, windows: Longs, row_counts: Longs) -> Longs:
        """How many elements the first `row_counts` rows of each window represent."""
        begins = self.begins[windows]
        counts: Longs = self.elements_before[begins + row_counts] - self.elements_before[begins]
        return counts

    def _places_in_windows(self, elements: Longs) -> Longs:
        """1, 2, …: the place of each of these rows in its window."""
        return elements - self.begins[self.owners[elements]] + 1

    def _firings(
        self,
        windows: Longs,
        *,
        times: Longs,
        rises: Longs,
        row_counts: Longs,
        contents: Longs,
        late_contents: Longs,
    ) -> tuple[Firings, Longs]:
        """(firings by window, the window number of each): within a window firings by watermarks, which are
        given by window and time, precede firings by late elements.
        """
        timeline, late = self.timeline, np.flatnonzero(self.is_late)
        late_owners = self.owners[late]
        no_ticks, no_causes = np.full(len(late), NO_TIME), np.full(len(windows), NO_TIME)
        columns: list[tuple[Any, Any]] = [
            (windows, late_owners),
            (self._kinds(windows, times), self._kinds_of_late(late_owners)),
            (
                self._count_elements(windows, row_counts),
                self._count_elements(late_owners, self._places_in_windows(late)),
            ),
            (timeline.watermarks[rises], self.watermarks[late]),
            (timeline.tick_ends[rises], no_ticks),
            (no_causes, self.clocks[late]),
            (contents, late_contents),
        ]
        order = np.argsort(np.append(windows, late_owners), kind="stable")
        owners, kinds, elements, watermarks, tick_ends, causes, contents_of_firings = (
            np.append(*pair)[order] for pair in columns
        )
        starts, windows_at_start = run_starts(owners), self.assignments.windows
        numbers = np.arange(len(owners)) - starts[run_numbers(starts, len(owners))] + 1
        firings = Firings(
            keys=windows_at_start.keys[owners],
            starts=windows_at_start.starts[owners],
            ends=windows_at_start.ends[owners],
            firings=windows_at_start.firings[owners] + numbers,
            kinds=kinds,
            elements=windows_at_start.elements[owners] + elements,
            watermarks=watermarks,
            tick_ends=tick_ends,
            causes=causes,
            contents=contents_of_firings,
        )
        return firings, owners

    def _kinds(self, windows: Longs, times: Longs) -> Longs:
        return np.where(times == self.last_instants[windows], PaneKind.ON_TIME, PaneKind.EARLY)

    def _kinds_of_late(self, windows: Longs) -> Longs:
        """LATE, but EARLY for global windows, which are never late."""
        return np.where(self.assignments.cleanups[windows] == NEVER, PaneKind.EARLY, PaneKind.LATE)
