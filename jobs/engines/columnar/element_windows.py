"""Windows that must see their elements one by one, in order of arrival: what of a batch travels, and which
windows take what has come.

Of triggers nothing is known here: only of assigners, lateness and what is parked.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.aggregates import Columns
from slackwater.jobs.engines.columnar.contents import combined, restored_accumulators
from slackwater.jobs.engines.columnar.families import (
    NONE,
    Elements,
    OpenWindows,
    Part,
    Setting,
    Split,
    Timers,
    join_each,
    take_each,
)
from slackwater.jobs.engines.columnar.fixed_split import BEHIND, FixedSplit
from slackwater.jobs.engines.columnar.late_order import in_order_of_arrival
from slackwater.jobs.engines.columnar.tables import milliseconds
from slackwater.jobs.engines.rows.columns_read import ARRIVAL, EVENT
from slackwater.windowing.columnar.columns import Booleans, Longs
from slackwater.windowing.columnar.contents import Contents
from slackwater.windowing.columnar.fixed_windows import FixedWindows
from slackwater.windowing.columnar.groups import Groups, group_pairs
from slackwater.windowing.columnar.timeline import NEVER


def fixed_windows(setting: Setting) -> FixedWindows | None:
    """The windows of the pipeline's assigner; None for the global window."""
    grid, lateness_ms = setting.pipeline.windows.grid, setting.pipeline.allowed_lateness_ms
    if grid is None:
        return None
    return FixedWindows(*grid, lateness_ms, setting.timeline.collected)


def travelling(setting: Setting, elements: Elements) -> Split:
    """Every element that a window takes travels; the global window takes all."""
    windows = fixed_windows(setting)
    if windows is not None:
        return FixedSplit(setting, windows).judge(
            elements, windows.slices(elements.events), np.arange(len(elements.keys))
        )
    rows = elements.rows.select([*setting.read, ARRIVAL, EVENT])
    counts = {"rows_accepted": rows.num_rows, "assignments_made": rows.num_rows}
    return Split({BEHIND: Part(elements.keys, rows)}, None, counts)


class Spans(NamedTuple):
    """Windows, one a row; int64[n] each.

    Attributes:
        keys: the key's number.
        starts, ends: NONE for the global window.
        last_instants: NEVER for the global window.
        cleanups: NEVER for one that is never collected.
    """

    keys: Longs
    starts: Longs
    ends: Longs
    last_instants: Longs
    cleanups: Longs

    def take(self, rows: Longs) -> "Spans":
        return Spans(*(column[rows] for column in self))


@dataclass(frozen=True)
class ElementWindows:
    """What a range has received and what was parked of it, as windows and the elements that they take.

    Attributes:
        spans: every window that is open at the slice's start or takes an element of it; the place is its
            number.
        known: int64[p], the number of each parked window.
        parked: rows of `window_state`, one for each of them.
        windows: int64[m], the number of a window for each element that it takes, in order of arrival.
        elements: int64[m], the element's row.
        rows: the elements, in order of arrival.
        clocks: int64, of each row.
        missed: how often an element was late for a window.
    """

    setting: Setting
    spans: Spans
    known: Longs
    parked: pa.Table
    windows: Longs
    elements: Longs
    rows: pa.Table
    clocks: Longs
    missed: int

    @classmethod
    def of(cls, setting: Setting, received: Mapping[str, Part], parked: Part) -> "ElementWindows":
        keys, rows = in_order_of_arrival(setting, received[BEHIND])
        clocks = setting.clocks(rows.column(ARRIVAL).to_numpy())
        fixed = fixed_windows(setting)
        if fixed is None:
            elements, numbers, before, missed = (
                np.arange(len(keys)),
                np.zeros(len(keys), np.int64),
                np.zeros(len(parked.keys), np.int64),
                0,
            )
        else:
            exploded = fixed.explode(fixed.slices(rows.column(EVENT).to_numpy()))
            takes = ~fixed.are_late(exploded.windows, setting.timeline.at_arrival(clocks)[exploded.rows])
            elements, numbers, missed = (
                exploded.rows[takes],
                exploded.windows[takes],
                len(takes) - int(np.count_nonzero(takes)),
            )
            before = fixed.numbers(milliseconds(parked.rows.column("window_start")))
        groups, of_keys, of_numbers = group_pairs(
            np.append(parked.keys, keys[elements]), np.append(before, numbers)
        )
        known, windows = groups.codes[: len(before)], groups.codes[len(before) :]
        return cls(
            setting,
            _spans(fixed, of_keys, of_numbers),
            known,
            parked.rows,
            windows,
            elements,
            rows,
            clocks,
            missed,
        )

    @property
    def events(self) -> Longs:
        """The timestamp of each row."""
        times: Longs = self.rows.column(EVENT).to_numpy()
        return times

    def parked_columns(self) -> tuple[Longs, Longs, Longs, Longs, Longs]:
        """(elements, firings, last firing, first arrival, last arrival) of each parked window."""
        elements, firings = (self.parked.column(name).to_numpy() for name in ("elements", "firings"))
        last_fired, first, last = (
            milliseconds(self.parked.column(name))
            for name in ("last_fired_at", "first_arrival", "last_arrival")
        )
        return elements, firings, last_fired, first, last

    def holds(self, contents: Contents) -> list[Columns]:
        """The accumulators of contents whose row i is parked window i, and row p + j element j that a window
        takes.
        """
        rows = np.append(np.arange(len(self.known)), self.elements + len(self.known))
        contents = contents._replace(rows=rows[contents.rows], running_rows=rows[contents.running_rows])
        aggregates = self.setting.aggregates
        of_elements = [
            aggregate.partial(self.rows, Groups.of_each(self.rows.num_rows)) for aggregate in aggregates
        ]
        return combined(
            self.setting, contents, join_each([restored_accumulators(self.parked, self.setting), of_elements])
        )

    def stays(self) -> Booleans:
        """Which windows are open at the slice's end."""
        is_collected = self.setting.closes(self.spans.cleanups) | (
            self.spans.last_instants <= self.setting.timeline.collected
        )
        return ~is_collected | (self.spans.cleanups == NEVER)

    def counts(self) -> dict[str, int]:
        """What the ledger counts of windows, whatever their trigger."""
        still_open = int(np.count_nonzero(self.stays()))
        return {
            "windows_opened": len(self.spans.keys) - len(self.known),
            "windows_cleaned": len(self.spans.keys) - still_open,
            "windows_open": still_open,
            "assignments_missed": self.missed,
        }


def _spans(fixed: FixedWindows | None, keys: Longs, numbers: Longs) -> Spans:
    if fixed is None:
        nowhere, never = np.full(len(keys), NONE), np.full(len(keys), NEVER)
        return Spans(keys, nowhere, nowhere, never, never)
    starts = fixed.starts(numbers)
    return Spans(
        keys, starts, starts + fixed.size_ms, fixed.last_instants(numbers), fixed.cleanup_times(numbers)
    )


class Lives(NamedTuple):
    """What every window has been through at the slice's end, by its number; int64[n] each.

    Attributes:
        last_fired, next_firings: NONE for never.
        contents: which contents it holds, below 0 for none.
        trigger_states: as in OpenWindows.
    """

    elements: Longs
    firings: Longs
    last_fired: Longs
    next_firings: Longs
    first_arrivals: Longs
    last_arrivals: Longs
    contents: Longs
    trigger_states: pa.Array | None


def open_windows(windows: ElementWindows, lives: Lives, held: list[Columns]) -> OpenWindows:
    """The windows that are open at the slice's end, sorted."""
    rows = np.flatnonzero(windows.stays())
    spans = windows.spans.take(rows)
    order = np.lexsort((spans.starts, spans.keys))
    rows, spans = rows[order], spans.take(order)
    columns: list[Any] = [column[rows] for column in lives[:-1]]
    elements, firings, last_fired, next_firings, first, last, contents = columns
    is_empty = contents < 0
    return OpenWindows(
        spans.keys,
        spans.starts,
        spans.ends,
        elements,
        firings,
        last_fired,
        next_firings,
        _never_as_none(spans.cleanups),
        first,
        last,
        take_each(held, contents[~is_empty]),
        is_empty,
        None if lives.trigger_states is None else lives.trigger_states.take(pa.array(rows)),
    )


def timers_at(purpose: str, spans: Spans, times: Longs) -> Timers:
    """A timer for each of the windows; the end of time is no time in a table."""
    return Timers(purpose, spans.keys, spans.starts, spans.ends, _never_as_none(times))


def _never_as_none(times: Longs) -> Longs:
    return np.where(times == NEVER, NONE, times)
