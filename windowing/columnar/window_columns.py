"""Windows, their firings and the elements that reach them, as columns: the records that every kernel takes
and gives.

One row is one window, one firing or one element. Arrays only; no rule of Flink is applied here.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Longs

NO_TIME: Final = int(np.iinfo(np.int64).min)  # in a column of times: none
NO_CONTENTS: Final = -1  # in a column of contents: none


class PaneKind(IntEnum):
    """Why there is a pane.

    EARLY: the trigger fired before the watermark reached the window's last instant. ON_TIME: it fired then.
    LATE: an element fired the window behind it. WITHDRAWN: a session that had fired was absorbed by another.
    """

    EARLY = 0
    ON_TIME = 1
    LATE = 2
    WITHDRAWN = 3


class Elements(NamedTuple):
    """Elements in order of arrival; int64[m] each, times in milliseconds.

    Attributes:
        keys: the number of each key; the caller keeps numbers and keys apart.
        times: their timestamps.
        clocks: the clock at each: its arrival, or the slice's start for one that arrived earlier.
        watermarks: in force at each.
    """

    keys: Longs
    times: Longs
    clocks: Longs
    watermarks: Longs


class Pieces(NamedTuple):
    """Parts of windows, put together from elements whose order cannot show; int64[n] each.

    Attributes:
        keys: numbers as in Elements.
        firsts, lasts: the first and the last place of the piece's elements, as the rules of its windows count
            places: slices of tumbling and sliding windows (both are the same), milliseconds of sessions.
        elements: how many there are.
        first_arrivals, last_arrivals: clock at the first and at the newest element.
    """

    keys: Longs
    firsts: Longs
    lasts: Longs
    elements: Longs
    first_arrivals: Longs
    last_arrivals: Longs


class OpenWindows(NamedTuple):
    """Windows that are open, one a row; int64[n] each, times in milliseconds.

    Attributes:
        keys: numbers as in Elements.
        starts, ends: the window's span, half-open; NO_TIME for the global window.
        elements: accepted so far.
        firings: so far.
        last_fired_at: clock at the newest firing, or NO_TIME.
        first_arrivals, last_arrivals: clock at the first and at the newest element.
        contents: which contents it holds, a row of the accumulators that stand beside it; NO_CONTENTS after a
            purge.
    """

    keys: Longs
    starts: Longs
    ends: Longs
    elements: Longs
    firings: Longs
    last_fired_at: Longs
    first_arrivals: Longs
    last_arrivals: Longs
    contents: Longs


class TriggerStates(NamedTuple):
    """What the trigger of each window remembers; int64[n] each.

    Attributes:
        values: a number of its own: elements since the last firing, or the time of the next one; NO_TIME for
            none.
        unfired: elements of the window that are in no firing yet.
    """

    values: Longs
    unfired_elements: Longs


class Firings(NamedTuple):
    """Firings and withdrawals, one a row; int64[k] each, times in milliseconds.

    Attributes:
        keys, starts, ends: the window, as in OpenWindows.
        firings: 1, 2, …: Flink's count of the window's firings.
        kinds: numbers of PaneKind.
        elements: accepted by the window when it fired; 0 for a withdrawal.
        watermarks: in force.
        tick_ends: of the watermark that fired it, or NO_TIME.
        causes: clock at the element that fired or absorbed it, or NO_TIME.
        contents: what it shows, as in OpenWindows; NO_CONTENTS for a withdrawal.
    """

    keys: Longs
    starts: Longs
    ends: Longs
    firings: Longs
    kinds: Longs
    elements: Longs
    watermarks: Longs
    tick_ends: Longs
    causes: Longs
    contents: Longs


class LateElements(NamedTuple):
    """Elements that no window took; int64[k] each.

    Attributes:
        positions: of each among the elements, ascending.
        starts, ends: the window that it missed.
    """

    positions: Longs
    starts: Longs
    ends: Longs

    @classmethod
    def none(cls) -> LateElements:
        """No element is late."""
        nothing = np.zeros(0, np.int64)
        return cls(positions=nothing, starts=nothing, ends=nothing)


Record = TypeVar("Record", Elements, Pieces, OpenWindows, TriggerStates, Firings)


def columns_of(kind: type[Record], rows: Sequence[tuple[int, ...]]) -> Record:
    """Rows, each in the order of the columns, as columns."""
    table = np.array(rows, np.int64).reshape(len(rows), len(kind._fields))
    return kind(*np.ascontiguousarray(table.T))


def together(parts: Sequence[Record]) -> Record:
    """The rows of all parts, at least one, one part after the other; without a copy where one part has them
    all.
    """
    full = [part for part in parts if len(part[0])] or list(parts[:1])
    if len(full) == 1:
        return full[0]
    return type(full[0])(*(np.concatenate(columns) for columns in zip(*full, strict=True)))


def rows_of(columns: Record, rows: Any) -> Record:
    """The rows at those positions, in that slice, or where a mask is set."""
    return type(columns)(*(column[rows] for column in columns))


def renumbered(columns: Record, first: int) -> Record:
    """The same rows, their contents counted from `first`."""
    assert isinstance(columns, (OpenWindows, Firings))
    contents = columns.contents
    return columns._replace(contents=np.where(contents == NO_CONTENTS, contents, contents + first))
