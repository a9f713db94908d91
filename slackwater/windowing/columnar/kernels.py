"""The signature that the kernels share, and the records that they take and give.

A kernel replays one slice of one key-group range on whole columns:
`replay(slice_input, initial_state, timeline, rules)`. Each family of windows has one, in the file or folder
of its name: `fixed` (tumbling and sliding), `sessions`, `counted` and `continuous`. All of them return a
`SliceResult`, so panes, windows and timers are written by one piece of code in the engine.

    SliceInput: pieces and elements ──┐
    WindowState: open windows ────────┼─ replay ─┬─ firings ──────── panes
    Timeline: watermarks ─────────────┘          ├─ windows, timers ─ parked for the next slice
                                                 └─ late elements, counts
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from slackwater.windowing.columnar.accumulators import Accumulators
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.parking import Timers
from slackwater.windowing.columnar.window_columns import (
    Elements,
    Firings,
    LateElements,
    OpenWindows,
    Pieces,
    TriggerStates,
)

A = TypeVar("A", bound=Accumulators)


class SliceInput(NamedTuple, Generic[A]):
    """What has come in the slice.

    Attributes:
        pieces: of windows, whatever could be put together before; some families have none, and in some an
            element stands for each, see their kernels.
        piece_accumulators: the accumulator of each.
        elements: the others, in order of arrival.
        element_accumulators: the accumulator of each.
    """

    pieces: Pieces
    piece_accumulators: A
    elements: Elements
    element_accumulators: A


class WindowState(NamedTuple, Generic[A]):
    """The windows that are open at the slice's start, with the state of their triggers and aggregates.

    Attributes:
        windows: the open windows; `contents` of row i is i, or NO_CONTENTS.
        triggers: the state of the trigger of each window; None for triggers without state.
        accumulators: a row for each window; the row of a window without contents has no meaning.
    """

    windows: OpenWindows
    triggers: TriggerStates | None
    accumulators: A


class Counts(NamedTuple):
    """Counts for the ledger that the firings do not show.

    Attributes:
        windows_opened, windows_cleaned, windows_merged: windows that were created, collected, and absorbed by
            another session after they had fired.
        assignments_missed: (element, window) pairs of which the window was already collected, though another
            window took the element.
        elements_cleaned: elements that the collected windows had accepted.
        elements_never_fired: those of `elements_cleaned` that were in no firing.
    """

    windows_opened: int
    windows_cleaned: int
    windows_merged: int = 0
    assignments_missed: int = 0
    elements_cleaned: int = 0
    elements_never_fired: int = 0


class SliceResult(NamedTuple, Generic[A]):
    """The firings of the slice, and the state at its end.

    Attributes:
        firings: all firings, in blocks, so that they need not be copied into one; firings of one kind stand
            in the order that the family's kernel documents.
        windows: the windows that are open at the slice's end, in the order in which they are parked.
        triggers: the state of the trigger of each window; None for triggers without state.
        next_firings: when each window fires next; NO_TIME for never.
        timers: the pending timers.
        accumulators: the rows that `contents` of firings and windows number.
        late: elements that no window took; those that the map side found to be late are not among them.
        counts: counts for the ledger.
    """

    firings: Sequence[Firings]
    windows: OpenWindows
    triggers: TriggerStates | None
    next_firings: Longs
    timers: list[Timers]
    accumulators: A
    late: LateElements
    counts: Counts
