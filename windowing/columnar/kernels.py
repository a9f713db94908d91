"""What every kernel of windows on columns takes and gives.

A kernel replays one slice of one key-group range: `replay(received, restored, timeline, rules)`. There is
one for each family of windows, in the file of that name: `fixed` (tumbling and sliding), `sessions`,
`counted` and `continuous`. All of them give a `Replayed`, so panes, windows and timers are written once, by
whoever calls.

    received pieces and elements ─┐
    restored windows ─────────────┼─ replay ─┬─ firings ──────── panes
    timeline of watermarks ───────┘          ├─ windows, timers ─ parked for the next slice
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


class Received(NamedTuple, Generic[A]):
    """What has come in the slice.

    Attributes:
        pieces: of windows, whatever could be put together before; some families have none.
        of_pieces: the accumulator of each.
        elements: the others, in order of arrival.
        of_elements: the accumulator of each.
    """

    pieces: Pieces
    of_pieces: A
    elements: Elements
    of_elements: A


class Restored(NamedTuple, Generic[A]):
    """The windows that are open at the slice's start.

    Attributes:
        windows: `contents` of row i is i, or NO_CONTENTS.
        triggers: what their triggers remember; None where they remember nothing.
        accumulators: a row for each window; of one without contents it means nothing.
    """

    windows: OpenWindows
    triggers: TriggerStates | None
    accumulators: A


class Counts(NamedTuple):
    """What the ledger counts of windows, beside their firings.

    Attributes:
        opened, merged, cleaned: windows.
        elements_missed: how often an element was late for a window, though another took it.
        elements_cleaned: elements of the windows that were collected.
        elements_never_fired: those of them that were in no firing.
    """

    opened: int
    cleaned: int
    merged: int = 0
    elements_missed: int = 0
    elements_cleaned: int = 0
    elements_never_fired: int = 0


class Replayed(NamedTuple, Generic[A]):
    """What the slice has made of its windows.

    Attributes:
        firings: all of them, in blocks that nobody has copied together; those of one kind stand in the order
            in which the family gives them.
        windows: those that are open at the slice's end, in the order in which they are parked.
        triggers: what their triggers remember; None where they remember nothing.
        next_firings: when each fires next, NO_TIME for never.
        timers: those that are pending.
        accumulators: what the contents of firings and windows number.
        late: elements that no window took, as far as that was not known before.
        counts: for the ledger.
    """

    firings: Sequence[Firings]
    windows: OpenWindows
    triggers: TriggerStates | None
    next_firings: Longs
    timers: list[Timers]
    accumulators: A
    late: LateElements
    counts: Counts
