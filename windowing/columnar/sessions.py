"""Sessions of event time with one gap, on whole columns: what a slice's elements make of the sessions that were open before it.

Arrays of integers in; panes, sessions and the rows that make them up out. No aggregate, no key's value and no engine is known here.

An element is *harmless* when its timestamp > W + 1, W the watermark in force when it comes: nothing that has fired can reach it. Sessions
of harmless elements do not depend on the elements' order, so they are merged as intervals. For the others, the *tardy* elements, order
matters, but for them such sessions may stand there whole from the start: what has not come yet of one lies beyond W + 1, where it decides
neither whether the tardy element is late nor whether its session fires now. So only chains that hold a tardy element are walked.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from windowing.columnar.columns import Booleans, Longs
from windowing.columnar.contents import Contents
from windowing.columnar.groups import Groups, run_starts
from windowing.columnar.session_chains import Session, SessionRules, TardyElement, TardyElements, Walk
from windowing.columnar.session_intervals import Chains, chain_intervals
from windowing.columnar.session_rows import (
    NO_CONTENTS,
    NO_TIME,
    ON_TIME,
    SessionColumns,
    SessionPanes,
    columns_of,
    concatenated,
    renumbered,
    rows_of,
    together,
)
from windowing.columnar.timeline import Timeline


class ReplayedSessions(NamedTuple):
    """What a slice has made of its sessions.

    Attributes:
        panes: every firing and withdrawal, in no order.
        open: the sessions in flight at the slice's end.
        contents: which rows make up what `panes` and `open` hold: row i is row i of the sessions that were given, then come the tardy
            elements.
        late: int64[k], positions of the tardy elements that were dropped, ascending.
        opened, merged, cleaned: numbers of sessions, as the ledger counts them.
    """

    panes: SessionPanes
    open: SessionColumns
    contents: Contents
    late: Longs
    opened: int
    merged: int
    cleaned: int


def is_harmless(times_ms: Longs, watermarks: Longs) -> Booleans:
    """bool[n]: whether an element's place among the others can't show. `watermarks` are those in force when the elements come."""
    return times_ms > watermarks + 1


def replay_sessions(
    sessions: SessionColumns, restored: int, tardy: TardyElements, rules: SessionRules, timeline: Timeline
) -> ReplayedSessions:
    """Replay one slice.

    Args:
        sessions: first those that are open at the slice's start, then sessions of harmless elements, in any pieces: a session that was
            split over several rows is put together here. What stands in `contents` is not read.
        restored: how many of them were open at the slice's start.
        tardy: the other elements, in order of arrival.
        rules: what the user chose.
        timeline: the slice's watermarks.
    """
    pieces = chain_intervals(sessions.keys, sessions.starts, sessions.ends - rules.gap_ms, rules.gap_ms)
    whole = _merged(sessions, pieces, rules.gap_ms)
    walks = _Chains.of(whole, tardy, rules)
    quiet = np.flatnonzero(~walks.is_walked)
    holds_contents = (whole.firings[quiet] == 0) | rules.accumulates
    contents = np.where(holds_contents, np.cumsum(holds_contents) - 1, NO_CONTENTS)
    panes, still_open = _rise(rows_of(whole, quiet)._replace(contents=contents), rules, timeline)
    walk = Walk(rules, timeline)
    walks.walk(walk, sessions, pieces, whole, tardy)
    combined = quiet[holds_contents]
    known = np.bincount(pieces.numbers()[:restored], minlength=len(whole.keys))
    return ReplayedSessions(
        together([panes, renumbered(columns_of(SessionPanes, walk.panes), len(combined))]),
        together([still_open, renumbered(columns_of(SessionColumns, walk.open), len(combined))]),
        _contents(pieces, combined, walk),
        np.sort(np.append(np.array(walk.late, np.int64), np.flatnonzero(walks.is_dropped))),
        len(whole.keys) - int(known.sum()) + walk.opened,
        walk.merged,
        len(quiet) - len(still_open.keys) + walk.cleaned,
    )


def _merged(sessions: SessionColumns, pieces: Chains, gap_ms: int) -> SessionColumns:
    """One row a chain. Only a row that is a chain of its own has fired: nothing harmless reaches a session that has."""
    if not len(pieces.starts):
        return sessions
    ordered, at = rows_of(sessions, pieces.order), pieces.starts
    return SessionColumns(
        ordered.keys[at],
        ordered.starts[at],
        pieces.lasts + gap_ms,
        np.add.reduceat(ordered.elements, at),
        np.add.reduceat(ordered.firings, at),
        np.maximum.reduceat(ordered.last_fired_at, at),
        np.minimum.reduceat(ordered.first_arrivals, at),
        np.maximum.reduceat(ordered.last_arrivals, at),
        np.full(len(at), NO_CONTENTS),
    )


def _rise(sessions: SessionColumns, rules: SessionRules, timeline: Timeline) -> tuple[SessionPanes, SessionColumns]:
    """What the slice's watermarks fire, and what they leave open, of sessions that no tardy element concerns."""
    last_instants = sessions.ends - 1
    fires = (sessions.firings == 0) & (last_instants <= timeline.final)
    fired = rows_of(sessions, fires)
    rises = np.searchsorted(timeline.watermarks, fired.ends - 1)
    tick_ends = timeline.tick_ends[rises]
    once = np.ones(len(fired.keys), np.int64)
    panes = SessionPanes(
        fired.keys,
        fired.starts,
        fired.ends,
        once,
        np.full(len(once), ON_TIME),
        fired.elements,
        timeline.watermarks[rises],
        tick_ends,
        np.full(len(once), NO_TIME),
        fired.contents,
    )
    fired_at = sessions.last_fired_at.copy()
    fired_at[fires] = tick_ends
    firings = sessions.firings + fires
    held = sessions.contents if rules.accumulates else np.where(firings > 0, NO_CONTENTS, sessions.contents)
    after = sessions._replace(firings=firings, last_fired_at=fired_at, contents=held)
    return panes, rows_of(after, last_instants + rules.lateness_ms > timeline.final)


class _Chains(NamedTuple):
    """Chains of sessions and tardy elements that touch.

    Attributes:
        is_walked: bool[s], the sessions whose chain holds a tardy element.
        of_sessions: int64, the chains of those sessions, in their order.
        of_tardy: int64[m], the chain of each tardy element.
        is_dropped: bool[m], the tardy elements in whose chain is none that anything could accept.
    """

    is_walked: Booleans
    of_sessions: Longs
    of_tardy: Longs
    is_dropped: Booleans

    @classmethod
    def of(cls, whole: SessionColumns, tardy: TardyElements, rules: SessionRules) -> _Chains:
        gap_ms = rules.gap_ms
        is_walked = np.zeros(len(whole.keys), np.bool_)
        if not len(tardy.keys):
            return cls(is_walked, tardy.keys, tardy.keys, is_walked[:0])
        near = np.flatnonzero(np.isin(whole.keys, tardy.keys))
        firsts = np.concatenate([whole.starts[near], tardy.times])
        lasts = np.concatenate([whole.ends[near] - gap_ms, tardy.times])
        numbers = chain_intervals(np.concatenate([whole.keys[near], tardy.keys]), firsts, lasts, gap_ms).numbers()
        of_near, of_tardy = numbers[: len(near)], numbers[len(near) :]
        concerned = np.isin(of_near, of_tardy)
        is_walked[near[concerned]] = True
        # An element that is late by its own window is accepted only by a session, and such elements alone make none.
        is_late = tardy.times + (gap_ms - 1 + rules.lateness_ms) <= tardy.watermarks
        is_dropped = is_late & ~np.isin(of_tardy, np.concatenate([of_near, of_tardy[~is_late]]))
        return cls(is_walked, of_near[concerned], of_tardy, is_dropped)

    def walk(self, walk: Walk, sessions: SessionColumns, pieces: Chains, whole: SessionColumns, tardy: TardyElements) -> None:
        """Walk every chain that holds a tardy element."""
        there: dict[int, list[Session]] = {}
        concerned = np.flatnonzero(self.is_walked)
        ends = np.append(pieces.starts[1:], len(pieces.order))[concerned].tolist()
        columns = (column.tolist() for column in rows_of(whole, concerned)[1:-1])
        for chain, first, beyond, facts in zip(
            self.of_sessions.tolist(), pieces.starts[concerned].tolist(), ends, zip(*columns, strict=True), strict=True
        ):
            start, end, elements, firings, fired_at, first_arrival, last_arrival = facts
            path = pieces.order[first:beyond].tolist() if walk.rules.accumulates or not firings else None
            session = Session(start, end, elements, firings, fired_at, first_arrival, last_arrival, path)
            there.setdefault(chain, []).append(session)
        rest = np.flatnonzero(~self.is_dropped)
        order = rest[np.argsort(self.of_tardy[rest], kind="stable")]
        rows = zip(*(column[order].tolist() for column in tardy[1:]), (order + len(sessions.keys)).tolist(), order.tolist(), strict=True)
        tardies: list[TardyElement] = list(rows)
        firsts = run_starts(self.of_tardy[order])
        chains, keys = self.of_tardy[order[firsts]].tolist(), tardy.keys[order[firsts]].tolist()
        for chain, key, (first, beyond) in zip(chains, keys, pairwise([*firsts.tolist(), len(order)]), strict=True):
            walk.chain(key, there.get(chain, []), tardies[first:beyond])


def _contents(pieces: Chains, combined: Longs, walk: Walk) -> Contents:
    """First the whole of each session of `combined`, then what the walk has picked."""
    lengths = np.diff(np.append(pieces.starts, len(pieces.order)))
    is_combined = np.zeros(len(pieces.starts), np.bool_)
    is_combined[combined] = True
    rows = pieces.order[np.repeat(is_combined, lengths)]
    codes = np.repeat(np.arange(len(combined)), lengths[combined])
    begins: dict[int, int] = {}
    paths: list[list[int]] = []
    size = 0
    picks = []
    for path, length in walk.picks:
        if id(path) not in begins:
            begins[id(path)] = size
            paths.append(path)
            size += len(path)
        picks.append(begins[id(path)] + length - 1)
    starts = np.cumsum([0, *map(len, paths)])[:-1]
    running = concatenated(np.array(path, np.int64) for path in paths)
    return Contents(rows, Groups(codes, len(combined)), running, starts.astype(np.int64), np.array(picks, np.int64))
