"""What a family of windows (tumbling and sliding, sessions, …) is to the columnar engine: what of a batch
travels to the ranges of its keys, and what the kernel is given there.

The engine knows files, keys, tables and hashes; the kernels in `slackwater.windowing.columnar` know windows;
a family joins them. Keys are numbers here, times are milliseconds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.aggregates import ColumnarAggregate
from slackwater.jobs.engines.columnar.accumulators import AccumulatorColumns
from slackwater.jobs.engines.rows.columns_read import ARRIVAL, EVENT
from slackwater.jobs.engines.rows.element_order import in_order
from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.tables.schemas import Shape
from slackwater.windowing import Trigger
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.kernels import SliceInput, SliceResult, WindowState
from slackwater.windowing.columnar.timeline.timeline import Timeline
from slackwater.windowing.columnar.window_columns import Elements
from slackwater.windowing.state.descriptors import StateDescriptor

DOUBTFUL: Final = "doubtful"  # the part of elements that may be late: they travel as whole rows
_KEY: Final = "__key_number"


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

    @property
    def windows_are_global(self) -> bool:
        """Whether a key has one window, which never ends."""
        return self.pipeline.windows.grid is None and self.pipeline.windows.session_gap_ms is None

    def clocks(self, arrivals: Longs) -> Longs:
        """What the clock reads when elements are processed: their arrival; for those folded from before the
        slice, its start.
        """
        return np.maximum(arrivals, self.timeline.from_ms)


class BatchElements(NamedTuple):
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
    ) -> "BatchElements":
        """The rows of a batch whose keys have these numbers."""
        clocks = setting.clocks(rows.column(ARRIVAL).to_numpy())
        return cls(
            rows, keys, rows.column(EVENT).to_numpy(), clocks, setting.timeline.at_arrival(clocks), whole_rows
        )

    def full_rows(self, positions: Longs) -> pa.Table:
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


class RangeInput(NamedTuple):
    """What a range has received, as the kernels take it.

    Attributes:
        received: pieces and elements.
        doubtful: int64, the place of each element in the part of that name; -1 where it came otherwise.
    """

    slice_input: SliceInput[AccumulatorColumns]
    doubtful_places: Longs


class Family(Protocol):
    """A family of windows. It travels to executors and holds no state."""

    @property
    def setting(self) -> Setting:
        """What it works on."""

    @property
    def trigger_state(self) -> StateDescriptor | None:
        """What its triggers remember of a window, as the snapshot has it; None for nothing."""

    def split(self, elements: BatchElements) -> Split:
        """Map side: judge and, where order does not matter, aggregate the rows of one batch. Every part is
        there, if empty.
        """

    def receive(self, parts: Mapping[str, Part]) -> RangeInput:
        """Range side: every part of all batches, as pieces and elements. Keys are numbered in the order in
        which a snapshot has them.
        """

    def replay(
        self, slice_input: SliceInput[AccumulatorColumns], initial_state: WindowState[AccumulatorColumns]
    ) -> SliceResult[AccumulatorColumns]:
        """The kernel of the family, with the rules of the pipeline."""


def accumulator_names(setting: Setting) -> list[list[str]]:
    """The names under which the accumulators' columns travel, for each aggregate."""
    return [
        [f"{number}_{name}" for name, _ in aggregate.columns]
        for number, aggregate in enumerate(setting.aggregates)
    ]


def read_accumulators(rows: pa.Table, setting: Setting) -> AccumulatorColumns:
    """The accumulators that have travelled in these rows."""
    columns = ([rows.column(name).combine_chunks() for name in names] for names in accumulator_names(setting))
    return AccumulatorColumns.of(setting.aggregates, columns, rows.num_rows)


def elements_in_order(setting: Setting, part: Part) -> tuple[Elements, pa.Table]:
    """(elements, their rows) of a part in the order in which elements are processed: by arrival, order column
    and hash, as `slackwater.jobs.engines.rows.element_order` has it; ties only inside a key matter.
    """
    rows = in_order(setting.pipeline, part.rows.append_column(_KEY, pa.array(part.keys)))
    clocks = setting.clocks(rows.column(ARRIVAL).to_numpy())
    elements = Elements(
        keys=np.asarray(rows.column(_KEY)),
        times=rows.column(EVENT).to_numpy(),
        clocks=clocks,
        watermarks=setting.timeline.at_arrival(clocks),
    )
    return elements, rows
