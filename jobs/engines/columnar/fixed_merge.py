"""The range side of tumbling and sliding windows: partial aggregates and parked windows are merged, fired,
refired for each late element, and what is still open is parked again.

A watermark only rises, so in every window elements on time come first, then its firing, then late elements,
each of which fires it again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.aggregates import Columns, combine_spans
from slackwater.jobs.engines.columnar.families import (
    NONE,
    Merged,
    OpenWindows,
    Panes,
    Part,
    Setting,
    Timers,
    join_each,
    rows_where,
    take_each,
)
from slackwater.jobs.engines.columnar.firing import results_of
from slackwater.jobs.engines.columnar.fixed_lives import Lives, Pieces, Refires
from slackwater.jobs.engines.columnar.fixed_split import (
    BEHIND,
    CELLS,
    ELEMENTS,
    FIRST,
    LAST,
    SLICE,
    accumulator_names,
)
from slackwater.jobs.engines.columnar.late_order import in_order_of_arrival
from slackwater.jobs.engines.columnar.tables import milliseconds, parked_accumulators
from slackwater.jobs.engines.rows.columns_read import ARRIVAL, EVENT
from slackwater.windowing.columnar.columns import Booleans, Longs
from slackwater.windowing.columnar.fixed_windows import FixedWindows
from slackwater.windowing.columnar.groups import (
    Groups,
    greatest_of_groups,
    group_pairs,
    least_of_groups,
    order_of_pairs,
    run_numbers,
    run_starts,
    sum_of_groups,
)


@dataclass(frozen=True)
class FixedMerge:
    """Merges what a range has received, for one pipeline and slice."""

    setting: Setting
    windows: FixedWindows

    def merge(self, received: Mapping[str, Part], parked: Part) -> Merged:
        restored = self._restore(parked)
        has_fired = restored.windows <= self.windows.newest_passed(self.setting.timeline.initial)
        pieces, refires, missed = self._behind(received[BEHIND])
        fired, panes = self._fire(
            self._due([self._of_cells(received[CELLS]), pieces], restored.take(rows_where(~has_fired)))
        )
        lives = [fired, restored.take(rows_where(has_fired))]
        again, is_replaced, late_panes = self._refire(lives, refires)
        windows = np.count_nonzero(~is_replaced) + len(again.keys)
        parts, is_replaced = [*lives, again], np.append(is_replaced, np.zeros(len(again.keys), np.bool_))
        open_windows, timers = self._park(self._staying(parts, is_replaced))
        counts = {
            "windows_opened": int(windows - sum(np.count_nonzero(part.is_parked) for part in lives)),
            "windows_fired": len(panes.keys),
            "windows_refired": len(late_panes.keys),
            "windows_cleaned": int(windows - len(open_windows.keys)),
            "windows_open": len(open_windows.keys),
            "assignments_missed": missed,
            "assignments_cleaned": self._elements_cleaned(parts, is_replaced),
            "timers_pending": sum(len(part.keys) for part in timers),
        }
        return Merged([panes, late_panes], open_windows, timers, counts)

    def _staying(self, lives: Sequence[Lives], is_replaced: Booleans) -> Lives:
        """Of windows in several parts those that are open at the slice's end, the oldest of all keys first;
        without those that stand in another part as they are by then."""
        is_open = [part.windows > self._newest_closed for part in lives]
        rows = [rows_where(chosen) for chosen in is_open]
        whole = Lives.join([part.take(some) for part, some in zip(lives, rows, strict=True)])
        order = order_of_pairs(whole.windows, whole.keys)
        return whole.take(order[~is_replaced[np.concatenate(is_open)][order]])

    def _elements_cleaned(self, lives: Sequence[Lives], is_replaced: Booleans) -> int:
        """Elements of windows in several parts that are collected by the slice's end, each window as it is by
        then.
        """
        is_collected = np.concatenate([part.windows <= self._newest_closed for part in lives])
        return int(np.concatenate([part.elements for part in lives])[is_collected & ~is_replaced].sum())

    @property
    def _newest_closed(self) -> int:
        """The newest of the windows that are collected by the slice's end."""
        return self.windows.newest_collected(self.setting.timeline.final)

    def _restore(self, parked: Part) -> Lives:
        rows = parked.rows
        has_contents = np.asarray(rows.column("contents").is_null())
        whole = bool(has_contents.all())
        accumulators = parked_accumulators(
            rows if whole else rows.filter(pa.array(has_contents)), self.setting
        )
        if not whole:
            owners = np.maximum(np.cumsum(has_contents) - 1, 0)
            indices = pa.array(owners, mask=~has_contents)
            accumulators = [[column.take(indices) for column in columns] for columns in accumulators]
        return Lives(
            parked.keys,
            self.windows.numbers(milliseconds(rows.column("window_start"))),
            rows.column("elements").to_numpy(),
            rows.column("firings").to_numpy(),
            milliseconds(rows.column("last_fired_at")),
            milliseconds(rows.column("first_arrival")),
            milliseconds(rows.column("last_arrival")),
            np.ones(rows.num_rows, np.bool_),
            has_contents,
            accumulators,
        )

    def _of_cells(self, part: Part) -> Pieces:
        """Cells as pieces of the windows that hold them."""
        rows, keys = part.rows, part.keys
        slices, elements, first, last = (
            rows.column(name).to_numpy() for name in (SLICE, ELEMENTS, FIRST, LAST)
        )
        accumulators = [
            [rows.column(name).combine_chunks() for name in names]
            for names in accumulator_names(self.setting)
        ]
        if self.windows.overlap and len(keys):
            return self._of_spans(Pieces(keys, slices, elements, first, last, accumulators))
        return Pieces(keys, self.windows.newest_windows(slices), elements, first, last, accumulators)

    def _of_spans(self, cells: Pieces) -> Pieces:
        """As `_of_cells` where windows overlap; the windows of `cells` are slices. Those of a key become one
        row a slice, of which each window spans some."""
        groups, keys, slices = group_pairs(cells.keys, cells.windows)
        ascends = (keys[1:] > keys[:-1]) | ((keys[1:] == keys[:-1]) & (slices[1:] > slices[:-1]))
        if not ascends.all():  # keys and slices that lie far apart are numbered as they appear
            order = np.lexsort((slices, keys))
            ranks = np.empty(groups.size, np.int64)
            ranks[order] = np.arange(groups.size)
            groups, keys, slices = Groups(ranks[groups.codes], groups.size), keys[order], slices[order]
        windows, spans = self.windows.spanned(slices, run_starts(keys))
        first, last = self._arrivals(cells, self.windows.newest_windows(cells.windows), groups)
        is_asked = windows > self._newest_closed
        first_of_spans, last_of_spans = np.zeros((2, len(windows)), np.int64)
        if is_asked.any():
            asked = spans.where(is_asked)
            first_of_spans[is_asked], last_of_spans[is_asked] = asked.least(first), asked.greatest(last)
        accumulators = [
            combine_spans(aggregate, aggregate.combine(columns, groups), spans)
            for aggregate, columns in zip(self.setting.aggregates, cells.accumulators, strict=True)
        ]
        elements = spans.sum(sum_of_groups(cells.elements, groups))
        return Pieces(keys[spans.firsts], windows, elements, first_of_spans, last_of_spans, accumulators)

    def _arrivals(self, pieces: Pieces, newest_windows: Longs, groups: Groups) -> tuple[Longs, Longs]:
        """First and last arrival of each group of pieces; nobody asks when elements of a window that closes
        had come.
        """
        asked = np.flatnonzero(newest_windows > self._newest_closed)
        if not len(asked):
            return np.zeros(groups.size, np.int64), np.zeros(groups.size, np.int64)
        some = Groups(groups.codes[asked], groups.size)
        return least_of_groups(pieces.first_arrivals[asked], some), greatest_of_groups(
            pieces.last_arrivals[asked], some
        )

    def _behind(self, part: Part) -> tuple[Pieces, Refires, int]:
        """Elements that are behind for some of their windows: pieces of those that wait, refires of those
        that have fired, and how often they missed one."""
        keys, rows = in_order_of_arrival(self.setting, part)
        exploded = self.windows.explode(self.windows.slices(rows.column(EVENT).to_numpy()))
        clocks = self.setting.clocks(rows.column(ARRIVAL).to_numpy())
        watermarks = self.setting.timeline.at_arrival(clocks)
        in_force = watermarks[exploded.rows]
        waits = self.windows.last_instants(exploded.windows) > in_force
        is_missed = self.windows.are_late(exploded.windows, in_force)
        accumulators = [
            aggregate.partial(rows, Groups.of_each(rows.num_rows)) for aggregate in self.setting.aggregates
        ]
        at, numbers = exploded.rows[waits], exploded.windows[waits]
        pieces = Pieces(
            keys[at], numbers, np.ones(len(at), np.int64), clocks[at], clocks[at], take_each(accumulators, at)
        )
        again = ~waits & ~is_missed
        at, numbers = exploded.rows[again], exploded.windows[again]
        order = np.lexsort((at, numbers, keys[at]))
        at, numbers = at[order], numbers[order]
        refires = Refires(keys[at], numbers, clocks[at], watermarks[at], take_each(accumulators, at))
        return pieces, refires, int(np.count_nonzero(is_missed))

    def _due(self, pieces: list[Pieces], restored: Lives) -> Lives:
        """Windows that have not fired before the slice, each from all of its pieces and what was parked of
        it: the oldest window of all keys first where they lie close together, so that those that fire, and
        those that close, stand side by side."""
        arrivals = restored.first_arrivals, restored.last_arrivals
        whole = Pieces.join(
            [
                *pieces,
                Pieces(restored.keys, restored.windows, restored.elements, *arrivals, restored.accumulators),
            ]
        )
        if not len(whole.keys):
            return restored
        groups, windows, keys = group_pairs(whole.windows, whole.keys)
        is_parked = np.zeros(groups.size, np.bool_)
        is_parked[groups.codes[len(whole.keys) - len(restored.keys) :]] = True
        first, last = self._arrivals(whole, whole.windows, groups)
        return Lives(
            keys,
            windows,
            sum_of_groups(whole.elements, groups),
            np.zeros(groups.size, np.int64),
            np.full(groups.size, NONE),
            first,
            last,
            is_parked,
            np.ones(groups.size, np.bool_),
            [
                a.combine(columns, groups)
                for a, columns in zip(self.setting.aggregates, whole.accumulators, strict=True)
            ],
        )

    def _fire(self, due: Lives) -> tuple[Lives, Panes]:
        """Fire the windows whose last instant a watermark of the slice reaches."""
        timeline = self.setting.timeline
        fires = due.windows <= self.windows.newest_passed(timeline.final)
        at = rows_where(fires)
        rises = _by_window(
            due.windows[at],
            lambda windows: np.searchsorted(timeline.watermarks, self.windows.last_instants(windows)),
        )
        tick_ends, fired = timeline.tick_ends[rises], len(rises)
        keys, starts = due.keys[at], self.windows.starts(due.windows[at])
        ends = starts + self.windows.size_ms
        panes = Panes(
            "on_time",
            keys,
            starts,
            ends,
            np.ones(fired, np.int64),
            results_of(self.setting, take_each(due.accumulators, at), keys, starts, ends),
            due.elements[at],
            timeline.watermarks[rises],
            tick_ends,
            np.full(fired, NONE),
        )
        last_fired = due.last_fired.copy()
        last_fired[at] = tick_ends
        has_contents = ~fires if self.setting.purges else due.has_contents
        return due._replace(
            firings=fires.astype(np.int64), last_fired=last_fired, has_contents=has_contents
        ), panes

    def _refire(self, lives: Sequence[Lives], late: Refires) -> tuple[Lives, Booleans, Panes]:
        """Fire a window again for each late element: with running totals, or with that element alone where
        firings purge.

        Returns those windows as they are then, which of `lives`, part after part, they replace, and the
        panes.
        """
        starts = run_starts(late.keys, late.windows)
        runs = run_numbers(starts, len(late.keys))
        keys, windows = (
            np.concatenate([part.keys for part in lives]),
            np.concatenate([part.windows for part in lives]),
        )
        found = positions_among(keys, windows, late.keys[starts], late.windows[starts])
        known = np.flatnonzero(found >= 0)
        held = Lives.pick(lives, found[known])
        bases = np.full(len(starts), -1)
        bases[known] = np.arange(len(known))
        places = np.arange(len(late.keys)) - starts[runs] + 1
        elements, firings = places.copy(), places.copy()
        has_base = bases[runs] >= 0
        elements[has_base] += held.elements[bases[runs[has_base]]]
        firings[has_base] += held.firings[bases[runs[has_base]]]
        totals = late.accumulators
        if not self.setting.purges:
            totals = self._running(held, known, runs, late.accumulators)
        begins = self.windows.starts(late.windows)
        ends = begins + self.windows.size_ms
        panes = Panes(
            "late",
            late.keys,
            begins,
            ends,
            firings,
            results_of(self.setting, totals, late.keys, begins, ends),
            elements,
            late.watermarks,
            np.full(len(late.keys), NONE),
            late.clocks,
        )
        last = np.append(starts, len(late.keys))[1:] - 1
        first_arrivals = late.clocks[starts]
        is_parked = np.zeros(len(starts), np.bool_)
        first_arrivals[known] = held.first_arrivals
        is_parked[known] = held.is_parked
        again = Lives(
            late.keys[last],
            late.windows[last],
            elements[last],
            firings[last],
            late.clocks[last],
            first_arrivals,
            late.clocks[last],
            is_parked,
            np.full(len(last), not self.setting.purges),
            take_each(totals, last),
        )
        is_replaced = np.zeros(len(keys), np.bool_)
        is_replaced[found[known]] = True
        return again, is_replaced, panes

    def _running(self, held: Lives, known: Longs, runs: Longs, accumulators: list[Columns]) -> list[Columns]:
        """The running totals of each window's late elements, upon what the window held before: row i of
        `held` is that of run known[i].
        """
        whole = join_each([held.accumulators, accumulators])
        order = np.lexsort((np.append(np.full(len(known), -1), np.arange(len(runs))), np.append(known, runs)))
        begins = run_starts(np.append(known, runs)[order])
        whole = take_each(whole, order)
        running = [
            a.running(columns, begins) for a, columns in zip(self.setting.aggregates, whole, strict=True)
        ]
        return take_each(running, np.flatnonzero(order >= len(known)))

    def _park(self, lives: Lives) -> tuple[OpenWindows, list[Timers]]:
        """Windows that stay open, with their timers, in their order: the oldest of all keys first. So equal
        times stand side by side, and what some windows lack is at one end: they are written, hashed and read
        in less time."""
        starts = self.windows.starts(lives.windows)
        ends, cleanups = starts + self.windows.size_ms, self.windows.cleanup_times(lives.windows)
        last_instants = self.windows.last_instants(lives.windows)
        waits = last_instants > self.setting.timeline.final
        is_empty = ~lives.has_contents
        windows = OpenWindows(
            lives.keys,
            starts,
            ends,
            lives.elements,
            lives.firings,
            lives.last_fired,
            np.where(waits, last_instants, NONE),
            cleanups,
            lives.first_arrivals,
            lives.last_arrivals,
            take_each(lives.accumulators, np.flatnonzero(lives.has_contents))
            if is_empty.any()
            else lives.accumulators,
            is_empty,
        )
        at = rows_where(waits)
        firing = Timers("fire", lives.keys[at], starts[at], ends[at], last_instants[at])
        if not self.windows.lateness_ms:
            at = rows_where(~waits)
            rest = Timers("cleanup", lives.keys[at], starts[at], ends[at], cleanups[at])
            return windows, [firing._replace(purpose="fire+cleanup"), rest]
        return windows, [firing, Timers("cleanup", lives.keys, starts, ends, cleanups)]


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


def positions_among(of_keys: Longs, of_windows: Longs, keys: Longs, windows: Longs) -> Longs:
    """Where each (key, window), which are sorted and distinct, stands among windows of some keys; -1 for
    nowhere.
    """
    positions = np.full(len(keys), -1)
    if not len(keys) or not len(of_keys):
        return positions
    is_asked = np.zeros(max(int(keys[-1]), int(of_keys.max())) + 1, np.bool_)
    is_asked[keys] = True
    candidates = np.flatnonzero(is_asked[of_keys])
    candidate_windows = of_windows[candidates]
    low, high = (int(bound(np.append(candidate_windows, windows))) for bound in (np.min, np.max))
    width = high - low + 1
    if (int(keys[-1]) + 1) * width >= 1 << 62:  # windows so far apart are numbered in their order
        ranks = np.unique(np.append(candidate_windows, windows), return_inverse=True)[1]
        candidate_windows, windows = ranks[: len(candidates)], ranks[len(candidates) :]
        low, width = 0, len(ranks)
    asked = keys * width + (windows - low)
    stored = of_keys[candidates] * width + (candidate_windows - low)
    at = np.minimum(np.searchsorted(asked, stored), len(asked) - 1)
    rows = np.flatnonzero(asked[at] == stored)
    positions[at[rows]] = candidates[rows]
    return positions
