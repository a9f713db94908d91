"""What a family of windows (tumbling and sliding, sessions, …) must do for the columnar engine, and the
columns that pass between them.

The engine knows files, keys, tables and hashes; a family knows windows. Keys are numbers here, times are
milliseconds, NONE is no time.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.aggregates import ColumnarAggregate, Columns
from slackwater.jobs.engines.rows.columns_read import ARRIVAL, EVENT
from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.tables.schemas import Shape
from slackwater.windowing import Trigger
from slackwater.windowing.columnar.columns import Booleans, Longs
from slackwater.windowing.columnar.timeline import Timeline

NONE: Final = int(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class Setting:
    """What a family works on: one pipeline, one slice.

    Attributes:
        pipeline: the declarations.
        shape: the columns of its tables.
        aggregates: the columnar forms of its `select`, in its order.
        widths: how many columns of `shape.parts` each of them has.
        timeline: the slice's watermarks.
        read: the source columns that the pipeline's meaning depends on; what travels of a row that is not
            aggregated at once.
    """

    pipeline: Pipeline
    shape: Shape
    aggregates: tuple[ColumnarAggregate, ...]
    widths: tuple[int, ...]
    timeline: Timeline
    read: tuple[str, ...]

    @property
    def purges(self) -> bool:
        """Whether a firing empties its window."""
        return self.pipeline.effective_trigger.purges

    @property
    def trigger(self) -> Trigger:
        """What decides when windows fire: the trigger, or the one inside a purging one."""
        return self.pipeline.effective_trigger.firing_trigger

    def closes(self, cleanup_times: Longs) -> Booleans:
        """Which windows are collected by the slice's end; those that a shorter lateness has expired are,
        without a new watermark.
        """
        return cleanup_times <= self.timeline.final

    def clocks(self, arrivals: Longs) -> Longs:
        """What the clock reads when elements are processed: their arrival; for those folded from before the
        slice, its start.
        """
        return np.maximum(arrivals, self.timeline.from_ms)


class Elements(NamedTuple):
    """Usable rows of one batch.

    Attributes:
        rows: the source's columns that the pipeline reads and, as int64, `__arrival_ms` and `__event_ms`.
        keys: int64[n], the number of each row's key.
        events: int64[n].
        clocks: int64[n], when the row is processed.
        watermarks: int64[n], in force then.
        whole_rows: the source's columns of the rows at some ascending positions, where `rows` lacks some of
            them.
    """

    rows: pa.Table
    keys: Longs
    events: Longs
    clocks: Longs
    watermarks: Longs
    whole_rows: Callable[[Longs], pa.Table] | None = None

    @classmethod
    def of(
        cls,
        rows: pa.Table,
        keys: Longs,
        setting: Setting,
        whole_rows: Callable[[Longs], pa.Table] | None = None,
    ) -> "Elements":
        """The rows of a batch whose keys have these numbers."""
        clocks = setting.clocks(rows.column(ARRIVAL).to_numpy())
        return cls(
            rows, keys, rows.column(EVENT).to_numpy(), clocks, setting.timeline.at_arrival(clocks), whole_rows
        )

    def whole(self, positions: Longs) -> pa.Table:
        """Every column of the source and both times, of the rows at ascending `positions`."""
        if self.whole_rows is None or not len(positions):
            return self.rows.take(pa.array(positions))
        times = self.rows.select([ARRIVAL, EVENT]).take(pa.array(positions))
        rows = self.whole_rows(positions)
        return rows.append_column(ARRIVAL, times.column(ARRIVAL)).append_column(EVENT, times.column(EVENT))


class Part(NamedTuple):
    """Rows of one kind on their way to the ranges of their keys, or as they have come there."""

    keys: Longs
    rows: pa.Table


class Late(NamedTuple):
    """Elements that no window took.

    Attributes:
        positions: int64[n], rows of the batch, or of the part that they are in.
        watermarks: int64[n], in force when they came.
        owners, starts, ends: int64[m], one for each (late row, window that it missed), in the assigner's
            order.
    """

    positions: Longs
    watermarks: Longs
    owners: Longs
    starts: Longs
    ends: Longs


@dataclass
class Split:
    """What a map task makes of a batch: parts by name, late elements, and counts of the ledger."""

    parts: dict[str, Part] = field(default_factory=dict)
    late: Late | None = None
    counts: dict[str, int] = field(default_factory=dict)


class Panes(NamedTuple):
    """Firings, one row each; all of one kind.

    Attributes:
        results: one array for each result column; None for withdrawals, which have none.
        tick_ends, causes: NONE where something else fired.
    """

    kind: str
    keys: Longs
    starts: Longs
    ends: Longs
    firings: Longs
    results: Columns | None
    elements: Longs
    watermarks: Longs
    tick_ends: Longs
    causes: Longs


class OpenWindows(NamedTuple):
    """Windows that are open at the slice's end, one row each.

    Attributes:
        last_fired, next_firings, cleanups: NONE for never.
        accumulators: the columns of each aggregate, one row for each window that is not empty, in order.
        is_empty: whether the window has been purged since its last element.
        trigger_states: JSON as the snapshot's; None when no trigger remembers anything.
    """

    keys: Longs
    starts: Longs
    ends: Longs
    elements: Longs
    firings: Longs
    last_fired: Longs
    next_firings: Longs
    cleanups: Longs
    first_arrivals: Longs
    last_arrivals: Longs
    accumulators: Sequence[Columns]
    is_empty: Booleans
    trigger_states: pa.Array | None = None


class Timers(NamedTuple):
    """Pending event-time timers, all of one purpose."""

    purpose: str
    keys: Longs
    starts: Longs
    ends: Longs
    times: Longs


class Merged(NamedTuple):
    """What a range task makes of its parts and of the windows parked before."""

    panes: Sequence[Panes]
    windows: OpenWindows
    timers: Sequence[Timers]
    counts: Mapping[str, int]
    late: Mapping[str, Late] = {}


class Family(Protocol):
    """A family of windows. It travels to executors and holds no state."""

    @property
    def setting(self) -> Setting:
        """What it works on."""

    def split(self, elements: Elements) -> Split:
        """Map side: judge and, where order does not matter, aggregate the rows of one batch. Every part is
        there, if empty.
        """

    def merge(self, received: Mapping[str, Part], parked: Part) -> Merged:
        """Range side: `received` has every part of all batches; `parked` the range's rows of `window_state`.
        Keys are numbered in the order in which a snapshot has them."""


def rows_where(chosen: Booleans) -> Longs | slice:
    """The rows that are chosen: where the first or the last ones are, as a slice, by which nothing needs to
    be copied.
    """
    count = int(np.count_nonzero(chosen))
    for run in (slice(0, count), slice(len(chosen) - count, len(chosen))):
        if chosen[run].all():
            return run
    return np.flatnonzero(chosen)


def take_each(accumulators: Iterable[Columns], rows: Longs | slice) -> list[Columns]:
    """Those rows of the accumulators of each aggregate."""
    if isinstance(rows, slice):
        return [[column[rows] for column in columns] for columns in accumulators]
    indices = pa.array(rows)
    return [[column.take(indices) for column in columns] for columns in accumulators]


def join_each(parts: Sequence[Sequence[Columns]]) -> list[Columns]:
    """The rows of several parts, one after the other, for each aggregate."""
    return [
        [pa.concat_arrays(columns) for columns in zip(*same, strict=True)]
        for same in zip(*parts, strict=True)
    ]
