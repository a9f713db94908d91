"""Windows whose trigger fires at each multiple of an interval that the watermark passes, and at their last
instant, on whole columns.

Arrays of integers in, firings and the rows that make them up out. What a firing holds is decided by when
elements came, not by their times.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from slackwater.windowing.columnar.columns import Booleans, Longs
from slackwater.windowing.columnar.contents import Contents
from slackwater.windowing.columnar.groups import Groups, group_pairs, run_numbers, run_starts
from slackwater.windowing.columnar.timeline import NEVER, Timeline

EARLY, ON_TIME, LATE = 0, 1, 2  # kinds of firings
NO_TIME: Final = int(np.iinfo(np.int64).min)  # in a column of times: none
NO_CONTENTS: Final = -1
ONLY_AT_THE_END: Final = NEVER  # an interval without a multiple before any last instant


class ContinuousWindows(NamedTuple):
    """Windows, one a row; int64[n] each, times in milliseconds.

    Attributes:
        fire_times: what the trigger remembers: the next firing, and after the last one its time; NO_TIME for
            a window that began late.
        elements: accepted so far.
        unfired: of these, in no firing yet.
        firings: so far.
        last_fired_at: clock at the newest firing, or NO_TIME.
        first_arrivals, last_arrivals: clock at the first and at the newest element.
        contents: which contents it holds; NO_CONTENTS after a purge.
    """

    fire_times: Longs
    elements: Longs
    unfired: Longs
    firings: Longs
    last_fired_at: Longs
    first_arrivals: Longs
    last_arrivals: Longs
    contents: Longs

    @classmethod
    def new(cls, windows: int) -> ContinuousWindows:
        """Windows before their first element."""
        elements, unfired, firings = np.zeros((3, windows), np.int64)
        fire_times, last_fired, first, last = np.full((4, windows), NO_TIME)
        return cls(
            fire_times, elements, unfired, firings, last_fired, first, last, np.full(windows, NO_CONTENTS)
        )


class Takings(NamedTuple):
    """Which elements windows take, in order of arrival; int64[m] each, times in milliseconds. An element of
    several windows is several.

    Attributes:
        windows: the window's number.
        times: the element's timestamp.
        clocks: the clock at its arrival.
    """

    windows: Longs
    times: Longs
    clocks: Longs


class ContinuousFirings(NamedTuple):
    """Firings, one a row; int64[k] each.

    Attributes:
        windows: the window's number.
        firings: 1, 2, …: Flink's count of the window's firings.
        kinds: EARLY or ON_TIME where a watermark fired it, LATE where an element did.
        elements: accepted by the window then.
        watermarks: in force.
        moments: the clock: the end of the tick whose watermark fired it, or the arrival of the element.
        contents: what it held.
    """

    windows: Longs
    firings: Longs
    kinds: Longs
    elements: Longs
    watermarks: Longs
    moments: Longs
    contents: Longs


def replay_continuous(
    before: ContinuousWindows,
    known: Longs,
    last_instants: Longs,
    taken: Takings,
    *,
    interval_ms: int,
    accumulates: bool,
    timeline: Timeline,
) -> tuple[ContinuousFirings, ContinuousWindows, Contents]:
    """Replay the elements of one slice (Flink: ContinuousEventTimeTrigger).

    A window's first element arms it for the first multiple of the interval after the element's time, rounded
    towards zero. When the watermark passes that, the window fires, and again for each multiple up to the
    watermark, all at the same moment.

    Args:
        before: the windows at the slice's start. Of `contents` it only counts whether there are any: row i of
            `before` is row i of what makes up contents, element j row len(before) + j.
        known: int64, the numbers of these windows.
        last_instants: int64[n], of every window by its number; n is above all numbers.
        taken: the elements.
        interval_ms: between firings; ONLY_AT_THE_END for none.
        accumulates: whether a firing leaves contents where they are; otherwise it purges them, and without
            contents there is no firing.
        timeline: the slice's watermarks.

    Returns:
        The firings, by window and, for each, in order; all windows at the slice's end; and which rows make up
        what they hold.
    """
    start = ContinuousWindows.new(len(last_instants))
    for column, values in zip(start, before, strict=True):
        column[known] = values
    slice_ = _Slice.of(start, known, last_instants, taken, interval_ms, timeline)
    fired = slice_.accumulated() if accumulates else slice_.purged(before.contents)
    return fired.firings, slice_.after(fired), fired.contents


class _Fired(NamedTuple):
    """Firings, which rows make up contents, and which contents each window holds at the end."""

    firings: ContinuousFirings
    contents: Contents
    held: Longs


class _Slice(NamedTuple):
    """One slice; elements are sorted by window, those of one in order of arrival.

    Attributes:
        known: numbers of the windows at its start.
        start: all windows as they are before; armed already if the slice arms them.
        order: the place of each element among those given.
        windows, clocks: of each element.
        rises: how often the watermark has risen when it comes.
        is_late: whether its window's last firing lies behind it: it fires at once.
        begins, came: of each window, the first element and how many there are.
        armed_at: of each window, how often the watermark had risen when it was armed.
    """

    known: Longs
    start: ContinuousWindows
    last_instants: Longs
    interval_ms: int
    timeline: Timeline
    order: Longs
    windows: Longs
    clocks: Longs
    rises: Longs
    is_late: Booleans
    begins: Longs
    came: Longs
    armed_at: Longs

    @classmethod
    def of(
        cls,
        start: ContinuousWindows,
        known: Longs,
        last_instants: Longs,
        taken: Takings,
        interval_ms: int,
        timeline: Timeline,
    ) -> _Slice:
        order = np.argsort(taken.windows, kind="stable")
        windows, times, clocks = (column[order] for column in taken)
        is_late = last_instants[windows] <= timeline.at_arrival(clocks)
        rises = np.searchsorted(timeline.tick_ends, clocks, side="right")
        came = np.bincount(windows, minlength=len(last_instants))
        armed_at = np.zeros(len(last_instants), np.int64)
        firsts = run_starts(windows)
        arming = firsts[(start.fire_times[windows[firsts]] == NO_TIME) & ~is_late[firsts]]
        armed, floors = windows[arming], times[arming] - np.fmod(times[arming], interval_ms)
        start.fire_times[armed] = np.minimum(floors + interval_ms, last_instants[armed])
        armed_at[armed] = rises[arming]
        begins = np.cumsum(came) - came
        return cls(
            known,
            start,
            last_instants,
            interval_ms,
            timeline,
            order,
            windows,
            clocks,
            rises,
            is_late,
            begins,
            came,
            armed_at,
        )

    def accumulated(self) -> _Fired:
        """Every firing shows all that has come."""
        due = np.flatnonzero(self._is_due())
        windows = np.repeat(
            due, firings := self._passed(due) + (self.last_instants[due] <= self.timeline.final)
        )
        numbers = np.arange(len(windows)) - np.repeat(np.cumsum(firings) - firings, firings)
        times = np.minimum(
            self.start.fire_times[windows] + numbers * self.interval_ms, self.last_instants[windows]
        )
        rises = np.maximum(np.searchsorted(self.timeline.watermarks, times), self.armed_at[windows])
        seen = self._seen(windows, rises)
        # Contents are running totals: what a window held before stands in front of its elements.
        of_path = np.append(self.known, self.windows)
        path = np.argsort(of_path, kind="stable")
        starts = run_starts(of_path[path])
        is_known = np.zeros(len(self.came), np.int64)
        is_known[self.known] = 1
        places = (
            self.begins + np.cumsum(is_known) - 1
        )  # where the last row before the slice's first element stands
        late = np.flatnonzero(self.is_late)
        of_late = places[self.windows[late]] + self._numbers(late)
        picks, held = np.unique(
            np.concatenate([places[windows] + seen, of_late, places + self.came]), return_inverse=True
        )
        held = held.reshape(-1)
        made = self._firings(
            windows, times, rises, seen, held[: len(windows)], held[len(windows) : len(windows) + len(late)]
        )
        nothing = np.zeros(0, np.int64)
        rows = np.append(np.arange(len(self.known)), self.order + len(self.known))[path]
        return _Fired(
            made, Contents(nothing, Groups(nothing, 0), rows, starts, picks), held[len(windows) + len(late) :]
        )

    def purged(self, contents: Longs) -> _Fired:
        """Every firing shows what has come since the one before it."""
        holds = np.flatnonzero(contents != NO_CONTENTS)
        nothing = np.zeros(0, np.int64)
        windows = np.append(self.known[holds], self.windows)
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
        seen = self._seen(fired_windows, fired_rises)
        made = self._firings(
            fired_windows, times_of[by_watermark], fired_rises, seen, by_watermark, groups.codes[late]
        )
        held = np.full(len(self.came), NO_CONTENTS)
        waits = batch_of == never
        held[of_groups[waits]] = np.flatnonzero(waits)
        rows = np.append(holds, self.order + len(self.known))
        return _Fired(made, Contents(rows, groups, nothing, nothing, nothing), held)

    def after(self, fired: _Fired) -> ContinuousWindows:
        """All windows at the slice's end."""
        start, firings = self.start, fired.firings
        due = np.flatnonzero(self._is_due())
        fire_times = start.fire_times.copy()
        fire_times[due] = np.minimum(
            fire_times[due] + self._passed(due) * self.interval_ms, self.last_instants[due]
        )
        last_fired, unfired = start.last_fired_at.copy(), start.unfired + self.came
        elements = start.elements + self.came
        last_fired[firings.windows] = firings.moments  # of several firings of a window the last one counts
        unfired[firings.windows] = elements[firings.windows] - firings.elements
        first, last = start.first_arrivals.copy(), start.last_arrivals.copy()
        last[self.windows] = self.clocks
        is_new = first == NO_TIME
        is_new[self.came == 0] = False
        first[is_new] = self.clocks[self.begins[is_new]]
        so_far = start.firings + np.bincount(firings.windows, minlength=len(elements))
        return ContinuousWindows(fire_times, elements, unfired, so_far, last_fired, first, last, fired.held)

    def _is_due(self) -> Booleans:
        """Which windows the slice's watermarks reach: whose next firing a watermark passes that comes after
        they were armed.
        """
        timeline, next_firings = self.timeline, self.start.fire_times
        is_waiting = (next_firings != NO_TIME) & (self.last_instants > timeline.initial)
        is_due: Booleans = is_waiting & (self.armed_at < len(timeline)) & (next_firings <= timeline.final)
        return is_due

    def _passed(self, due: Longs) -> Longs:
        """How many firings before the last instant the slice's watermarks have passed."""
        next_firings = self.start.fire_times[due]
        until = np.minimum(self.timeline.final, self.last_instants[due] - 1)
        return np.where(next_firings <= until, (until - next_firings) // self.interval_ms + 1, 0)

    def _next_firings(self, windows: Longs, rises: Longs) -> Longs:
        """The firing that windows wait for after so many rises of the watermark; of what is late it means
        nothing.
        """
        next_firings = self.start.fire_times[windows]
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
            np.searchsorted(self.windows * width + self.rises, windows * width + rises, side="right")
            - self.begins[windows]
        )

    def _numbers(self, elements: Longs) -> Longs:
        """1, 2, …: the place of each element among those of its window."""
        return elements - self.begins[self.windows[elements]] + 1

    def _firings(
        self,
        windows: Longs,
        times: Longs,
        rises: Longs,
        seen: Longs,
        contents: Longs,
        contents_of_late: Longs,
    ) -> ContinuousFirings:
        """Those by a watermark, which are sorted by window and time, and behind them those by late elements,
        numbered.
        """
        timeline, late = self.timeline, np.flatnonzero(self.is_late)
        of_late = self.windows[late]
        columns: list[tuple[Any, Any]] = [
            (windows, of_late),
            (np.where(times == self.last_instants[windows], ON_TIME, EARLY), np.full(len(late), LATE)),
            (seen, self._numbers(late)),
            (timeline.watermarks[rises], timeline.at_arrival(self.clocks[late])),
            (timeline.tick_ends[rises], self.clocks[late]),
            (contents, contents_of_late),
        ]
        order = np.argsort(np.append(windows, of_late), kind="stable")
        owners, kinds, elements, watermarks, moments, held = (np.append(*pair)[order] for pair in columns)
        starts = run_starts(owners)
        numbers = np.arange(len(owners)) - starts[run_numbers(starts, len(owners))] + 1
        start = self.start
        return ContinuousFirings(
            owners,
            start.firings[owners] + numbers,
            kinds,
            start.elements[owners] + elements,
            watermarks,
            moments,
            held,
        )
