"""The kernel of windows whose trigger fires at each multiple of an interval that the watermark passes, and
at their last instant, also inside a purging trigger (Flink: ContinuousEventTimeTrigger). A trigger that waits
for the end of the global window is one without an interval.

    event time   ──┬───────┬───────┬───────┬──────┤
                 first   firings, one for each    last instant
                element  multiple of the interval

A window's first element arms it for the first multiple of the interval after the element's time, rounded
towards zero. When the watermark passes that, the window fires, and again for each multiple up to the
watermark, all at the same moment. What a firing holds is decided by when elements came, not by their times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from slackwater.windowing.columnar.accumulators import Accumulators
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import Groups, group_pairs, run_numbers, run_starts
from slackwater.windowing.columnar.assigned import Assigned
from slackwater.windowing.columnar.contents import Contents
from slackwater.windowing.columnar.fixed_windows import FixedWindows
from slackwater.windowing.columnar.kernels import Counts, SliceInput, SliceResult, WindowState
from slackwater.windowing.columnar.parking import Timers, timers_for, timers_of
from slackwater.windowing.columnar.timeline.timeline import NEVER, Timeline
from slackwater.windowing.columnar.window_columns import (
    NO_CONTENTS,
    NO_TIME,
    Elements,
    Firings,
    LateElements,
    OpenWindows,
    PaneKind,
    TriggerStates,
    rows_of,
)

A = TypeVar("A", bound=Accumulators)

ONLY_AT_THE_END: Final = NEVER  # an interval without a multiple before any last instant


@dataclass(frozen=True)
class ContinuousRules:
    """What the user chose.

    Attributes:
        windows: the assigner's, with their lateness; None for the global window.
        interval_ms: between firings; ONLY_AT_THE_END for none.
        accumulates: whether a firing leaves contents where they are; otherwise it purges them, and without
            contents there is no firing.
    """

    windows: FixedWindows | None
    interval_ms: int
    accumulates: bool


def replay_continuous(
    slice_input: SliceInput[A], initial_state: WindowState[A], timeline: Timeline, rules: ContinuousRules
) -> SliceResult[A]:
    """Replay one slice.

    Args:
        received: elements that a window takes; no pieces.
        restored: the windows that are open at the slice's start; their triggers remember the next firing, and
            after the last one its time; NO_TIME for a window that began late.
        timeline: the slice's watermarks.
        rules: what the user chose.

    Returns:
        Firings by window and, for each, in order; open windows by key and start.
    """
    assert initial_state.triggers is not None
    assigned = Assigned.of(initial_state.windows, slice_input.elements, rules.windows)
    size = len(assigned.windows.keys)
    before = TriggerStates(values=np.full(size, NO_TIME), unfired_elements=np.zeros(size, np.int64))
    for column, values in zip(before, initial_state.triggers, strict=True):
        column[assigned.restored] = values
    if rules.interval_ms == ONLY_AT_THE_END:
        before.values[assigned.restored] = assigned.last_instants[assigned.restored]
    slice_ = _Slice.of(assigned, before, slice_input.elements, rules.interval_ms, timeline)
    fired = slice_.accumulated() if rules.accumulates else slice_.purged(initial_state.windows.contents)
    after, triggers = slice_.after(fired)
    parked, is_closed = assigned.parked(after, timeline), ~assigned.stay(timeline)
    windows, fire_times = rows_of(after, parked), triggers.values[parked]
    last_instants, cleanups = assigned.last_instants[parked], assigned.cleanups[parked]
    waits = last_instants > timeline.final
    remembered = np.full(len(parked), NO_TIME) if rules.interval_ms == ONLY_AT_THE_END else fire_times
    return SliceResult(
        firings=[fired.firings],
        windows=windows,
        triggers=TriggerStates(values=remembered, unfired_elements=triggers.unfired_elements[parked]),
        next_firings=np.where(waits & (fire_times != NEVER), fire_times, NO_TIME),
        timers=[
            *_timers_of_trigger(windows, waits, fire_times, last_instants),
            *timers_of(windows, waits, last_instants, cleanups),
        ],
        accumulators=assigned.accumulators_of(fired.contents, slice_input, initial_state),
        late=LateElements.none(),
        counts=Counts(
            windows_opened=size - len(assigned.restored),
            windows_cleaned=int(np.count_nonzero(is_closed)),
            assignments_missed=assigned.missed,
            elements_cleaned=int(after.elements[is_closed].sum()),
            elements_never_fired=int(triggers.unfired_elements[is_closed].sum()),
        ),
    )


def _timers_of_trigger(
    windows: OpenWindows, waits: Booleans, fire_times: Longs, last_instants: Longs
) -> list[Timers]:
    """The next firing, where it is not the last; and of the global window the last, at the end of time."""
    return [
        timers_for("trigger", windows, waits & (fire_times < last_instants), fire_times),
        timers_for("trigger", windows, waits & (last_instants == NEVER), last_instants),
    ]


class _Fired(NamedTuple):
    """Firings and the number of the window of each, which rows make up contents, and which contents each
    window holds at the end.
    """

    firings: Firings
    owners: Longs
    contents: Contents
    contents_at_end: Longs


@dataclass(frozen=True)
class _Slice:
    """One slice; its takings are sorted by window, those of one in order of arrival.

    Attributes:
        assigned: the windows, and which elements they take.
        fire_times: what the trigger of each window remembers; of one that the slice arms, as it is then.
        unfired: elements of each window that are in no firing yet, before the slice.
        order: the place of each taking among those given.
        owners, clocks, watermarks: of each taking: its window, the clock, the watermark in force.
        rises: how often the watermark has risen when it comes.
        is_late: whether its window's last firing lies behind it: it fires at once.
        begins, counts: of each window, the first taking and how many there are.
        armed_at: of each window, how often the watermark had risen when it was armed.
    """

    assigned: Assigned
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
    armed_at: Longs

    @classmethod
    def of(
        cls,
        assigned: Assigned,
        before: TriggerStates,
        elements: Elements,
        interval_ms: int,
        timeline: Timeline,
    ) -> _Slice:
        order = np.argsort(assigned.owners, kind="stable")
        owners, in_order = assigned.owners[order], rows_of(elements, assigned.elements[order])
        last_instants, fire_times = assigned.last_instants, before.values.copy()
        is_late = last_instants[owners] <= in_order.watermarks
        rises = np.searchsorted(timeline.tick_ends, in_order.clocks, side="right")
        counts = np.bincount(owners, minlength=len(last_instants))
        armed_at = np.zeros(len(last_instants), np.int64)
        firsts = run_starts(owners)
        arming = firsts[(fire_times[owners[firsts]] == NO_TIME) & ~is_late[firsts]]
        armed, floors = owners[arming], in_order.times[arming] - np.fmod(in_order.times[arming], interval_ms)
        fire_times[armed] = np.minimum(floors + interval_ms, last_instants[armed])
        armed_at[armed] = rises[arming]
        return cls(
            assigned=assigned,
            fire_times=fire_times,
            unfired_elements=before.unfired_elements,
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
            armed_at=armed_at,
        )

    @property
    def last_instants(self) -> Longs:
        """Of each window."""
        return self.assigned.last_instants

    def accumulated(self) -> _Fired:
        """Every firing shows all that has come."""
        due = np.flatnonzero(self._is_due())
        passed = self._passed(due) + (self.last_instants[due] <= self.timeline.final)
        windows = np.repeat(due, passed)
        numbers = np.arange(len(windows)) - np.repeat(np.cumsum(passed) - passed, passed)
        times = np.minimum(self.fire_times[windows] + numbers * self.interval_ms, self.last_instants[windows])
        rises = np.maximum(np.searchsorted(self.timeline.watermarks, times), self.armed_at[windows])
        taken_by_then = self._seen(windows, rises)
        # Contents are running totals: what a window held before stands in front of its elements.
        of_path = np.append(self.assigned.restored, self.owners)
        path = np.argsort(of_path, kind="stable")
        starts = run_starts(of_path[path])
        is_restored = np.zeros(len(self.counts), np.int64)
        is_restored[self.assigned.restored] = 1
        # Where the last row before the slice's first element stands.
        places = self.begins + np.cumsum(is_restored) - 1
        late = np.flatnonzero(self.is_late)
        of_late = places[self.owners[late]] + self._numbers(late)
        picks, numbers_of_picks = np.unique(
            np.concatenate([places[windows] + taken_by_then, of_late, places + self.counts]),
            return_inverse=True,
        )
        numbers_of_picks = numbers_of_picks.reshape(-1)
        of_windows, of_late, of_all = np.split(numbers_of_picks, np.cumsum([len(windows), len(late)]))
        firings, owners = self._firings(windows, times, rises, taken_by_then, of_windows, of_late)
        nothing = np.zeros(0, np.int64)
        restored = len(self.assigned.restored)
        rows = np.append(np.arange(restored), self.order + restored)[path]
        contents = Contents(nothing, Groups(nothing, 0), rows, starts, picks)
        return _Fired(firings=firings, owners=owners, contents=contents, contents_at_end=of_all)

    def purged(self, contents: Longs) -> _Fired:
        """Every firing shows what has come since the one before it."""
        holds = np.flatnonzero(contents != NO_CONTENTS)
        nothing = np.zeros(0, np.int64)
        windows = np.append(self.assigned.restored[holds], self.owners)
        rises = np.append(np.zeros(len(holds), np.int64), self.rises)
        times = self._next_firings(windows, rises)
        late = np.append(np.zeros(len(holds), np.bool_), self.is_late)
        never = len(self.timeline)
        batches = np.maximum(np.searchsorted(self.timeline.watermarks, times), rises)
        batches[late] = never + self._numbers(np.flatnonzero(self.is_late))
        groups, of_groups, batch_of = group_pairs(windows, batches)
        times_of = np.zeros(groups.size, np.int64)
        times_of[groups.codes] = times
        by_watermark = np.flatnonzero(batch_of < never)
        by_watermark = by_watermark[np.lexsort((batch_of[by_watermark], of_groups[by_watermark]))]
        fired_windows, fired_rises = of_groups[by_watermark], batch_of[by_watermark]
        taken_by_then = self._seen(fired_windows, fired_rises)
        firings, owners = self._firings(
            fired_windows,
            times_of[by_watermark],
            fired_rises,
            taken_by_then,
            by_watermark,
            groups.codes[late],
        )
        contents_at_end = np.full(len(self.counts), NO_CONTENTS)
        waits = batch_of == never
        contents_at_end[of_groups[waits]] = np.flatnonzero(waits)
        rows = np.append(holds, self.order + len(self.assigned.restored))
        contents_made = Contents(rows, groups, nothing, nothing, nothing)
        return _Fired(firings=firings, owners=owners, contents=contents_made, contents_at_end=contents_at_end)

    def after(self, fired: _Fired) -> tuple[OpenWindows, TriggerStates]:
        """All windows at the slice's end, and what their triggers remember."""
        before, firings, owners = self.assigned.windows, fired.firings, fired.owners
        due = np.flatnonzero(self._is_due())
        fire_times = self.fire_times.copy()
        fire_times[due] = np.minimum(
            fire_times[due] + self._passed(due) * self.interval_ms, self.last_instants[due]
        )
        last_fired_at, unfired_elements = before.last_fired_at.copy(), self.unfired_elements + self.counts
        # Of several firings of a window the last one counts.
        last_fired_at[owners] = np.where(firings.causes == NO_TIME, firings.tick_ends, firings.causes)
        unfired_elements[owners] = (before.elements + self.counts)[owners] - firings.elements
        clocks = np.empty(len(self.order), np.int64)
        clocks[self.order] = self.clocks
        windows = self.assigned.after(
            clocks,
            firings=before.firings + np.bincount(owners, minlength=len(unfired_elements)),
            last_fired_at=last_fired_at,
            contents=fired.contents_at_end,
        )
        return windows, TriggerStates(values=fire_times, unfired_elements=unfired_elements)

    def _is_due(self) -> Booleans:
        """Which windows the slice's watermarks reach: whose next firing a watermark passes that comes after
        they were armed.
        """
        timeline, next_firings = self.timeline, self.fire_times
        is_waiting = (next_firings != NO_TIME) & (self.last_instants > timeline.initial)
        is_due: Booleans = is_waiting & (self.armed_at < len(timeline)) & (next_firings <= timeline.final)
        return is_due

    def _passed(self, due: Longs) -> Longs:
        """How many firings before the last instant the slice's watermarks have passed."""
        next_firings = self.fire_times[due]
        until = np.minimum(self.timeline.final, self.last_instants[due] - 1)
        return np.where(next_firings <= until, (until - next_firings) // self.interval_ms + 1, 0)

    def _next_firings(self, windows: Longs, rises: Longs) -> Longs:
        """The firing that windows wait for after so many rises of the watermark; of what is late it means
        nothing.
        """
        next_firings = self.fire_times[windows]
        reached = np.append(self.timeline.initial, self.timeline.watermarks)[rises]
        passed = np.flatnonzero(
            (rises > self.armed_at[windows])
            & (next_firings <= reached)
            & (reached < self.last_instants[windows])
        )
        since = next_firings[passed]
        steps = (reached[passed] - since) // self.interval_ms + 1
        next_firings[passed] = np.minimum(
            since + steps * self.interval_ms, self.last_instants[windows[passed]]
        )
        return next_firings

    def _seen(self, windows: Longs, rises: Longs) -> Longs:
        """How many elements of the slice each of those windows has taken when the watermark rises for the (i
        + 1)th time.
        """
        width = len(self.timeline) + 1
        return (
            np.searchsorted(self.owners * width + self.rises, windows * width + rises, side="right")
            - self.begins[windows]
        )

    def _numbers(self, elements: Longs) -> Longs:
        """1, 2, …: the place of each element among those of its window."""
        return elements - self.begins[self.owners[elements]] + 1

    def _firings(
        self,
        windows: Longs,
        times: Longs,
        rises: Longs,
        element_counts: Longs,
        contents: Longs,
        contents_of_late: Longs,
    ) -> tuple[Firings, Longs]:
        """Those by a watermark, which are sorted by window and time, and behind them those by late elements,
        numbered; and the number of each one's window.
        """
        timeline, late = self.timeline, np.flatnonzero(self.is_late)
        of_late = self.owners[late]
        no_ticks, no_causes = np.full(len(late), NO_TIME), np.full(len(windows), NO_TIME)
        columns: list[tuple[Any, Any]] = [
            (windows, of_late),
            (self._kinds(windows, times), self._kinds_of_late(of_late)),
            (element_counts, self._numbers(late)),
            (timeline.watermarks[rises], self.watermarks[late]),
            (timeline.tick_ends[rises], no_ticks),
            (no_causes, self.clocks[late]),
            (contents, contents_of_late),
        ]
        order = np.argsort(np.append(windows, of_late), kind="stable")
        owners, kinds, elements, watermarks, tick_ends, causes, shown = (
            np.append(*pair)[order] for pair in columns
        )
        starts, before = run_starts(owners), self.assigned.windows
        numbers = np.arange(len(owners)) - starts[run_numbers(starts, len(owners))] + 1
        firings = Firings(
            keys=before.keys[owners],
            starts=before.starts[owners],
            ends=before.ends[owners],
            firings=before.firings[owners] + numbers,
            kinds=kinds,
            elements=before.elements[owners] + elements,
            watermarks=watermarks,
            tick_ends=tick_ends,
            causes=causes,
            contents=shown,
        )
        return firings, owners

    def _kinds(self, windows: Longs, times: Longs) -> Longs:
        """Of firings by a watermark: whether it is the window's last instant that fires."""
        return np.where(times == self.last_instants[windows], PaneKind.ON_TIME, PaneKind.EARLY)

    def _kinds_of_late(self, windows: Longs) -> Longs:
        """Of firings by elements: the global window knows no late one."""
        return np.where(self.assigned.cleanups[windows] == NEVER, PaneKind.EARLY, PaneKind.LATE)
