"""The signature that the kernels share, and the records they take and return.

A kernel replays one slice of one key-group range on whole columns: `replay(slice_input, initial_state,
timeline, rules)`. Each family of windows has one, in the file or folder of its name: `fixed` (tumbling and
sliding), `sessions`, `counted` and `continuous`. Because all return a `SliceResult`, one piece of code in the
engine writes panes, windows and timers.

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
from slackwater.windowing.columnar.window_columns import (
    Elements,
    Firings,
    LateElements,
    OpenWindows,
    Pieces,
    Timers,
    TriggerStates,
)

A = TypeVar("A", bound=Accumulators)


class SliceInput(NamedTuple, Generic[A]):
    """The input of one slice: pieces and single elements, in order of arrival, with a row of accumulators
    each. Some families have no pieces, in others each element represents one (see kernels).
    """

    pieces: Pieces
    piece_accumulators: A
    elements: Elements
    element_accumulators: A


class WindowState(NamedTuple, Generic[A]):
    """The windows that are open at the slice's start, with the state of their triggers (None if stateless)
    and aggregates. `contents` of row i is i, or NO_CONTENTS: then row i of the accumulators has no meaning.
    """

    windows: OpenWindows
    triggers: TriggerStates | None
    accumulators: A


class Counts(NamedTuple):
    """Counts for the ledger that the firings do not show.

    Attributes:
        windows_opened, windows_cleaned: windows created and collected.
        windows_merged: sessions absorbed by another after they had fired.
        assignments_missed: (element, window) pairs whose window was already collected, though another window
            took the element.
        elements_cleaned: elements that the collected windows had accepted.
        elements_never_fired: how many of `elements_cleaned` were in no firing.
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
        firings: blocks of firings, not copied into one; one kind in the order that the kernel documents.
        windows: the windows open at the slice's end, in the order in which they are parked.
        triggers: the trigger state of each window; None for stateless triggers.
        next_firings: when each window fires next; NO_TIME for never.
        accumulators: the rows that `contents` of firings and windows number.
        late: elements that no window took, except those that the map side already found to be late.
    """

    firings: Sequence[Firings]
    windows: OpenWindows
    triggers: TriggerStates | None
    next_firings: Longs
    timers: list[Timers]
    accumulators: A
    late: LateElements
    counts: Counts
