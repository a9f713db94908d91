"""Chains of sessions and tardy elements that touch: which there are, what a walk is given of them, and what
it leaves.

How a chain is walked, element by element or many chains abreast, stands in `session_walk` and
`session_rounds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import run_starts
from slackwater.windowing.columnar.arrays.orders import sort_non_negative
from slackwater.windowing.columnar.sessions.intervals import Chains, chain_intervals
from slackwater.windowing.columnar.sessions.paths import Running
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK
from slackwater.windowing.columnar.window_columns import (
    NO_CONTENTS,
    Elements,
    Firings,
    OpenWindows,
    concatenate,
    renumber_contents,
    rows_of,
)


@dataclass(frozen=True)
class SessionRules:
    """What the user chose.

    Attributes:
        gap_ms: the sessions' gap.
        lateness_ms: how long after its last instant a session is collected.
        accumulates: whether a firing leaves contents where they are; otherwise it purges them.
        collected_ms: sessions whose last instant is at or before it were collected before; see
            `Timeline.collected`.
    """

    gap_ms: int
    lateness_ms: int
    accumulates: bool
    collected_ms: int = INITIAL_WATERMARK

    def are_late(self, last_instants: Longs, watermarks: Longs) -> Booleans:
        """bool[n]: whether sessions that end there are collected when their watermarks are in force."""
        return (last_instants + self.lateness_ms <= watermarks) | (last_instants <= self.collected_ms)

    def is_late(self, last_instant: int, watermark: int) -> bool:
        """`are_late` of one session."""
        return last_instant + self.lateness_ms <= watermark or last_instant <= self.collected_ms


class ConcernedChains(NamedTuple):
    """Chains that hold a tardy element, those with most of them first.

    Attributes:
        keys: int64[c], the key of each chain.
        sessions: those of a chain in order of start. Instead of the key they have the number of their chain;
            `contents` is the number of a list of rows, or NO_CONTENTS.
        rows, lengths: these lists, one after the other, and how long each is.
        elements: the tardy elements by chain and arrival, but for those that nothing could accept.
        positions: the place of each in order of arrival.
        row_numbers: the row that each is among those that make up contents.
        firsts, counts: int64[c], where each chain's elements begin, and how many they are.
    """

    keys: Longs
    sessions: OpenWindows
    rows: Longs
    lengths: Longs
    elements: Elements
    positions: Longs
    row_numbers: Longs
    firsts: Longs
    counts: Longs

    def longer_than_most(self, few: int) -> int:
        """How many chains have more elements than any number that at least `few` chains have."""
        longest = int(self.counts[few - 1]) if len(self.counts) >= few else 0
        return int(np.searchsorted(-self.counts, -longest))

    def part(self, first: int, beyond: int) -> ConcernedChains:
        """Some of the chains, numbered from 0."""
        chosen = (self.sessions.keys >= first) & (self.sessions.keys < beyond)
        sessions = rows_of(self.sessions, chosen)
        lists = np.zeros(len(self.lengths), np.bool_)
        lists[sessions.contents[sessions.contents != NO_CONTENTS]] = True
        numbers = np.append(np.cumsum(lists) - 1, NO_CONTENTS)[
            sessions.contents
        ]  # NO_CONTENTS is the last place, too
        return self._replace(
            keys=self.keys[first:beyond],
            sessions=sessions._replace(keys=sessions.keys - first, contents=numbers),
            rows=self.rows[np.repeat(lists, self.lengths)],
            lengths=self.lengths[lists],
            firsts=self.firsts[first:beyond],
            counts=self.counts[first:beyond],
        )


class Walked(NamedTuple):
    """What a walk has made of chains.

    Attributes:
        firings: every firing and withdrawal up to the last tardy element of each chain.
        in_flight: the sessions left behind it; what later watermarks do to them is still to come.
        running: what makes up the contents of both, which are numbers of picks.
        late: positions of the elements that were dropped.
        opened: sessions begun, net of those that had not fired when they were absorbed.
        merged: sessions that had fired and were absorbed.
        cleaned: sessions collected.
        elements_cleaned: their elements.
    """

    firings: Firings
    in_flight: OpenWindows
    running: Running
    late: Longs
    opened: int
    merged: int
    cleaned: int
    elements_cleaned: int

    def then(self, other: Walked) -> Walked:
        """What both have made of different chains."""
        picked = len(self.running.picks)
        return Walked(
            firings=concatenate([self.firings, renumber_contents(other.firings, picked)]),
            in_flight=concatenate([self.in_flight, renumber_contents(other.in_flight, picked)]),
            running=self.running.then(other.running),
            late=np.append(self.late, other.late),
            opened=self.opened + other.opened,
            merged=self.merged + other.merged,
            cleaned=self.cleaned + other.cleaned,
            elements_cleaned=self.elements_cleaned + other.elements_cleaned,
        )


def concerned_chains(
    sessions_whole: OpenWindows, pieces: Chains, tardy: Elements, rules: SessionRules
) -> tuple[Booleans, Longs, ConcernedChains]:
    """(bool[s], the sessions whose chain holds a tardy element; positions of tardy elements that nothing
    could accept; the chains).

    Args:
        whole: sessions that do not touch each other; row i is put together of the rows of chain i of
            `pieces`. The rows of tardy elements come behind these.
        tardy: in order of arrival.
    """
    is_concerned = np.zeros(len(sessions_whole.keys), np.bool_)
    near = np.flatnonzero(np.isin(sessions_whole.keys, tardy.keys))
    firsts = np.concatenate([sessions_whole.starts[near], tardy.times])
    lasts = np.concatenate([sessions_whole.ends[near] - rules.gap_ms, tardy.times])
    numbers = chain_intervals(
        np.concatenate([sessions_whole.keys[near], tardy.keys]), firsts, lasts, rules.gap_ms
    ).numbers()
    of_near, of_tardy = numbers[: len(near)], numbers[len(near) :]
    # An element that is late by its own window is accepted only by a session, and such elements alone make
    # none.
    is_late = rules.are_late(tardy.times + (rules.gap_ms - 1), tardy.watermarks)
    is_dropped = is_late & ~np.isin(of_tardy, np.concatenate([of_near, of_tardy[~is_late]]))
    accepted = np.flatnonzero(~is_dropped)
    in_chains, of_left = sort_non_negative(of_tardy[accepted])
    positions, starts = accepted[in_chains], run_starts(of_left)
    chains, counts = of_left[starts], np.diff(np.append(starts, len(of_left)))
    order = np.argsort(-counts, kind="stable")
    places = np.full(int(numbers.max(initial=-1)) + 1, -1)
    places[chains[order]] = np.arange(len(order))
    concerned = near[places[of_near] >= 0]
    is_concerned[concerned] = True
    sessions = rows_of(sessions_whole, concerned)._replace(keys=places[of_near][places[of_near] >= 0])
    holds = (sessions.firings == 0) | rules.accumulates
    has_list = np.zeros(len(sessions_whole.keys), np.bool_)
    has_list[concerned[holds]] = True
    lengths = np.diff(np.append(pieces.starts, len(pieces.order)))
    concerned_ones = ConcernedChains(
        keys=tardy.keys[positions[starts[order]]],
        sessions=sessions._replace(contents=np.where(holds, np.cumsum(holds) - 1, NO_CONTENTS)),
        rows=pieces.order[np.repeat(has_list, lengths)],
        lengths=lengths[has_list],
        elements=rows_of(tardy, positions),
        positions=positions,
        row_numbers=positions + len(pieces.order),
        firsts=starts[order],
        counts=counts[order],
    )
    return is_concerned, np.flatnonzero(is_dropped), concerned_ones
