"""Chains of sessions and tardy elements that touch, and the records of their walks (`walk`, `rounds`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import run_numbers, run_starts
from slackwater.windowing.columnar.arrays.orders import sort_non_negative
from slackwater.windowing.columnar.sessions.paths import RunningRows
from slackwater.windowing.columnar.timeline.source_progress import running_maximum
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK
from slackwater.windowing.columnar.window_columns import (
    NO_CONTENTS,
    NO_TIME,
    Elements,
    Firings,
    OpenWindows,
    Pieces,
    concatenate,
    renumber_contents,
    rows_of,
)


class Chains(NamedTuple):
    """Rows of one key whose intervals [first, last + gap] overlap or touch, directly or through others.

    intervals   ├──────┤     ├───┤        ├────┤
                    ├─────┤      ├──┤
    chains      └─────────┘  └──────┘     └────┘

    `order`, int64[n], are the rows sorted by key and first instant; chain i begins at `starts[i]` in it, and
    `lasts[i]` is its greatest last instant.
    """

    order: Longs
    starts: Longs
    lasts: Longs

    def numbers(self) -> Longs:
        """int64[n]: the chain of each row, in the rows' own order."""
        chains = np.empty(len(self.order), np.int64)
        chains[self.order] = run_numbers(self.starts, len(self.order))
        return chains


def chain_intervals(keys: Longs, firsts: Longs, lasts: Longs, gap_ms: int) -> Chains:
    """The chains of intervals [first, last + gap], ends included, as Flink merges windows that touch. O(n log
    n). Of single elements (lasts is firsts) the chains are the sessions, whatever the order of arrival.
    """
    if not len(keys):
        return Chains(keys, keys, keys)
    earliest, least = int(firsts.min()), int(keys.min())
    bits = (int(lasts.max()) - earliest + gap_ms + 1).bit_length()
    if (int(keys.max()) - least).bit_length() + bits > 62:
        return _chain_apart(keys, firsts, lasts, gap_ms)
    # Key and time as one number; keys lie further apart than any chain reaches.
    packed_starts = ((keys - least) << bits) | (firsts - earliest)
    order, packed_starts = sort_non_negative(packed_starts)
    reach = (
        packed_starts if lasts is firsts else np.maximum.accumulate(packed_starts + (lasts - firsts)[order])
    )
    starts = _starts(packed_starts[1:] - reach[:-1] > gap_ms)
    return Chains(order, starts, _at_ends(reach & ((1 << bits) - 1), starts) + earliest)


def _chain_apart(keys: Longs, firsts: Longs, lasts: Longs, gap_ms: int) -> Chains:
    """`chain_intervals` where key and time don't fit into one number."""
    order = np.lexsort((firsts, keys))
    keys, firsts = keys[order], firsts[order]
    reach = running_maximum(keys, lasts[order])
    starts = _starts((keys[1:] != keys[:-1]) | (firsts[1:] - reach[:-1] > gap_ms))
    return Chains(order, starts, _at_ends(reach, starts))


def _starts(is_apart: Booleans) -> Longs:
    """Where chains begin; `is_apart` compares each row but the first with the one before."""
    return np.concatenate([[0], np.flatnonzero(is_apart) + 1])


def _at_ends(values: Longs, starts: Longs) -> Longs:
    ends: Longs = values[np.append(starts[1:], len(values)) - 1]
    return ends


@dataclass(frozen=True)
class SessionRules:
    """The declared sessions and trigger. Unless it `accumulates`, a session is purged when it fires."""

    gap_ms: int
    lateness_ms: int
    accumulates: bool
    collected_mark: int = INITIAL_WATERMARK

    def are_late(self, last_instants: Longs, watermarks: Longs) -> Booleans:
        """bool[n]: sessions with these last instants are collected at their watermarks."""
        return (last_instants + self.lateness_ms <= watermarks) | (last_instants <= self.collected_mark)

    def is_late(self, last_instant: int, watermark: int) -> bool:
        return last_instant + self.lateness_ms <= watermark or last_instant <= self.collected_mark


class TardyChains(NamedTuple):
    """Chains that hold a tardy element, those with most of them first.

    Attributes:
        sessions: the sessions of all chains, by start within a chain. Their `keys` are numbers of chains,
            their `contents` numbers of lists of rows, or NO_CONTENTS.
        rows, lengths: these lists, concatenated, and the length of each.
        elements: the tardy elements by chain and arrival, without any that no session could accept.
        positions: the place of each tardy element in order of arrival.
        row_numbers: the row of each tardy element among the rows that make up contents.
        firsts, counts: int64[c], where the elements of each chain begin, and their number.
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
        """How many of the longest chains have a length that fewer than `few` chains reach."""
        longest = int(self.counts[few - 1]) if len(self.counts) >= few else 0
        return int(np.searchsorted(-self.counts, -longest))

    def part(self, first: int, beyond: int) -> TardyChains:
        """The chains from `first` to before `beyond`, numbered from 0."""
        chosen = (self.sessions.keys >= first) & (self.sessions.keys < beyond)
        sessions = rows_of(self.sessions, chosen)
        lists = np.zeros(len(self.lengths), np.bool_)
        lists[sessions.contents[sessions.contents != NO_CONTENTS]] = True
        # NO_CONTENTS, which is -1, looks up the last place.
        numbers = np.append(np.cumsum(lists) - 1, NO_CONTENTS)[sessions.contents]
        return self._replace(
            keys=self.keys[first:beyond],
            sessions=sessions._replace(keys=sessions.keys - first, contents=numbers),
            rows=self.rows[np.repeat(lists, self.lengths)],
            lengths=self.lengths[lists],
            firsts=self.firsts[first:beyond],
            counts=self.counts[first:beyond],
        )


class WalkResult(NamedTuple):
    """The result of walking some chains.

    Attributes:
        firings: every firing and withdrawal up to the last tardy element of each chain.
        in_flight: the sessions after that; later watermarks have yet to fire and collect them.
        running: the rows that make up the contents of both, which are numbers of picks.
        late: positions of the tardy elements that were late.
        sessions_opened: sessions created, minus those absorbed before they had fired.
        sessions_merged: sessions absorbed after they had fired.
        elements_cleaned: elements that the collected sessions had accepted.
    """

    firings: Firings
    in_flight: OpenWindows
    running: RunningRows
    late: Longs
    sessions_opened: int
    sessions_merged: int
    sessions_cleaned: int
    elements_cleaned: int

    def join(self, other: WalkResult) -> WalkResult:
        pick_count = len(self.running.picks)
        return WalkResult(
            firings=concatenate([self.firings, renumber_contents(other.firings, pick_count)]),
            in_flight=concatenate([self.in_flight, renumber_contents(other.in_flight, pick_count)]),
            running=self.running.join(other.running),
            late=np.append(self.late, other.late),
            sessions_opened=self.sessions_opened + other.sessions_opened,
            sessions_merged=self.sessions_merged + other.sessions_merged,
            sessions_cleaned=self.sessions_cleaned + other.sessions_cleaned,
            elements_cleaned=self.elements_cleaned + other.elements_cleaned,
        )


def sessions_of_pieces(pieces: Pieces, gap_ms: int) -> OpenWindows:
    size = len(pieces.keys)
    return OpenWindows(
        keys=pieces.keys,
        starts=pieces.firsts,
        ends=pieces.lasts + gap_ms,
        elements=pieces.elements,
        firings=np.zeros(size, np.int64),
        last_fired_at=np.full(size, NO_TIME),
        first_arrivals=pieces.first_arrivals,
        last_arrivals=pieces.last_arrivals,
        contents=np.full(size, NO_CONTENTS),
    )


def merge_chains(sessions: OpenWindows, chains: Chains, gap_ms: int) -> OpenWindows:
    """One session per chain. A session that has fired is its own chain, as no harmless element touches it."""
    if not len(chains.starts):
        return sessions
    sessions_in_order, at = rows_of(sessions, chains.order), chains.starts
    return OpenWindows(
        keys=sessions_in_order.keys[at],
        starts=sessions_in_order.starts[at],
        ends=chains.lasts + gap_ms,
        elements=np.add.reduceat(sessions_in_order.elements, at),
        firings=np.add.reduceat(sessions_in_order.firings, at),
        last_fired_at=np.maximum.reduceat(sessions_in_order.last_fired_at, at),
        first_arrivals=np.minimum.reduceat(sessions_in_order.first_arrivals, at),
        last_arrivals=np.maximum.reduceat(sessions_in_order.last_arrivals, at),
        contents=np.full(len(at), NO_CONTENTS),
    )


def tardy_chains(
    merged_sessions: OpenWindows, pieces: Chains, tardy: Elements, rules: SessionRules
) -> tuple[Booleans, Longs, TardyChains]:
    """Find the chains that hold a tardy element.

    Args:
        merged_sessions: sessions that do not touch each other; row i is merged from chain i of `pieces`.
        pieces: the rows that make up the merged sessions; rows of tardy elements are numbered on from these.
        tardy: the tardy elements in order of arrival.

    Returns bool[s], whether the chain of each session holds a tardy element; positions of tardy elements that
    no session could accept; the chains.
    """
    has_tardy = np.zeros(len(merged_sessions.keys), np.bool_)
    near_rows = np.flatnonzero(np.isin(merged_sessions.keys, tardy.keys))
    firsts = np.concatenate([merged_sessions.starts[near_rows], tardy.times])
    lasts = np.concatenate([merged_sessions.ends[near_rows] - rules.gap_ms, tardy.times])
    numbers = chain_intervals(
        np.concatenate([merged_sessions.keys[near_rows], tardy.keys]), firsts, lasts, rules.gap_ms
    ).numbers()
    near_chains, element_chains = numbers[: len(near_rows)], numbers[len(near_rows) :]
    is_dropped = _are_unacceptable(tardy, near_chains, element_chains, rules)
    accepted_positions = np.flatnonzero(~is_dropped)
    in_chains, chains_of_accepted = sort_non_negative(element_chains[accepted_positions])
    positions, starts = accepted_positions[in_chains], run_starts(chains_of_accepted)
    chains, counts = chains_of_accepted[starts], np.diff(np.append(starts, len(chains_of_accepted)))
    order = np.argsort(-counts, kind="stable")
    places = np.full(int(numbers.max(initial=-1)) + 1, -1)
    places[chains[order]] = np.arange(len(order))
    has_chain = places[near_chains] >= 0
    concerned_rows = near_rows[has_chain]
    has_tardy[concerned_rows] = True
    sessions = rows_of(merged_sessions, concerned_rows)._replace(keys=places[near_chains][has_chain])
    holds = (sessions.firings == 0) | rules.accumulates
    has_list = np.zeros(len(merged_sessions.keys), np.bool_)
    has_list[concerned_rows[holds]] = True
    lengths = np.diff(np.append(pieces.starts, len(pieces.order)))
    chains_of_tardy = TardyChains(
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
    return has_tardy, np.flatnonzero(is_dropped), chains_of_tardy


def _are_unacceptable(
    tardy: Elements, near_chains: Longs, element_chains: Longs, rules: SessionRules
) -> Booleans:
    """bool[n]: no session could accept the element: its own would be late, and it joins no open session, as
    its chain holds only such elements.
    """
    is_late = rules.are_late(tardy.times + (rules.gap_ms - 1), tardy.watermarks)
    return is_late & ~np.isin(element_chains, np.concatenate([near_chains, element_chains[~is_late]]))
