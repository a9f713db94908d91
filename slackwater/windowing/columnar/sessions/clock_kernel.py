"""The kernel of sessions of processing time with a processing-time trigger, also inside a purging one.

An element at the clock c has the session [c, c + gap). Its timer is due at the session's end, before the
elements that arrive then; so each key has at most one open session, an element before its end extends it, and
one at its end begins another:

    clock                    10        15        25
    elements, gap 10         a         b         c
    sessions                 ├───── a b ────────┤├──── c ────
                                                 fires and is collected at 25, before c

So the sessions are the chains of the elements' intervals [c, c + gap - 1] that overlap, whatever the order of
the elements. Each fires once.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from slackwater.windowing.columnar.accumulators import Accumulators
from slackwater.windowing.columnar.arrays.groups import Groups
from slackwater.windowing.columnar.kernels import Counts, SliceInput, SliceResult, WindowState
from slackwater.windowing.columnar.parking import timers_at_last_instants
from slackwater.windowing.columnar.sessions.chains import merge_chains, sessions_of_pieces
from slackwater.windowing.columnar.sessions.intervals import chain_intervals
from slackwater.windowing.columnar.timeline.timeline import Timeline
from slackwater.windowing.columnar.window_columns import (
    LateElements,
    concatenate,
    on_time_firings,
    rows_of,
)

A = TypeVar("A", bound=Accumulators)


def replay_clock_sessions(
    slice_input: SliceInput[A], initial_state: WindowState[A], timeline: Timeline
) -> SliceResult[A]:
    """Replay one slice. Each session that ends in the slice fires once; open sessions come by key and start.

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
