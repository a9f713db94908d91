"""The kernel of windows with a count trigger, also inside a purging one (Flink: countWindow): every n-th
element of a window fires it. A trigger that never fires is one that counts for ever.

Order is everything here, so elements come in order of arrival. With c elements since the last firing, the
j-th element of the slice (from 0) fires its window where (c + j + 1) is a multiple of n:

    count before: 1     n = 3     elements   ·  ·  ·  ·  ·  ·        after: 7 % 3 = 1
                                  counts     2  3  4  5  6  7
                                                ●        ●           firings
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from slackwater.windowing.columnar.accumulators import Accumulators
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import Groups, group_pairs, run_numbers, run_starts
from slackwater.windowing.columnar.assigned import Assigned
from slackwater.windowing.columnar.contents import Contents
from slackwater.windowing.columnar.fixed_windows import FixedWindows
from slackwater.windowing.columnar.kernels import Counts, SliceInput, SliceResult, WindowState
from slackwater.windowing.columnar.parking import timers_of
from slackwater.windowing.columnar.timeline.timeline import NEVER, Timeline
from slackwater.windowing.columnar.window_columns import (
    NO_CONTENTS,
    NO_TIME,
    Firings,
    LateElements,
    PaneKind,
    TriggerStates,
    rows_of,
)

A = TypeVar("A", bound=Accumulators)


@dataclass(frozen=True)
class CountRules:
    """What the user chose.

    Attributes:
        windows: the assigner's, with their lateness; None for the global window.
        max_count: elements a firing; NEVER for none.
        accumulates: whether a firing leaves contents where they are; otherwise it purges them.
    """

    windows: FixedWindows | None
    max_count: int
    accumulates: bool


def replay_counted(
    slice_input: SliceInput[A], initial_state: WindowState[A], timeline: Timeline, rules: CountRules
) -> SliceResult[A]:
    """Replay one slice.

    Args:
        received: elements that a window takes; no pieces.
        restored: the windows that are open at the slice's start.
        timeline: the slice's watermarks.
        rules: what the user chose.

    Returns:
        Firings in order of window and arrival, early ones and late ones mixed; open windows by key and start.
    """
    max_count = rules.max_count
    assigned = Assigned.of(initial_state.windows, slice_input.elements, rules.windows)
    before, size = assigned.windows, len(assigned.windows.keys)
    count = before.elements - before.firings * max_count
    clocks = slice_input.elements.clocks[assigned.elements]

    order = np.argsort(assigned.owners, kind="stable")
    owners = assigned.owners[order]
    starts = run_starts(owners)
    places = np.arange(len(order)) - starts[run_numbers(starts, len(order))]
    passed = count[owners] + places
    fires = (passed + 1) % max_count == 0

    holds = np.arange(len(initial_state.windows.keys))
    if not rules.accumulates:
        holds = holds[count[assigned.restored] > 0]
    rows = np.append(holds, order + len(assigned.restored))
    of_rows = np.append(assigned.restored[holds], owners)
    if rules.accumulates:
        contents, shown = _running(rows, of_rows, np.append(np.zeros(len(holds), np.bool_), fires))
    else:
        batches = np.append(np.zeros(len(holds), np.int64), passed // max_count)
        contents, shown = _batches(rows, of_rows, batches)
    newest = np.full(size, NO_CONTENTS)
    newest[of_rows] = shown
    total = count + np.bincount(owners, minlength=size)
    remaining = total % max_count

    fired = owners[fires]
    at = order[fires]
    watermarks = slice_input.elements.watermarks[assigned.elements[at]]
    is_late = assigned.last_instants[fired] <= watermarks
    firings = Firings(
        keys=before.keys[fired],
        starts=before.starts[fired],
        ends=before.ends[fired],
        firings=(before.firings[owners] + (passed + 1) // max_count)[fires],
        kinds=np.where(is_late & (assigned.cleanups[fired] != NEVER), PaneKind.LATE, PaneKind.EARLY),
        elements=(before.elements[owners] + places + 1)[fires],
        watermarks=watermarks,
        tick_ends=np.full(len(fired), NO_TIME),
        causes=clocks[at],
        contents=shown[len(holds) :][fires],
    )
    last_fired_at = before.last_fired_at.copy()
    last_fired_at[fired] = clocks[at]  # of several firings of a window the last one counts
    after = assigned.after(
        clocks,
        firings=before.firings + total // max_count,
        last_fired_at=last_fired_at,
        contents=newest if rules.accumulates else np.where(remaining > 0, newest, NO_CONTENTS),
    )
    parked, is_closed = assigned.parked(after, timeline), ~assigned.stay(timeline)
    values = np.where((remaining > 0) & (max_count != NEVER), remaining, NO_TIME)
    windows, last_instants = rows_of(after, parked), assigned.last_instants[parked]
    return SliceResult(
        firings=[firings],
        windows=windows,
        triggers=TriggerStates(values=values[parked], unfired_elements=remaining[parked]),
        next_firings=np.full(len(parked), NO_TIME),
        timers=timers_of(windows, np.zeros(len(parked), np.bool_), last_instants, assigned.cleanups[parked]),
        accumulators=assigned.accumulators_of(contents, slice_input, initial_state),
        late=LateElements.none(),
        counts=Counts(
            windows_opened=size - len(assigned.restored),
            windows_cleaned=int(np.count_nonzero(is_closed)),
            assignments_missed=assigned.missed,
            elements_cleaned=int(after.elements[is_closed].sum()),
            elements_never_fired=int(remaining[is_closed].sum()),
        ),
    )


def _batches(rows: Longs, owners: Longs, batches: Longs) -> tuple[Contents, Longs]:
    """Contents from one firing to the next, and those of each row."""
    groups, _, _ = group_pairs(owners, batches)
    nothing = np.zeros(0, np.int64)
    return Contents(rows, groups, nothing, nothing, nothing), groups.codes


def _running(rows: Longs, owners: Longs, fires: Booleans) -> tuple[Contents, Longs]:
    """All contents so far, wherever a row fires or is the last of its window; and those of each such row."""
    order = np.argsort(owners, kind="stable")
    starts = run_starts(owners[order])
    is_picked = fires[order].copy()
    is_picked[np.append(starts[1:], len(order))[: len(starts)] - 1] = True
    picks = np.flatnonzero(is_picked)
    shown = np.full(len(rows), NO_CONTENTS)
    shown[order[picks]] = np.arange(len(picks))
    nothing = np.zeros(0, np.int64)
    return Contents(nothing, Groups(nothing, 0), rows[order], starts, picks), shown
