"""Sessions of event time with one gap, on whole columns: what a slice's elements make of the sessions that
were open before it.

Arrays of integers in; panes, sessions and the rows that make them up out. No aggregate, no key's value and no
engine is known here.

An element is *harmless* when its timestamp > W + 1, W the watermark in force when it comes: nothing that has
fired can reach it. Sessions of harmless elements do not depend on the elements' order, so they are merged as
intervals. For the others, the *tardy* elements, order matters, but for them such sessions may stand there
whole from the start: what has not come yet of one lies beyond W + 1, where it decides neither whether the
tardy element is late nor whether its session fires now. So only chains that hold a tardy element are walked.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.windowing.columnar.columns import Booleans, Longs
from slackwater.windowing.columnar.contents import Contents
from slackwater.windowing.columnar.groups import Groups
from slackwater.windowing.columnar.session_chains import SessionRules, TardyElements, concerned_chains
from slackwater.windowing.columnar.session_intervals import Chains, chain_intervals
from slackwater.windowing.columnar.session_paths import Running
from slackwater.windowing.columnar.session_rounds import Rounds
from slackwater.windowing.columnar.session_rows import (
    NO_CONTENTS,
    NO_TIME,
    ON_TIME,
    SessionColumns,
    SessionPanes,
    renumbered,
    rows_of,
    together,
)
from slackwater.windowing.columnar.session_walk import Walk
from slackwater.windowing.columnar.timeline import Timeline

FEW_CHAINS: Final = 32  # a round over so many costs about what walking them one by one does


class ReplayedSessions(NamedTuple):
    """What a slice has made of its sessions.

    Attributes:
        panes: every firing and withdrawal, in no order.
        open: the sessions in flight at the slice's end.
        contents: which rows make up what `panes` and `open` hold: row i is row i of the sessions that were
            given, then come the tardy elements.
        late: int64[k], positions of the tardy elements that were dropped, ascending.
        opened, merged, cleaned: numbers of sessions, as the ledger counts them.
        elements_cleaned: elements of the sessions that were collected.
    """

    panes: SessionPanes
    open: SessionColumns
    contents: Contents
    late: Longs
    opened: int
    merged: int
    cleaned: int
    elements_cleaned: int


def is_harmless(times_ms: Longs, watermarks: Longs) -> Booleans:
    """bool[n]: whether an element's place among the others can't show. `watermarks` are those in force when
    the elements come.
    """
    return times_ms > watermarks + 1


def replay_sessions(
    sessions: SessionColumns,
    restored: int,
    tardy: TardyElements,
    rules: SessionRules,
    timeline: Timeline,
    few_chains: int = FEW_CHAINS,
) -> ReplayedSessions:
    """Replay one slice.

    Args:
        sessions: first those that are open at the slice's start, then sessions of harmless elements, in any
            pieces: a session that was split over several rows is put together here. What stands in `contents`
            is not read.
        restored: how many of them were open at the slice's start.
        tardy: the other elements, in order of arrival.
        rules: what the user chose.
        timeline: the slice's watermarks.
        few_chains: rounds are for so many chains at least; of longer chains there are fewer, and they are
            walked one by one.
    """
    pieces = chain_intervals(sessions.keys, sessions.starts, sessions.ends - rules.gap_ms, rules.gap_ms)
    whole = _merged(sessions, pieces, rules.gap_ms)
    is_concerned, dropped, chains = concerned_chains(whole, pieces, tardy, rules)
    alone = chains.longer_than_most(few_chains)
    walked = Walk(rules, timeline).walk(chains.part(0, alone))
    walked = walked.then(Rounds(rules, timeline).walk(chains.part(alone, len(chains.keys))))
    quiet = np.flatnonzero(~is_concerned)
    holds_contents = (whole.firings[quiet] == 0) | rules.accumulates
    contents = np.where(holds_contents, np.cumsum(holds_contents) - 1, NO_CONTENTS)
    combined = quiet[holds_contents]
    in_flight = together(
        [rows_of(whole, quiet)._replace(contents=contents), renumbered(walked.in_flight, len(combined))]
    )
    panes, still_open = _rise(in_flight, rules, timeline)
    known = np.bincount(pieces.numbers()[:restored], minlength=len(whole.keys))
    return ReplayedSessions(
        together([panes, renumbered(walked.panes, len(combined))]),
        still_open,
        _contents(pieces, combined, walked.running),
        np.sort(np.append(walked.late, dropped)),
        len(whole.keys) - int(known.sum()) + walked.opened,
        walked.merged,
        len(in_flight.keys) - len(still_open.keys) + walked.cleaned,
        int(in_flight.elements.sum() - still_open.elements.sum()) + walked.elements_cleaned,
    )


def _merged(sessions: SessionColumns, pieces: Chains, gap_ms: int) -> SessionColumns:
    """One row a chain. Only a row that is a chain of its own has fired: nothing harmless reaches a session
    that has.
    """
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


def _rise(
    sessions: SessionColumns, rules: SessionRules, timeline: Timeline
) -> tuple[SessionPanes, SessionColumns]:
    """What the slice's watermarks fire, and what they leave open, of sessions that no tardy element concerns
    any more.
    """
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
    return panes, rows_of(after, ~rules.are_late(last_instants, np.full(len(last_instants), timeline.final)))


def _contents(pieces: Chains, combined: Longs, running: Running) -> Contents:
    """First the whole of each session of `combined`, then what the walks have picked."""
    lengths = np.diff(np.append(pieces.starts, len(pieces.order)))
    is_combined = np.zeros(len(pieces.starts), np.bool_)
    is_combined[combined] = True
    rows = pieces.order[np.repeat(is_combined, lengths)]
    codes = np.repeat(np.arange(len(combined)), lengths[combined])
    return Contents(rows, Groups(codes, len(combined)), *running)
