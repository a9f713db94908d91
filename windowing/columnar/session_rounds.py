"""The sessions that tardy elements concern, many chains abreast: a round takes the next element of every
chain.

The same rules as `session_walk`, which walks few long chains one by one; whole columns here, of which a row
is a session in flight.
"""

from __future__ import annotations

import numpy as np

from slackwater.windowing.columnar.columns import Longs
from slackwater.windowing.columnar.session_chains import ConcernedChains, SessionRules, TardyElements, Walked
from slackwater.windowing.columnar.session_paths import Paths
from slackwater.windowing.columnar.session_rows import (
    LATE,
    NO_CONTENTS,
    NO_TIME,
    ON_TIME,
    WITHDRAWN,
    SessionColumns,
    SessionPanes,
    columns_of,
    rows_of,
    together,
)
from slackwater.windowing.columnar.timeline import Timeline


class Rounds:
    """Walks chains abreast, and keeps what came of them.

    Of a session in flight the key is the number of its chain, `contents` the number of its path.
    """

    def __init__(self, rules: SessionRules, timeline: Timeline) -> None:
        self.rules = rules
        self.timeline = timeline
        self._panes = [columns_of(SessionPanes, [])]
        self._late = [np.zeros(0, np.int64)]
        self._opened = self._merged = self._cleaned = self._elements_cleaned = 0

    def walk(self, chains: ConcernedChains) -> Walked:
        """Walk these chains. Called by `replay_sessions`."""
        self._live = chains.sessions
        self._paths = Paths(chains.rows, chains.lengths, len(chains.lengths) + int(chains.counts.sum()))
        over = [columns_of(SessionColumns, [])]
        for number in range(int(chains.counts.max(initial=0))):
            left = int(
                np.searchsorted(-chains.counts, -number)
            )  # the first chains have an element in this round
            is_over = self._live.keys >= left
            over.append(rows_of(self._live, is_over))
            self._live = rows_of(self._live, ~is_over)
            at = chains.firsts[:left] + number
            self._round(
                TardyElements(*(column[at] for column in chains.elements)),
                chains.row_numbers[at],
                chains.positions[at],
            )
        panes, in_flight = together(self._panes), together([*over, self._live])
        in_flight = in_flight._replace(
            keys=chains.keys[in_flight.keys], contents=self._paths.pick(in_flight.contents)
        )
        return Walked(
            panes._replace(keys=chains.keys[panes.keys]),
            in_flight,
            self._paths.written(),
            np.concatenate(self._late),
            self._opened,
            self._merged,
            self._cleaned,
            self._elements_cleaned,
        )

    def _round(self, elements: TardyElements, rows: Longs, positions: Longs) -> None:
        """One element for each chain. At most two sessions touch it: they don't touch each other, and none is
        shorter than the gap.
        """
        gap = self.rules.gap_ms
        times, clocks, watermarks = elements.times, elements.clocks, elements.watermarks
        live = self._live
        time = times[live.keys]
        touched = np.flatnonzero((live.starts <= time + gap) & (live.ends >= time))
        is_gone = self._rise(touched, watermarks)
        touched = touched[~is_gone[touched]]
        one, other = np.full((2, len(times)), -1)
        one[live.keys[touched]] = touched
        other[live.keys[touched[::-1]]] = touched[::-1]
        starts, ends = times.copy(), times + gap
        joins = np.flatnonzero(one >= 0)
        for slots in (one[joins], other[joins]):
            starts[joins] = np.minimum(starts[joins], live.starts[slots])
            ends[joins] = np.maximum(ends[joins], live.ends[slots])
        is_late = self.rules.are_late(ends - 1, watermarks)
        self._late.append(positions[is_late])
        slots = one[joins]
        is_same = (
            (slots == other[joins])
            & (live.starts[slots] == starts[joins])
            & (live.ends[slots] == ends[joins])
        )
        merging = joins[~is_same]
        self._merge(merging, one[merging], other[merging], starts[merging], ends[merging], elements)
        is_gone[other[merging]] = True
        is_gone[one[merging]] = False
        begun = np.flatnonzero((one < 0) & ~is_late)
        one[begun] = len(live.keys) + np.arange(len(begun))
        self._opened += len(begun)
        none, never, nothing = (
            np.zeros(len(begun), np.int64),
            np.full(len(begun), NO_TIME),
            np.full(len(begun), NO_CONTENTS),
        )
        new = SessionColumns(
            begun, times[begun], ends[begun], none, none, never, clocks[begun], clocks[begun], nothing
        )
        self._live = together([live, new])
        taken = np.flatnonzero(~is_late)
        self._add(taken, one[taken], rows[taken], elements)
        if is_gone.any():
            self._live = rows_of(self._live, np.append(~is_gone, np.ones(len(begun), np.bool_)))

    def _rise(self, touched: Longs, watermarks: Longs) -> np.ndarray:
        """Fire what the watermarks have reached of the touched sessions; bool for each live session: it is
        collected.
        """
        live = self._live
        last_instants, reached = live.ends[touched] - 1, watermarks[live.keys[touched]]
        fires = (last_instants <= reached) & (live.firings[touched] == 0)
        due = touched[fires]
        rises = np.searchsorted(self.timeline.watermarks, last_instants[fires])
        tick_ends = self.timeline.tick_ends[rises]
        self._fire(due, ON_TIME, self.timeline.watermarks[rises], tick_ends, np.full(len(due), NO_TIME))
        live.last_fired_at[due] = tick_ends
        is_gone = np.zeros(len(live.keys), np.bool_)
        is_gone[touched[self.rules.are_late(last_instants, reached)]] = True
        self._cleaned += int(np.count_nonzero(is_gone))
        self._elements_cleaned += int(live.elements[is_gone].sum())
        return is_gone

    def _merge(
        self, chains: Longs, ones: Longs, others: Longs, starts: Longs, ends: Longs, elements: TardyElements
    ) -> None:
        """The session that an element makes of one or of two takes the place of the one; its element is yet
        to be added.
        """
        live, clocks = self._live, elements.clocks[chains]
        is_pair = ones != others
        absorbed, by = np.append(ones, others[is_pair]), np.append(chains, chains[is_pair])
        has_fired = live.firings[absorbed] > 0
        self._merged += int(has_fired.sum())
        self._opened += int(has_fired.sum()) + len(ones) - len(absorbed)
        if self.rules.accumulates:
            self._withdraw(
                absorbed[has_fired], elements.watermarks[by[has_fired]], elements.clocks[by[has_fired]]
            )
        live.elements[ones] += np.where(is_pair, live.elements[others], 0)
        live.firings[ones] = 0
        live.last_fired_at[ones] = NO_TIME
        live.first_arrivals[ones] = np.minimum(
            np.minimum(live.first_arrivals[ones], live.first_arrivals[others]), clocks
        )
        live.last_arrivals[ones] = np.maximum(live.last_arrivals[ones], live.last_arrivals[others])
        live.starts[ones], live.ends[ones] = starts, ends
        paths, second = live.contents[ones], live.contents[others]
        is_shorter = self._paths.sizes[paths] < self._paths.sizes[second]
        paths, second = np.where(is_shorter, second, paths), np.where(is_shorter, paths, second)
        both = is_pair & (second != NO_CONTENTS)
        self._paths.absorb(paths[both], second[both])
        live.contents[ones] = paths

    def _add(self, chains: Longs, slots: Longs, rows: Longs, elements: TardyElements) -> None:
        """Each chain's element to the session at its slot, which fires if the watermark is beyond it."""
        live, clocks, watermarks = self._live, elements.clocks[chains], elements.watermarks[chains]
        live.elements[slots] += 1
        live.last_arrivals[slots] = np.maximum(live.last_arrivals[slots], clocks)
        empty = slots[live.contents[slots] == NO_CONTENTS]
        live.contents[empty] = self._paths.begin(len(empty))
        self._paths.append(live.contents[slots], rows)
        is_due = live.ends[slots] - 1 <= watermarks
        due = slots[is_due]
        self._fire(due, LATE, watermarks[is_due], np.full(len(due), NO_TIME), clocks[is_due])
        live.last_fired_at[due] = clocks[is_due]

    def _fire(self, slots: Longs, kind: int, watermarks: Longs, tick_ends: Longs, causes: Longs) -> None:
        live = self._live
        live.firings[slots] += 1
        own = rows_of(live, slots)
        shown = self._paths.pick(own.contents)
        kinds = np.full(len(slots), kind)
        self._panes.append(
            SessionPanes(
                own.keys,
                own.starts,
                own.ends,
                own.firings,
                kinds,
                own.elements,
                watermarks,
                tick_ends,
                causes,
                shown,
            )
        )
        if not self.rules.accumulates:
            live.contents[slots] = NO_CONTENTS

    def _withdraw(self, slots: Longs, watermarks: Longs, clocks: Longs) -> None:
        own = rows_of(self._live, slots)
        count = len(slots)
        kinds, nobody = np.full(count, WITHDRAWN), np.zeros(count, np.int64)
        never, nothing = np.full(count, NO_TIME), np.full(count, NO_CONTENTS)
        self._panes.append(
            SessionPanes(
                own.keys,
                own.starts,
                own.ends,
                own.firings + 1,
                kinds,
                nobody,
                watermarks,
                never,
                clocks,
                nothing,
            )
        )
