"""Column records of all kernels, without Flink's rules: windows, firings, elements, pieces, one per row."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Booleans, Longs, rows_where
from slackwater.windowing.columnar.timeline.timeline import NEVER, Timeline

NO_TIME: Final = int(np.iinfo(np.int64).min)  # in a column of times: there is none
NO_CONTENTS: Final = -1  # in a column of contents: the window has none


class PaneKind(IntEnum):
    """Why a window fired.

    EARLY: before the watermark reached its last instant. ON_TIME: as the watermark reached it. LATE: for an
    element after that. WITHDRAWN: no firing; a session that had fired was absorbed by another.
    """

    EARLY = 0
    ON_TIME = 1
    LATE = 2
    WITHDRAWN = 3


class Elements(NamedTuple):
    """Elements in order of arrival; int64[m] each, times in milliseconds.

    `keys` are numbers, which the caller maps to keys. `clocks` is the clock at each element: its arrival, or
    the slice's start if it arrived earlier. `watermarks` are in force at each.
    """

    keys: Longs
    times: Longs
    clocks: Longs
    watermarks: Longs


class Pieces(NamedTuple):
    """Partial aggregates of windows, over elements whose order does not matter; int64[n] each.

    Attributes:
        firsts, lasts: the range of the piece's elements: for tumbling and sliding windows their grid slice
            (twice), for sessions the first and the last timestamp.
        first_arrivals, last_arrivals: clock at the first and at the newest element.
    """

    keys: Longs
    firsts: Longs
    lasts: Longs
    elements: Longs
    first_arrivals: Longs
    last_arrivals: Longs


class OpenWindows(NamedTuple):
    """Open windows, one per row; int64[n] each, times in milliseconds.

    Attributes:
        starts, ends: the window's half-open span; NO_TIME for the global window.
        elements, firings: number of elements accepted so far, and of firings.
        last_fired_at: clock at the newest firing, or NO_TIME.
        first_arrivals, last_arrivals: clock at the first and at the newest element.
        contents: the row of its contents in the accompanying accumulators; NO_CONTENTS after a purge.
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
    """The state of each window's trigger; int64[n] each: `values` are elements since the last firing (count
    triggers) or the time of the next firing (continuous ones), NO_TIME for none; `unfired_elements` counts
    elements of the window that are in no firing yet.
    """

    values: Longs
    unfired_elements: Longs


class Firings(NamedTuple):
    """Firings and withdrawals, one per row; int64[k] each, times in milliseconds.

    Attributes:
        keys, starts, ends: the window, as in OpenWindows.
        firings: 1, 2, …: Flink's count of the window's firings.
        kinds: numbers of PaneKind.
        elements: number of elements the window had accepted; 0 for a withdrawal.
        watermarks: the watermark in force.
        tick_ends: the tick end of the watermark that fired the window, or the moment of the clock's timer;
            NO_TIME for neither.
        causes: the clock at the element that fired or absorbed the window, or NO_TIME.
        contents: the contents shown, as in OpenWindows; NO_CONTENTS for a withdrawal.
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


def on_time_firings(windows: OpenWindows, watermarks: Longs, tick_ends: Longs) -> Firings:
    """The first firing of each window, at a tick end's watermark, with all of its contents."""
    size = len(windows.keys)
    return Firings(
        keys=windows.keys,
        starts=windows.starts,
        ends=windows.ends,
        firings=np.ones(size, np.int64),
        kinds=np.full(size, PaneKind.ON_TIME),
        elements=windows.elements,
        watermarks=watermarks,
        tick_ends=tick_ends,
        causes=np.full(size, NO_TIME),
        contents=windows.contents,
    )


class LateElements(NamedTuple):
    """Elements that no window took, as ascending positions in the slice, and the window each was late for."""

    positions: Longs
    starts: Longs
    ends: Longs

    @classmethod
    def none(cls) -> LateElements:
        nothing = np.zeros(0, np.int64)
        return cls(positions=nothing, starts=nothing, ends=nothing)


Record = TypeVar("Record", Elements, Pieces, OpenWindows, TriggerStates, Firings)


def columns_of(kind: type[Record], rows: Sequence[tuple[int, ...]]) -> Record:
    """The record of these rows; each row has its values in the order of the record's columns."""
    table = np.array(rows, np.int64).reshape(len(rows), len(kind._fields))
    return kind(*np.ascontiguousarray(table.T))


def concatenate(parts: Sequence[Record]) -> Record:
    """The rows of all parts (at least one), not copied where only one part has rows."""
    full = [part for part in parts if len(part[0])] or list(parts[:1])
    if len(full) == 1:
        return full[0]
    return type(full[0])(*(np.concatenate(columns) for columns in zip(*full, strict=True)))


def rows_of(columns: Record, rows: Any) -> Record:
    """The rows at these positions, in this slice, or where this mask is set."""
    return type(columns)(*(column[rows] for column in columns))


def renumber_contents(columns: Record, first: int) -> Record:
    """The same rows with `first` added to the numbers of their contents."""
    assert isinstance(columns, (OpenWindows, Firings))
    contents = columns.contents
    return columns._replace(contents=np.where(contents == NO_CONTENTS, contents, contents + first))


class Timers(NamedTuple):
    """Pending event-time timers of one purpose, one per row: "fire" at a window's last instant, "cleanup" at
    its collection, "fire+cleanup" where both coincide, "trigger" for a time that a trigger has registered.
    """

    purpose: str
    keys: Longs
    starts: Longs
    ends: Longs
    times: Longs


def timers_at_last_instants(
    windows: OpenWindows, lateness_ms: int, timeline: Timeline
) -> tuple[Longs, list[Timers]]:
    """(next firings, timers) of windows with an event-time trigger that are open at the slice's end: each
    fires at its last instant, unless that has passed, and is collected `lateness_ms` after it.
    """
    last_instants, cleanups = windows.ends - 1, windows.ends - 1 + lateness_ms
    waits = last_instants > timeline.final
    return np.where(waits, last_instants, NO_TIME), timers_of(windows, waits, last_instants, cleanups)


def timers_of(windows: OpenWindows, waits: Booleans, last_instants: Longs, cleanups: Longs) -> list[Timers]:
    """Timers for last instants of windows that wait for them, and for cleanups; none for global windows."""
    is_timed, is_one = cleanups != NEVER, last_instants == cleanups
    return [
        timers_for("fire", windows, waits & is_timed & ~is_one, last_instants),
        timers_for("fire+cleanup", windows, waits & is_timed & is_one, last_instants),
        timers_for("cleanup", windows, is_timed & ~(waits & is_one), cleanups),
    ]


def timers_for(purpose: str, windows: OpenWindows, chosen: Booleans, times: Longs) -> Timers:
    """A timer per chosen window; the end of time, which no table can hold, becomes NO_TIME."""
    at = rows_where(chosen)
    moments = times[at]
    return Timers(
        purpose=purpose,
        keys=windows.keys[at],
        starts=windows.starts[at],
        ends=windows.ends[at],
        times=np.where(moments == NEVER, NO_TIME, moments),
    )
