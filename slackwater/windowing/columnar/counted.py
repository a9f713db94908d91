"""The kernel of windows with a count trigger, also inside a purging one (Flink: countWindow): every n-th
element of a window fires it. NeverTrigger is a count trigger whose n is never reached.

Only the order of arrival decides which elements fire. A window with c elements since its last firing before
the slice fires at its element j of the slice (from 0) where c + j + 1 is a multiple of n:

    count before: 1     n = 3     elements   ·  ·  ·  ·  ·  ·        after: 7 % 3 = 1
                                  counts     2  3  4  5  6  7
                                                ●        ●           firings
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from slackwater.windowing.columnar.accumulators import Accumulators
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import Groups, group_pairs, run_numbers, run_starts
from slackwater.windowing.columnar.assignments import WindowAssignments
from slackwater.windowing.columnar.contents import Contents
from slackwater.windowing.columnar.kernels import SliceInput, SliceResult, WindowState
from slackwater.windowing.columnar.numbered_windows import NumberedWindows
from slackwater.windowing.columnar.timeline.timeline import NEVER, Timeline
from slackwater.windowing.columnar.window_columns import (
    NO_CONTENTS,
    NO_TIME,
    Elements,
    Firings,
    LateElements,
    PaneKind,
    TriggerStates,
    rows_of,
    timers_of,
)

A = TypeVar("A", bound=Accumulators)


@dataclass(frozen=True)
class CountRules:
    """The declared windows (None: the global window) and trigger. Unless it `accumulates`, a window is purged
    when it fires; `max_count` is NEVER for a trigger that never fires.
    """

    windows: NumberedWindows | None
    max_count: int
    accumulates: bool


def replay_counted(
    slice_input: SliceInput[A], initial_state: WindowState[A], timeline: Timeline, rules: CountRules
) -> SliceResult[A]:
    """Replay one slice of elements that some window takes; no pieces. Firings come by window and arrival,
    early and late ones mixed; open windows by key and start.
    """
    max_count = rules.max_count
    assignments = WindowAssignments.of(initial_state.windows, slice_input.elements, rules.windows)
    windows_at_start = assignments.windows
    counts_at_start = windows_at_start.elements - windows_at_start.firings * max_count
    takings = _takings(assignments, counts_at_start, max_count)
    contents, rows_shown, newest_contents = _contents(assignments, counts_at_start, takings, rules)
    counts_at_end = counts_at_start + np.bincount(takings.owners, minlength=len(windows_at_start.keys))
    unfired_elements = counts_at_end % max_count

    clocks = slice_input.elements.clocks[assignments.elements]
    firings, owners = _firings(assignments, takings, slice_input.elements, rows_shown, max_count)
    last_fired_at = windows_at_start.last_fired_at.copy()
    last_fired_at[owners] = firings.causes  # of several firings of a window the last assignment counts
    windows_at_end = assignments.windows_at_end(
        clocks,
        firings=windows_at_start.firings + counts_at_end // max_count,
        last_fired_at=last_fired_at,
        contents=(
            newest_contents
            if rules.accumulates
            else np.where(unfired_elements > 0, newest_contents, NO_CONTENTS)
        ),
    )
    parked_numbers = assignments.parked_numbers(windows_at_end, timeline)
    windows = rows_of(windows_at_end, parked_numbers)
    waits_for_last_instant = np.zeros(len(parked_numbers), np.bool_)
    return SliceResult(
        firings=[firings],
        windows=windows,
        triggers=_trigger_states(unfired_elements[parked_numbers], max_count),
        next_firings=np.full(len(parked_numbers), NO_TIME),
        timers=timers_of(
            windows,
            waits_for_last_instant,
            assignments.last_instants[parked_numbers],
            assignments.cleanups[parked_numbers],
        ),
        accumulators=assignments.accumulators_of(contents, slice_input, initial_state),
        late=LateElements.none(),
        counts=assignments.counts(windows_at_end, unfired_elements, timeline),
    )


def _trigger_states(unfired_elements: Longs, max_count: int) -> TriggerStates:
    """The count of each window; none for a trigger that never fires."""
    has_count = (unfired_elements > 0) & (max_count != NEVER)
    return TriggerStates(np.where(has_count, unfired_elements, NO_TIME), unfired_elements)


class _Takings(NamedTuple):
    """The elements that windows take, by window and arrival; one row per (element, window).

    Attributes:
        order: int64[m], the place of each among the assignments.
        owners, places: int64[m], the number of its window, and 0, 1, …: its place in the window.
        counts_before: int64[m], elements of the window since the last firing before the slice.
        fires: bool[m], whether it fires its window.
    """

    order: Longs
    owners: Longs
    places: Longs
    counts_before: Longs
    fires: Booleans


def _takings(assignments: WindowAssignments, counts_at_start: Longs, max_count: int) -> _Takings:
    """The assignments by window. `counts_at_start`: elements since each window's last firing."""
    order = np.argsort(assignments.owners, kind="stable")
    owners = assignments.owners[order]
    starts = run_starts(owners)
    places = np.arange(len(order)) - starts[run_numbers(starts, len(order))]
    counts_before = counts_at_start[owners] + places
    return _Takings(
        order=order,
        owners=owners,
        places=places,
        counts_before=counts_before,
        fires=(counts_before + 1) % max_count == 0,
    )


def _contents(
    assignments: WindowAssignments, counts_at_start: Longs, takings: _Takings, rules: CountRules
) -> tuple[Contents, Longs, Longs]:
    """(contents, number of the contents that each taking shows or joins, newest contents of each window)."""
    holding = np.arange(len(assignments.restored_numbers))
    if not rules.accumulates:
        holding = holding[counts_at_start[assignments.restored_numbers] > 0]
    # The restored contents of a window precede its elements.
    rows = np.append(holding, takings.order + len(assignments.restored_numbers))
    owners = np.append(assignments.restored_numbers[holding], takings.owners)
    nothing_restored = np.zeros(len(holding), np.int64)
    if rules.accumulates:
        fires = np.append(nothing_restored.astype(np.bool_), takings.fires)
        contents, numbers = _running_contents(rows, owners, fires)
    else:
        batches = np.append(nothing_restored, takings.counts_before // rules.max_count)
        contents, numbers = _batch_contents(rows, owners, batches)
    newest_contents = np.full(len(assignments.windows.keys), NO_CONTENTS)
    newest_contents[owners] = numbers
    return contents, numbers[len(holding) :], newest_contents


def _firings(
    assignments: WindowAssignments, takings: _Takings, elements: Elements, rows_shown: Longs, max_count: int
) -> tuple[Firings, Longs]:
    windows_at_start, fires = assignments.windows, takings.fires
    owners, rows = takings.owners[fires], assignments.elements[takings.order[fires]]
    watermarks = elements.watermarks[rows]
    is_late = (assignments.last_instants[owners] <= watermarks) & (assignments.cleanups[owners] != NEVER)
    firings = Firings(
        keys=windows_at_start.keys[owners],
        starts=windows_at_start.starts[owners],
        ends=windows_at_start.ends[owners],
        firings=windows_at_start.firings[owners] + (takings.counts_before[fires] + 1) // max_count,
        kinds=np.where(is_late, PaneKind.LATE, PaneKind.EARLY),
        elements=windows_at_start.elements[owners] + takings.places[fires] + 1,
        watermarks=watermarks,
        tick_ends=np.full(len(owners), NO_TIME),
        causes=elements.clocks[rows],
        contents=rows_shown[fires],
    )
    return firings, owners


def _batch_contents(rows: Longs, owners: Longs, batches: Longs) -> tuple[Contents, Longs]:
    """(contents that begin anew after each firing, the number of the contents that each row joins)."""
    groups, _, _ = group_pairs(owners, batches)
    nothing = np.zeros(0, np.int64)
    return Contents(rows, groups, nothing, nothing, nothing), groups.codes


def _running_contents(rows: Longs, owners: Longs, fires: Booleans) -> tuple[Contents, Longs]:
    """(running totals of each window, picked where a row fires or is the last; the picks' numbers by row)."""
    order = np.argsort(owners, kind="stable")
    starts = run_starts(owners[order])
    is_picked = fires[order].copy()
    is_picked[np.append(starts[1:], len(order))[: len(starts)] - 1] = True
    picks = np.flatnonzero(is_picked)
    pick_numbers = np.full(len(rows), NO_CONTENTS)
    pick_numbers[order[picks]] = np.arange(len(picks))
    nothing = np.zeros(0, np.int64)
    return Contents(nothing, Groups(nothing, 0), rows[order], starts, picks), pick_numbers
