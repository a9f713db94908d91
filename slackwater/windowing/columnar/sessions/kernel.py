"""The kernel of event-time sessions with one gap: merges the elements of a slice with the open sessions,
fires and withdraws sessions. It works on arrays of integers and row numbers, without keys' values or
aggregates.

An element with timestamp t that comes at watermark W is *harmless* when t > W + 1, else *tardy*. A session
that has fired ends at W + 1 or before, so a harmless element touches none of them:

    event time                       W + 1
    ────────────────────────────────────┼──────────────────────────►
    sessions that have fired   ├──────┤ │   ends ≤ W + 1
    a harmless element                  │    ●──── gap ────┤
    a tardy element                ●────┼ gap ────┤

1. Sessions of harmless elements, whatever their order of arrival, are the chains of intervals that touch.
They are merged with the open sessions at once, by one sort.
2. For tardy elements order matters: one may be late, fire a session again, or merge sessions, some of which
have fired. But the merged sessions may already be complete when the walk starts: what has not arrived of one
yet lies beyond W + 1, where it decides neither whether the tardy element is late nor whether its session
fires now. So only the chains that hold a tardy element are walked, element by element.
3. The other sessions, and those that the walks leave, fire when a watermark of the slice reaches their last
instant.
"""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np

from slackwater.windowing.columnar.accumulators import Accumulators
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import Groups
from slackwater.windowing.columnar.contents import Contents, combine_contents
from slackwater.windowing.columnar.kernels import Counts, SliceInput, SliceResult, WindowState
from slackwater.windowing.columnar.sessions.chains import (
    Chains,
    SessionRules,
    chain_intervals,
    merge_chains,
    sessions_of_pieces,
    tardy_chains,
)
from slackwater.windowing.columnar.sessions.paths import RunningRows
from slackwater.windowing.columnar.sessions.rounds import Rounds
from slackwater.windowing.columnar.sessions.walk import Walk
from slackwater.windowing.columnar.timeline.timeline import Timeline
from slackwater.windowing.columnar.window_columns import (
    NO_CONTENTS,
    Firings,
    LateElements,
    OpenWindows,
    concatenate,
    on_time_firings,
    renumber_contents,
    rows_of,
    timers_at_last_instants,
)

A = TypeVar("A", bound=Accumulators)

FEW_CHAINS: Final = 32  # a round over so many chains takes about as long as to walk them one by one


def is_harmless(times_ms: Longs, watermarks: Longs) -> Booleans:
    """bool[n]: the element touches no session that has fired, so its order does not matter."""
    return times_ms > watermarks + 1


def replay_sessions(
    slice_input: SliceInput[A],
    initial_state: WindowState[A],
    timeline: Timeline,
    rules: SessionRules,
    few_chains: int = FEW_CHAINS,
) -> SliceResult[A]:
    """Replay one slice. Firings and withdrawals come in no order, open sessions by key and start.

    `slice_input` has pieces of sessions of harmless elements, several per session where batches split it,
    and the tardy elements. A round walks at least `few_chains` chains; longer chains than so many have are
    walked one by one.
    """
    tardy = slice_input.elements
    sessions = concatenate([initial_state.windows, sessions_of_pieces(slice_input.pieces, rules.gap_ms)])
    pieces = chain_intervals(sessions.keys, sessions.starts, sessions.ends - rules.gap_ms, rules.gap_ms)
    merged_sessions = merge_chains(sessions, pieces, rules.gap_ms)
    has_tardy, dropped_positions, chains = tardy_chains(merged_sessions, pieces, tardy, rules)
    long_chains = chains.longer_than_most(few_chains)
    walk_result = Walk(rules, timeline, chains.part(0, long_chains)).walk()
    walk_result = walk_result.join(Rounds(rules, timeline, chains.part(long_chains, len(chains.keys))).walk())
    quiet_sessions, holding = _quiet_sessions(merged_sessions, has_tardy, rules)
    in_flight = concatenate([quiet_sessions, renumber_contents(walk_result.in_flight, len(holding))])
    firings, still_open = _fire_on_time(in_flight, rules, timeline)
    windows = rows_of(still_open, np.lexsort((still_open.starts, still_open.keys)))
    next_firings, timers = timers_at_last_instants(windows, rules.lateness_ms, timeline)
    late = np.sort(np.append(walk_result.late, dropped_positions))
    is_restored = np.bincount(
        pieces.numbers()[: len(initial_state.windows.keys)], minlength=len(merged_sessions.keys)
    )
    rows = initial_state.accumulators.join([slice_input.piece_accumulators, slice_input.element_accumulators])
    return SliceResult(
        firings=[firings, renumber_contents(walk_result.firings, len(holding))],
        windows=windows,
        triggers=None,
        next_firings=next_firings,
        timers=timers,
        accumulators=combine_contents(_contents(pieces, holding, walk_result.running), rows),
        late=LateElements(positions=late, starts=tardy.times[late], ends=tardy.times[late] + rules.gap_ms),
        counts=Counts(
            windows_opened=len(merged_sessions.keys) - int(is_restored.sum()) + walk_result.sessions_opened,
            windows_merged=walk_result.sessions_merged,
            windows_cleaned=len(in_flight.keys) - len(windows.keys) + walk_result.sessions_cleaned,
            elements_cleaned=int(in_flight.elements.sum() - windows.elements.sum())
            + walk_result.elements_cleaned,
        ),
    )


def _quiet_sessions(
    merged_sessions: OpenWindows, has_tardy: Booleans, rules: SessionRules
) -> tuple[OpenWindows, Longs]:
    """(sessions in chains without a tardy element, the merged sessions numbered by their contents)."""
    quiet = np.flatnonzero(~has_tardy)
    holds_contents = (merged_sessions.firings[quiet] == 0) | rules.accumulates
    contents = np.where(holds_contents, np.cumsum(holds_contents) - 1, NO_CONTENTS)
    return rows_of(merged_sessions, quiet)._replace(contents=contents), quiet[holds_contents]


def _fire_on_time(
    sessions: OpenWindows, rules: SessionRules, timeline: Timeline
) -> tuple[Firings, OpenWindows]:
    """(firings, open sessions) at the slice's end, of sessions that no further tardy element touches."""
    last_instants = sessions.ends - 1
    fires = (sessions.firings == 0) & (last_instants <= timeline.final)
    fired_sessions = rows_of(sessions, fires)
    rises = np.searchsorted(timeline.watermarks, fired_sessions.ends - 1)
    tick_ends = timeline.tick_ends[rises]
    on_time = on_time_firings(fired_sessions, timeline.watermarks[rises], tick_ends)
    fired_at = sessions.last_fired_at.copy()
    fired_at[fires] = tick_ends
    firings = sessions.firings + fires
    contents = (
        sessions.contents if rules.accumulates else np.where(firings > 0, NO_CONTENTS, sessions.contents)
    )
    sessions_after = sessions._replace(firings=firings, last_fired_at=fired_at, contents=contents)
    is_collected = rules.are_late(last_instants, np.full(len(last_instants), timeline.final))
    return on_time, rows_of(sessions_after, ~is_collected)


def _contents(pieces: Chains, holding: Longs, running: RunningRows) -> Contents:
    """First the contents of each session of `holding`, all rows of its chain; then the walks' picks."""
    lengths = np.diff(np.append(pieces.starts, len(pieces.order)))
    is_held = np.zeros(len(pieces.starts), np.bool_)
    is_held[holding] = True
    rows = pieces.order[np.repeat(is_held, lengths)]
    codes = np.repeat(np.arange(len(holding)), lengths[holding])
    return Contents(rows, Groups(codes, len(holding)), *running)


def replay_clock_sessions(
    slice_input: SliceInput[A], initial_state: WindowState[A], timeline: Timeline
) -> SliceResult[A]:
    """Replay one slice of sessions of processing time with a processing-time trigger, also inside a purging
    one. Each session that ends in the slice fires once; open sessions come by key and start.

    An element at the clock c has the session [c, c + gap). Its timer is due at the session's end, before the
    elements that arrive then; so each key has at most one open session, an element before its end extends it,
    and one at its end begins another:

        clock                    10        15        25
        elements, gap 10         a         b         c
        sessions                 ├───── a b ────────┤├──── c ────
                                                     fires and is collected at 25, before c

    So the sessions are the chains of the elements' intervals [c, c + gap - 1] that overlap, whatever the
    order of the elements.

    `slice_input` has pieces of sessions, no single elements: `firsts` is the clock at the first element,
    `lasts` the greatest last instant of its elements' windows. `timeline` has the clock as its watermark
    (`Timeline.as_clock`).
    """
    windows_at_start = initial_state.windows
    parts = concatenate([windows_at_start, sessions_of_pieces(slice_input.pieces, 1)])
    accumulators = initial_state.accumulators.join([slice_input.piece_accumulators])
    chains = chain_intervals(parts.keys, parts.starts, parts.ends - 1, 0)
    size = len(chains.starts)
    sessions = merge_chains(parts, chains, 1)._replace(contents=np.arange(size))
    if size:
        accumulators = accumulators.combine(Groups(chains.numbers(), size))
    fires = sessions.ends - 1 <= timeline.final
    fired_sessions, windows = rows_of(sessions, fires), rows_of(sessions, ~fires)
    # By the clock the end of a session is its tick end, and its watermark is just before.
    firings = on_time_firings(fired_sessions, fired_sessions.ends - 1, fired_sessions.ends)
    next_firings, timers = timers_at_last_instants(windows, 0, timeline)
    return SliceResult(
        firings=[firings],
        windows=windows,
        triggers=None,
        next_firings=next_firings,
        timers=timers,
        accumulators=accumulators,
        late=LateElements.none(),
        counts=Counts(
            windows_opened=size - len(windows_at_start.keys),
            windows_cleaned=len(fired_sessions.keys),
            elements_cleaned=int(fired_sessions.elements.sum()),
        ),
    )
