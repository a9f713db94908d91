"""The sessions that tardy elements concern, many chains abreast: a round takes the next element of every
chain.

The same rules as `session_walk`, which walks few long chains one by one; whole columns here, of which a row
is a session in flight.
"""

from __future__ import annotations

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.sessions.chains import ConcernedChains, SessionRules, Walked
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
    """Walks chains abreast, and keeps what came of them.

    Of a session in flight the key is the number of its chain, `contents` the number of its path.
    """

    def __init__(self, rules: SessionRules, timeline: Timeline) -> None:
        self.rules = rules
        self.timeline = timeline
        self._firings = [columns_of(Firings, [])]
        self._late = [np.zeros(0, np.int64)]
        self._opened = self._merged = self._cleaned = self._elements_cleaned = 0

    def walk(self, chains: ConcernedChains) -> Walked:
        """Walk these chains. Called by `replay_sessions`."""
        self._live = chains.sessions
        self._paths = Paths(chains.rows, chains.lengths, len(chains.lengths) + int(chains.counts.sum()))
        over = [columns_of(OpenWindows, [])]
        for number in range(int(chains.counts.max(initial=0))):
            chain_count = int(
                np.searchsorted(-chains.counts, -number)
            )  # the first chains have an element in this round
            is_over = self._live.keys >= chain_count
            over.append(rows_of(self._live, is_over))
            self._live = rows_of(self._live, ~is_over)
            at = chains.firsts[:chain_count] + number
            self._round(
                Elements(*(column[at] for column in chains.elements)),
                chains.row_numbers[at],
                chains.positions[at],
            )
        firings, in_flight = concatenate(self._firings), concatenate([*over, self._live])
        in_flight = in_flight._replace(
            keys=chains.keys[in_flight.keys], contents=self._paths.pick(in_flight.contents)
        )
        return Walked(
            firings=firings._replace(keys=chains.keys[firings.keys]),
            in_flight=in_flight,
            running=self._paths.written(),
            late=np.concatenate(self._late),
            opened=self._opened,
            merged=self._merged,
            cleaned=self._cleaned,
            elements_cleaned=self._elements_cleaned,
        )

    def _round(self, elements: Elements, rows: Longs, positions: Longs) -> None:
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
        new = OpenWindows(
            keys=begun,
            starts=times[begun],
            ends=ends[begun],
            elements=np.zeros(len(begun), np.int64),
            firings=np.zeros(len(begun), np.int64),
            last_fired_at=np.full(len(begun), NO_TIME),
            first_arrivals=clocks[begun],
            last_arrivals=clocks[begun],
            contents=np.full(len(begun), NO_CONTENTS),
        )
        self._live = concatenate([live, new])
        accepted = np.flatnonzero(~is_late)
        self._add(accepted, one[accepted], rows[accepted], elements)
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
        reaching, no_causes = self.timeline.watermarks[rises], np.full(len(due), NO_TIME)
        self._fire(due, PaneKind.ON_TIME, reaching, tick_ends, no_causes)
        live.last_fired_at[due] = tick_ends
        is_gone = np.zeros(len(live.keys), np.bool_)
        is_gone[touched[self.rules.are_late(last_instants, reached)]] = True
        self._cleaned += int(np.count_nonzero(is_gone))
        self._elements_cleaned += int(live.elements[is_gone].sum())
        return is_gone

    def _merge(
        self, chains: Longs, ones: Longs, others: Longs, starts: Longs, ends: Longs, elements: Elements
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

    def _add(self, chains: Longs, slots: Longs, rows: Longs, elements: Elements) -> None:
        """Each chain's element to the session at its slot, which fires if the watermark is beyond it."""
        live, clocks, watermarks = self._live, elements.clocks[chains], elements.watermarks[chains]
        live.elements[slots] += 1
        live.last_arrivals[slots] = np.maximum(live.last_arrivals[slots], clocks)
        empty = slots[live.contents[slots] == NO_CONTENTS]
        live.contents[empty] = self._paths.begin(len(empty))
        self._paths.append(live.contents[slots], rows)
        is_due = live.ends[slots] - 1 <= watermarks
        due = slots[is_due]
        self._fire(due, PaneKind.LATE, watermarks[is_due], np.full(len(due), NO_TIME), clocks[is_due])
        live.last_fired_at[due] = clocks[is_due]

    def _fire(self, slots: Longs, kind: int, watermarks: Longs, tick_ends: Longs, causes: Longs) -> None:
        live = self._live
        live.firings[slots] += 1
        due = rows_of(live, slots)
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
            live.contents[slots] = NO_CONTENTS

    def _withdraw(self, slots: Longs, watermarks: Longs, clocks: Longs) -> None:
        absorbed = rows_of(self._live, slots)
        self._firings.append(
            Firings(
                keys=absorbed.keys,
                starts=absorbed.starts,
                ends=absorbed.ends,
                firings=absorbed.firings + 1,
                kinds=np.full(len(slots), PaneKind.WITHDRAWN),
                elements=np.zeros(len(slots), np.int64),
                watermarks=watermarks,
                tick_ends=np.full(len(slots), NO_TIME),
                causes=clocks,
                contents=np.full(len(slots), NO_CONTENTS),
            )
        )
