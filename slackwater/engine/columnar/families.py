"""The interface of a family of windows (tumbling and sliding, sessions, …): how it splits a batch into parts
for the ranges, and the kernel's input that it makes of them there. Keys are numbers, times are milliseconds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates import ArrowAccumulators, BoundAggregate
from slackwater.engine.rows.carried_timeline import CarriedTimeline
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT, KEY_NUMBER
from slackwater.engine.rows.element_order import in_order
from slackwater.pipelines import Pipeline
from slackwater.tables.schemas import Shape
from slackwater.windowing import GlobalWindows, Trigger
from slackwater.windowing.columnar.accumulators import Accumulators
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.kernels import SliceInput, SliceResult, WindowState
from slackwater.windowing.columnar.timeline.timeline import Timeline
from slackwater.windowing.columnar.window_columns import Elements
from slackwater.windowing.state.descriptors import StateDescriptor

A = TypeVar("A", bound=Accumulators)

DOUBTFUL: Final = "doubtful"  # part: elements that may be late, with all columns of the source


@dataclass(frozen=True)
class Setting:
    """One pipeline and one slice, as a family needs them. `aggregates` are in the order of the `select`; rows
    that are not aggregated on the map side travel with `source_columns`.
    """

    pipeline: Pipeline
    shape: Shape
    aggregates: tuple[BoundAggregate, ...]
    timeline: Timeline
    source_columns: tuple[str, ...]

    @property
    def aggregates_by_result(self) -> dict[str, BoundAggregate]:
        return dict(zip(self.pipeline.select, self.aggregates, strict=True))

    @property
    def purges(self) -> bool:
        return self.pipeline.effective_trigger.purges

    @property
    def trigger(self) -> Trigger:
        return self.pipeline.effective_trigger.firing_trigger

    @property
    def windows_are_global(self) -> bool:
        return isinstance(self.pipeline.windows, GlobalWindows)

    @property
    def passes_with_clock(self) -> bool:
        """Whether windows are of processing time."""
        return not (self.windows_are_global or self.pipeline.windows.is_event_time)

    @cached_property
    def window_timeline(self) -> Timeline:
        """What windows pass with: the watermarks, or the clock as a watermark (`Timeline.as_clock`)."""
        return self.timeline.as_clock() if self.passes_with_clock else self.timeline

    @property
    def lateness_ms(self) -> int:
        """0 where windows pass with the clock: they are collected at once."""
        return 0 if self.passes_with_clock else self.pipeline.allowed_lateness_ms

    def clocks(self, arrivals: Longs) -> Longs:
        """The clock at each element: its arrival, or for a folded element the slice's start."""
        return np.maximum(arrivals, self.timeline.from_ms)

    def times(self, rows: pa.Table, clocks: Longs) -> Longs:
        """The time by which each element is assigned to windows."""
        return clocks if self.passes_with_clock else rows.column(EVENT).to_numpy()

    def watermarks(self, rows: pa.Table, clocks: Longs) -> Longs:
        """The watermark in force at each element; the clock's where windows pass with it."""
        if self.passes_with_clock:
            return clocks - 1
        if isinstance(self.timeline, CarriedTimeline):
            return self.timeline.watermarks_of(self.pipeline, rows)
        return self.timeline.at_arrival(clocks)


class BatchElements(NamedTuple):
    """The elements of one batch: its usable rows. The arrays are int64[n].

    Attributes:
        rows: the source's columns that the pipeline reads and, as int64, `__arrival_ms` and `__event_ms`.
        keys: the number of each row's key.
        times: the times by which they are assigned to windows: event times, or the clock.
        clocks, watermarks: the clock when the row is processed, and the watermark in force then.
        read_full_rows: reads all source columns for rows at ascending positions; None where `rows` has all.
    """

    rows: pa.Table
    keys: Longs
    times: Longs
    clocks: Longs
    watermarks: Longs
    read_full_rows: Callable[[Longs], pa.Table] | None = None

    @classmethod
    def of(
        cls,
        rows: pa.Table,
        keys: Longs,
        setting: Setting,
        read_full_rows: Callable[[Longs], pa.Table] | None = None,
    ) -> "BatchElements":
        clocks = setting.clocks(rows.column(ARRIVAL).to_numpy())
        return cls(
            rows=rows,
            keys=keys,
            times=setting.times(rows, clocks),
            clocks=clocks,
            watermarks=setting.watermarks(rows, clocks),
            read_full_rows=read_full_rows,
        )

    def full_rows(self, positions: Longs) -> pa.Table:
        if self.read_full_rows is None or not len(positions):
            return self.rows.take(pa.array(positions))
        times = self.rows.select([ARRIVAL, EVENT]).take(pa.array(positions))
        rows = self.read_full_rows(positions)
        return rows.append_column(ARRIVAL, times.column(ARRIVAL)).append_column(EVENT, times.column(EVENT))


class Part(NamedTuple):
    """Rows of one kind that travel from map tasks to ranges, with the number of each row's key."""

    keys: Longs
    rows: pa.Table


class LateRows(NamedTuple):
    """Elements that no window took.

    Attributes:
        positions: int64[n], the place of each among the rows of its batch, or of its part.
        watermarks: int64[n], in force when each was processed.
        owners, starts, ends: int64[m], for each (late row, missed window) the row's place in `positions` and
            the window's bounds, in the assigner's order.
    """

    positions: Longs
    watermarks: Longs
    owners: Longs
    starts: Longs
    ends: Longs


@dataclass
class Split:
    """The result of splitting one batch: parts by name, late elements, and counts for the ledger."""

    parts: dict[str, Part] = field(default_factory=dict)
    late: LateRows | None = None
    counts: dict[str, int] = field(default_factory=dict)


class RangeInput(NamedTuple):
    """The kernel's input from all parts of a range. `doubtful_places` are the elements' places in the part
    DOUBTFUL; -1 for an element of another part.
    """

    slice_input: SliceInput[ArrowAccumulators]
    doubtful_places: Longs


class Family(Protocol):
    """A family of windows. It travels to executors and holds no state."""

    @property
    def setting(self) -> Setting: ...

    @property
    def trigger_state(self) -> StateDescriptor | None:
        """The trigger's state of a window, as the snapshot names it; None for triggers without state."""

    def split(self, elements: BatchElements) -> Split:
        """Map side: decide which elements are late, and aggregate those whose order does not matter. The
        split of a batch without rows has every part.
        """

    def receive(self, parts: Mapping[str, Part]) -> RangeInput:
        """Range side: the kernel's input from the parts of all batches; keys are numbered as in snapshots."""

    def replay(self, slice_input: SliceInput[A], initial_state: WindowState[A]) -> SliceResult[A]: ...


def accumulator_names(setting: Setting) -> list[list[str]]:
    """The names under which the columns of each aggregate's accumulators travel."""
    return [
        [f"{number}_{name}" for name, _ in aggregate.columns]
        for number, aggregate in enumerate(setting.aggregates)
    ]


def read_accumulators(rows: pa.Table, setting: Setting) -> ArrowAccumulators:
    columns = ([rows.column(name).combine_chunks() for name in names] for names in accumulator_names(setting))
    return ArrowAccumulators.of(setting.aggregates, columns, rows.num_rows)


def elements_in_order(setting: Setting, part: Part) -> tuple[Elements, pa.Table]:
    """(elements, their rows) of a part in processing order, see `slackwater.engine.rows.element_order`."""
    rows = in_order(setting.pipeline, part.rows.append_column(KEY_NUMBER, pa.array(part.keys)))
    clocks = setting.clocks(rows.column(ARRIVAL).to_numpy())
    elements = Elements(
        keys=np.asarray(rows.column(KEY_NUMBER)),
        times=setting.times(rows, clocks),
        clocks=clocks,
        watermarks=setting.watermarks(rows, clocks),
    )
    return elements, rows
