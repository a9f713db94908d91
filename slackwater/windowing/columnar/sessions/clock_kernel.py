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
from slackwater.windowing.columnar.sessions.intervals import chain_intervals
from slackwater.windowing.columnar.timeline.timeline import Timeline
from slackwater.windowing.columnar.window_columns import (
    NO_TIME,
    Firings,
    LateElements,
    OpenWindows,
    PaneKind,
    Pieces,
    concatenate,
    rows_of,
)

A = TypeVar("A", bound=Accumulators)


def replay_clock_sessions(
    slice_input: SliceInput[A], initial_state: WindowState[A], timeline: Timeline
) -> SliceResult[A]:
    """Replay one slice. Each session that ends in the slice fires once; open sessions come by key and start.

    Args:
        slice_input: pieces of sessions, no single elements: `firsts` is the clock at the first element,
            `lasts` the greatest last instant of its elements' windows.
        timeline: of the slice, with the clock as its watermark (`Timeline.as_clock`).
    """
    before = initial_state.windows
    parts = concatenate([before, _sessions_of(slice_input.pieces)])
    accumulators = initial_state.accumulators.join([slice_input.piece_accumulators])
    chains = chain_intervals(parts.keys, parts.starts, parts.ends - 1, 0)
    size = len(chains.starts)
    if size:
        in_order, at = rows_of(parts, chains.order), chains.starts
        sessions = OpenWindows(
            keys=in_order.keys[at],
            starts=in_order.starts[at],
            ends=chains.lasts + 1,
            elements=np.add.reduceat(in_order.elements, at),
            firings=np.zeros(size, np.int64),
            last_fired_at=np.full(size, NO_TIME),
            first_arrivals=np.minimum.reduceat(in_order.first_arrivals, at),
            last_arrivals=np.maximum.reduceat(in_order.last_arrivals, at),
            contents=np.arange(size),
        )
        accumulators = accumulators.combine(Groups(chains.numbers(), size))
    else:
        sessions = parts
    fires = sessions.ends - 1 <= timeline.final
    fired_sessions, windows = rows_of(sessions, fires), rows_of(sessions, ~fires)
    next_firings, timers = timers_at_last_instants(windows, 0, timeline)
    return SliceResult(
        firings=[_firings_of(fired_sessions)],
        windows=windows,
        triggers=None,
        next_firings=next_firings,
        timers=timers,
        accumulators=accumulators,
        late=LateElements.none(),
        counts=Counts(
            windows_opened=size - len(before.keys),
            windows_cleaned=len(fired_sessions.keys),
            elements_cleaned=int(fired_sessions.elements.sum()),
        ),
    )


def _sessions_of(pieces: Pieces) -> OpenWindows:
    size = len(pieces.keys)
    return OpenWindows(
        keys=pieces.keys,
        starts=pieces.firsts,
        ends=pieces.lasts + 1,
        elements=pieces.elements,
        firings=np.zeros(size, np.int64),
        last_fired_at=np.full(size, NO_TIME),
        first_arrivals=pieces.first_arrivals,
        last_arrivals=pieces.last_arrivals,
        contents=np.arange(size),
    )


def _firings_of(sessions: OpenWindows) -> Firings:
    """The firing of each session, at its end, which is also its watermark and tick end by the clock."""
    size = len(sessions.keys)
    return Firings(
        keys=sessions.keys,
        starts=sessions.starts,
        ends=sessions.ends,
        firings=np.ones(size, np.int64),
        kinds=np.full(size, PaneKind.ON_TIME),
        elements=sessions.elements,
        watermarks=sessions.ends - 1,
        tick_ends=sessions.ends,
        causes=np.full(size, NO_TIME),
        contents=sessions.contents,
    )
