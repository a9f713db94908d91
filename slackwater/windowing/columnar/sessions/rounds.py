"""Walks chains in parallel, by the rules of `walk`: round r takes the r-th tardy element of every chain."""

from __future__ import annotations

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.sessions.chains import SessionRules, TardyChains, WalkResult
from slackwater.windowing.columnar.sessions.paths import Paths
from slackwater.windowing.columnar.timeline.timeline import Timeline
from slackwater.windowing.columnar.window_columns import (
    NO_CONTENTS,
    NO_TIME,
    Elements,
    Firings,
    OpenWindows,
    PaneKind,
    columns_of,
    concatenate,
    rows_of,
)


class Rounds:
    """One walk over chains in parallel. For a session in flight `keys` is its chain, `contents` its path."""

    def __init__(self, rules: SessionRules, timeline: Timeline, chains: TardyChains) -> None:
        self.rules = rules
        self.timeline = timeline
        self.chains = chains
        self._sessions = chains.sessions
        self._paths = Paths(chains.rows, chains.lengths, len(chains.lengths) + int(chains.counts.sum()))
        self._firings = [columns_of(Firings, [])]
        self._late = [np.zeros(0, np.int64)]
        self._opened_count = self._merged_count = self._cleaned_count = self._elements_cleaned = 0

    def walk(self) -> WalkResult:
        """Walk the chains, once. Called by `replay_sessions`."""
        chains = self.chains
        finished_sessions = [columns_of(OpenWindows, [])]
        for number in range(int(chains.counts.max(initial=0))):
            # Chains come by length, the longest first: the first ones have an element in this round.
            chain_count = int(np.searchsorted(-chains.counts, -number))
            is_finished = self._sessions.keys >= chain_count
            finished_sessions.append(rows_of(self._sessions, is_finished))
            self._sessions = rows_of(self._sessions, ~is_finished)
            at = chains.firsts[:chain_count] + number
            self._take_round(
                Elements(*(column[at] for column in chains.elements)),
                chains.row_numbers[at],
                chains.positions[at],
            )
        firings, in_flight = concatenate(self._firings), concatenate([*finished_sessions, self._sessions])
        in_flight = in_flight._replace(
            keys=chains.keys[in_flight.keys], contents=self._paths.pick(in_flight.contents)
        )
        return WalkResult(
            firings=firings._replace(keys=chains.keys[firings.keys]),
            in_flight=in_flight,
            running=self._paths.running_rows(),
            late=np.concatenate(self._late),
            sessions_opened=self._opened_count,
            sessions_merged=self._merged_count,
            sessions_cleaned=self._cleaned_count,
            elements_cleaned=self._elements_cleaned,
        )

    def _take_round(self, elements: Elements, rows: Longs, positions: Longs) -> None:
        """Take one element of each chain. It touches at most two sessions, which are apart and at least as
        long as the gap.
        """
        gap = self.rules.gap_ms
        times, watermarks = elements.times, elements.watermarks
        sessions = self._sessions
        time = times[sessions.keys]
        touched_rows = np.flatnonzero((sessions.starts <= time + gap) & (sessions.ends >= time))
        is_gone = self._fire_on_time(touched_rows, watermarks)
        touched_rows = touched_rows[~is_gone[touched_rows]]
        one, other = np.full((2, len(times)), -1)
        one[sessions.keys[touched_rows]] = touched_rows
        other[sessions.keys[touched_rows[::-1]]] = touched_rows[::-1]
        starts, ends = times.copy(), times + gap
        joins = np.flatnonzero(one >= 0)
        for slots in (one[joins], other[joins]):
            starts[joins] = np.minimum(starts[joins], sessions.starts[slots])
            ends[joins] = np.maximum(ends[joins], sessions.ends[slots])
        is_late = self.rules.are_late(ends - 1, watermarks)
        self._late.append(positions[is_late])
        slots = one[joins]
        is_same = (
            (slots == other[joins])
            & (sessions.starts[slots] == starts[joins])
            & (sessions.ends[slots] == ends[joins])
        )
        merging = joins[~is_same]
        self._merge(
            merging,
            one[merging],
            other[merging],
            starts=starts[merging],
            ends=ends[merging],
            elements=elements,
        )
        is_gone[other[merging]] = True
        is_gone[one[merging]] = False
        new_chains = np.flatnonzero((one < 0) & ~is_late)
        one[new_chains] = len(sessions.keys) + np.arange(len(new_chains))
        self._opened_count += len(new_chains)
        self._sessions = concatenate([sessions, _new_sessions(new_chains, elements, gap)])
        accepting_chains = np.flatnonzero(~is_late)
        self._add_elements(accepting_chains, one[accepting_chains], rows[accepting_chains], elements)
        if is_gone.any():
            self._sessions = rows_of(self._sessions, np.append(~is_gone, np.ones(len(new_chains), np.bool_)))

    def _fire_on_time(self, touched_rows: Longs, watermarks: Longs) -> Booleans:
        """Fire the touched sessions whose last instant the watermark of their chain's element has reached.
        Returns bool for each session in flight: whether it is collected.
        """
        sessions = self._sessions
        last_instants, watermarks_of_rows = (
            sessions.ends[touched_rows] - 1,
            watermarks[sessions.keys[touched_rows]],
        )
        fires = (last_instants <= watermarks_of_rows) & (sessions.firings[touched_rows] == 0)
        due = touched_rows[fires]
        rises = np.searchsorted(self.timeline.watermarks, last_instants[fires])
        tick_ends = self.timeline.tick_ends[rises]
        reaching, no_causes = self.timeline.watermarks[rises], np.full(len(due), NO_TIME)
        self._fire(due, PaneKind.ON_TIME, reaching, tick_ends, no_causes)
        sessions.last_fired_at[due] = tick_ends
        is_gone = np.zeros(len(sessions.keys), np.bool_)
        is_gone[touched_rows[self.rules.are_late(last_instants, watermarks_of_rows)]] = True
        self._cleaned_count += int(np.count_nonzero(is_gone))
        self._elements_cleaned += int(sessions.elements[is_gone].sum())
        return is_gone

    def _merge(
        self, chains: Longs, ones: Longs, others: Longs, *, starts: Longs, ends: Longs, elements: Elements
    ) -> None:
        """Merge the element of each chain with the one or two sessions it touches, into the row of the first,
        without adding it. `ones` and `others` are the rows of the touched sessions, equal where there is only
        one; `starts` and `ends` the bounds of the new sessions.
        """
        sessions, clocks = self._sessions, elements.clocks[chains]
        is_pair = ones != others
        absorbed_rows, by = np.append(ones, others[is_pair]), np.append(chains, chains[is_pair])
        has_fired = sessions.firings[absorbed_rows] > 0
        self._merged_count += int(has_fired.sum())
        self._opened_count += int(has_fired.sum()) + len(ones) - len(absorbed_rows)
        if self.rules.accumulates:
            self._withdraw(
                absorbed_rows[has_fired], elements.watermarks[by[has_fired]], elements.clocks[by[has_fired]]
            )
        sessions.elements[ones] += np.where(is_pair, sessions.elements[others], 0)
        sessions.firings[ones] = 0
        sessions.last_fired_at[ones] = NO_TIME
        sessions.first_arrivals[ones] = np.minimum(
            np.minimum(sessions.first_arrivals[ones], sessions.first_arrivals[others]), clocks
        )
        sessions.last_arrivals[ones] = np.maximum(
            sessions.last_arrivals[ones], sessions.last_arrivals[others]
        )
        sessions.starts[ones], sessions.ends[ones] = starts, ends
        paths, second = sessions.contents[ones], sessions.contents[others]
        is_shorter = self._paths.sizes[paths] < self._paths.sizes[second]
        paths, second = np.where(is_shorter, second, paths), np.where(is_shorter, paths, second)
        both = is_pair & (second != NO_CONTENTS)
        self._paths.absorb(paths[both], second[both])
        sessions.contents[ones] = paths

    def _add_elements(self, chains: Longs, slots: Longs, rows: Longs, elements: Elements) -> None:
        """Add the element of each chain to its session, which fires if the watermark has passed it."""
        sessions, clocks, watermarks = self._sessions, elements.clocks[chains], elements.watermarks[chains]
        sessions.elements[slots] += 1
        sessions.last_arrivals[slots] = np.maximum(sessions.last_arrivals[slots], clocks)
        empty = slots[sessions.contents[slots] == NO_CONTENTS]
        sessions.contents[empty] = self._paths.begin(len(empty))
        self._paths.append(sessions.contents[slots], rows)
        is_due = sessions.ends[slots] - 1 <= watermarks
        due = slots[is_due]
        self._fire(due, PaneKind.LATE, watermarks[is_due], np.full(len(due), NO_TIME), clocks[is_due])
        sessions.last_fired_at[due] = clocks[is_due]

    def _fire(self, slots: Longs, kind: int, watermarks: Longs, tick_ends: Longs, causes: Longs) -> None:
        sessions = self._sessions
        sessions.firings[slots] += 1
        due = rows_of(sessions, slots)
        self._firings.append(
            Firings(
                keys=due.keys,
                starts=due.starts,
                ends=due.ends,
                firings=due.firings,
                kinds=np.full(len(slots), kind),
                elements=due.elements,
                watermarks=watermarks,
                tick_ends=tick_ends,
                causes=causes,
                contents=self._paths.pick(due.contents),
            )
        )
        if not self.rules.accumulates:
            sessions.contents[slots] = NO_CONTENTS

    def _withdraw(self, slots: Longs, watermarks: Longs, clocks: Longs) -> None:
        absorbed_sessions = rows_of(self._sessions, slots)
        self._firings.append(
            Firings(
                keys=absorbed_sessions.keys,
                starts=absorbed_sessions.starts,
                ends=absorbed_sessions.ends,
                firings=absorbed_sessions.firings + 1,
                kinds=np.full(len(slots), PaneKind.WITHDRAWN),
                elements=np.zeros(len(slots), np.int64),
                watermarks=watermarks,
                tick_ends=np.full(len(slots), NO_TIME),
                causes=clocks,
                contents=np.full(len(slots), NO_CONTENTS),
            )
        )


def _new_sessions(chains: Longs, elements: Elements, gap_ms: int) -> OpenWindows:
    """A session for the element of each of these chains, before it is added."""
    times, clocks, nothing = elements.times[chains], elements.clocks[chains], np.zeros(len(chains), np.int64)
    return OpenWindows(
        keys=chains,
        starts=times,
        ends=times + gap_ms,
        elements=nothing,
        firings=nothing.copy(),
        last_fired_at=np.full(len(chains), NO_TIME),
        first_arrivals=clocks,
        last_arrivals=clocks.copy(),
        contents=np.full(len(chains), NO_CONTENTS),
    )
