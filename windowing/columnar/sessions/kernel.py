"""The kernel of sessions of event time with one gap: what a slice's elements make of the sessions that
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

from typing import Final, TypeVar

import numpy as np

from slackwater.windowing.columnar.accumulators import Accumulators
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import Groups
from slackwater.windowing.columnar.contents import Contents, combine_contents
from slackwater.windowing.columnar.kernels import Counts, SliceInput, SliceResult, WindowState
from slackwater.windowing.columnar.parking import timers_at_last_instants
from slackwater.windowing.columnar.sessions.chains import SessionRules, concerned_chains
from slackwater.windowing.columnar.sessions.intervals import Chains, chain_intervals
from slackwater.windowing.columnar.sessions.paths import Running
from slackwater.windowing.columnar.sessions.rounds import Rounds
from slackwater.windowing.columnar.sessions.walk import Walk
from slackwater.windowing.columnar.timeline.timeline import Timeline
from slackwater.windowing.columnar.window_columns import (
    NO_CONTENTS,
    NO_TIME,
    Firings,
    LateElements,
    OpenWindows,
    PaneKind,
    Pieces,
    concatenate,
    renumber_contents,
    rows_of,
)

A = TypeVar("A", bound=Accumulators)

FEW_CHAINS: Final = 32  # a round over so many costs about what walking them one by one does


def is_harmless(times_ms: Longs, watermarks: Longs) -> Booleans:
    """bool[n]: whether an element's place among the others can't show. `watermarks` are those in force when
    the elements come.
    """
    return times_ms > watermarks + 1


def replay_sessions(
    slice_input: SliceInput[A],
    initial_state: WindowState[A],
    timeline: Timeline,
    rules: SessionRules,
    few_chains: int = FEW_CHAINS,
) -> SliceResult[A]:
    """Replay one slice.

    Args:
        received: pieces of sessions of harmless elements, in any number: what was split over several is put
            together here; and the tardy elements.
        restored: the sessions that are open at the slice's start.
        timeline: the slice's watermarks.
        rules: what the user chose.
        few_chains: rounds are for so many chains at least; of longer chains there are fewer, and they are
            walked one by one.

    Returns:
        Firings and withdrawals in no order, the late ones among the tardy elements, open sessions by key and
        start.
    """
    tardy = slice_input.elements
    sessions = concatenate([initial_state.windows, _sessions_of(slice_input.pieces, rules.gap_ms)])
    pieces = chain_intervals(sessions.keys, sessions.starts, sessions.ends - rules.gap_ms, rules.gap_ms)
    merged = _merged(sessions, pieces, rules.gap_ms)
    is_concerned, dropped, chains = concerned_chains(merged, pieces, tardy, rules)
    long_chains = chains.longer_than_most(few_chains)
    walked = Walk(rules, timeline).walk(chains.part(0, long_chains))
    walked = walked.then(Rounds(rules, timeline).walk(chains.part(long_chains, len(chains.keys))))
    quiet = np.flatnonzero(~is_concerned)
    holds_contents = (merged.firings[quiet] == 0) | rules.accumulates
    contents = np.where(holds_contents, np.cumsum(holds_contents) - 1, NO_CONTENTS)
    holding = quiet[holds_contents]
    in_flight = concatenate(
        [
            rows_of(merged, quiet)._replace(contents=contents),
            renumber_contents(walked.in_flight, len(holding)),
        ]
    )
    firings, still_open = _rise(in_flight, rules, timeline)
    windows = rows_of(still_open, np.lexsort((still_open.starts, still_open.keys)))
    next_firings, timers = timers_at_last_instants(windows, rules.lateness_ms, timeline)
    late = np.sort(np.append(walked.late, dropped))
    is_restored = np.bincount(pieces.numbers()[: len(initial_state.windows.keys)], minlength=len(merged.keys))
    rows = initial_state.accumulators.join([slice_input.piece_accumulators, slice_input.element_accumulators])
    return SliceResult(
        firings=[firings, renumber_contents(walked.firings, len(holding))],
        windows=windows,
        triggers=None,
        next_firings=next_firings,
        timers=timers,
        accumulators=combine_contents(_contents(pieces, holding, walked.running), rows),
        late=LateElements(positions=late, starts=tardy.times[late], ends=tardy.times[late] + rules.gap_ms),
        counts=Counts(
            windows_opened=len(merged.keys) - int(is_restored.sum()) + walked.opened,
            windows_merged=walked.merged,
            windows_cleaned=len(in_flight.keys) - len(windows.keys) + walked.cleaned,
            elements_cleaned=int(in_flight.elements.sum() - windows.elements.sum()) + walked.elements_cleaned,
        ),
    )


def _sessions_of(pieces: Pieces, gap_ms: int) -> OpenWindows:
    """Pieces as sessions that have not fired."""
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


def _merged(sessions: OpenWindows, pieces: Chains, gap_ms: int) -> OpenWindows:
    """One row a chain. Only a row that is a chain of its own has fired: nothing harmless reaches a session
    that has.
    """
    if not len(pieces.starts):
        return sessions
    ordered, at = rows_of(sessions, pieces.order), pieces.starts
    return OpenWindows(
        keys=ordered.keys[at],
        starts=ordered.starts[at],
        ends=pieces.lasts + gap_ms,
        elements=np.add.reduceat(ordered.elements, at),
        firings=np.add.reduceat(ordered.firings, at),
        last_fired_at=np.maximum.reduceat(ordered.last_fired_at, at),
        first_arrivals=np.minimum.reduceat(ordered.first_arrivals, at),
        last_arrivals=np.maximum.reduceat(ordered.last_arrivals, at),
        contents=np.full(len(at), NO_CONTENTS),
    )


def _rise(sessions: OpenWindows, rules: SessionRules, timeline: Timeline) -> tuple[Firings, OpenWindows]:
    """What the slice's watermarks fire, and what they leave open, of sessions that no tardy element concerns
    any more.
    """
    last_instants = sessions.ends - 1
    fires = (sessions.firings == 0) & (last_instants <= timeline.final)
    fired = rows_of(sessions, fires)
    rises = np.searchsorted(timeline.watermarks, fired.ends - 1)
    tick_ends = timeline.tick_ends[rises]
    on_time = Firings(
        keys=fired.keys,
        starts=fired.starts,
        ends=fired.ends,
        firings=np.ones(len(rises), np.int64),
        kinds=np.full(len(rises), PaneKind.ON_TIME),
        elements=fired.elements,
        watermarks=timeline.watermarks[rises],
        tick_ends=tick_ends,
        causes=np.full(len(rises), NO_TIME),
        contents=fired.contents,
    )
    fired_at = sessions.last_fired_at.copy()
    fired_at[fires] = tick_ends
    firings = sessions.firings + fires
    contents = (
        sessions.contents if rules.accumulates else np.where(firings > 0, NO_CONTENTS, sessions.contents)
    )
    after = sessions._replace(firings=firings, last_fired_at=fired_at, contents=contents)
    is_over = rules.are_late(last_instants, np.full(len(last_instants), timeline.final))
    return on_time, rows_of(after, ~is_over)


def _contents(pieces: Chains, holding: Longs, running: Running) -> Contents:
    """First the whole of each session of `holding`, then what the walks have picked."""
    lengths = np.diff(np.append(pieces.starts, len(pieces.order)))
    is_held = np.zeros(len(pieces.starts), np.bool_)
    is_held[holding] = True
    rows = pieces.order[np.repeat(is_held, lengths)]
    codes = np.repeat(np.arange(len(holding)), lengths[holding])
    return Contents(rows, Groups(codes, len(holding)), *running)
