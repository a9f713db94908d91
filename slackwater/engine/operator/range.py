"""One key range of one slice in the operator engine: its share of the parent's snapshot is restored, its
elements are replayed in order of arrival, and its rows are handed over.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice, repeat
from typing import Any, Final, Generic, TypeVar

import numpy as np
import pyarrow as pa

from slackwater.engine.calls.garbage import collector_resting, collector_waiting, objects_set_aside
from slackwater.engine.operator.elements import OperatorElements, element_class
from slackwater.engine.operator.firing import Owners, failed_rows, function_raised, side_tables
from slackwater.engine.operator.snapshot import parent_snapshot, restore_snapshot, snapshot_tables
from slackwater.engine.replaying.replay import Replay
from slackwater.engine.replaying.results import (
    conform,
    hand_over,
    hand_over_quarantine_rows,
    hashes_table,
    range_counts,
    read_counts,
)
from slackwater.engine.replaying.snapshot_rows import unknown_results
from slackwater.engine.replaying.spilling import Spilling
from slackwater.engine.rows.carried_timeline import CarriedTimeline
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT
from slackwater.engine.rows.keys import Keys
from slackwater.tables.run_files.staging import as_hashed
from slackwater.tables.schemas import table_schemas
from slackwater.windowing.columnar.timeline.timeline import Timeline
from slackwater.windowing.errors import PROCESSING_ELEMENT, UserCodeError
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from slackwater.windowing.runtime.slice_runner import SliceRunner
from slackwater.windowing.runtime.window_log import SideRow
from slackwater.windowing.snapshot import ContentHash, SnapshotCodec, SnapshotTables

_FED_AT_ONCE: Final = 1 << 16

Runner = TypeVar("Runner", bound=SliceRunner)

ElementWithTimes = tuple[Any, Any, int, int]  # key, element, timestamp, arrival

BETWEEN_LOOKS: Final = 1000  # elements between two looks at how large the state is


class RangeWork(ABC, Generic[Runner]):
    """What range `number` restores, replays and stages, on `rows`, the elements of its keys in order of
    arrival. `element_class` is None where row numbers suffice; `unknown_results` are unknown in a parked
    window.
    """

    def __init__(self, replay: Replay, keys: Keys, number: int, rows: pa.Table) -> None:
        self.replay = replay
        self.pipeline = replay.pipeline
        self.keys = keys
        self.owners = Owners.of(self.pipeline, keys)
        self.number = number
        self.rows = rows
        self.element_class = element_class(self.pipeline, replay.schema)
        self.schemas = table_schemas(replay.shape)
        self.key_range = keys.range(number, replay.ranges)
        self.unknown_results = frozenset[str]()
        self.is_spilled = False  # whether parked state is restored to disk

    @property
    def feeds_objects(self) -> bool:
        """Whether the operator takes elements as objects, and not as row numbers."""
        return self.element_class is not None

    @cached_property
    def elements(self) -> OperatorElements:
        return OperatorElements(self.pipeline, self.rows, self.element_class if self.feeds_objects else None)

    @property
    @abstractmethod
    def codec(self) -> SnapshotCodec: ...

    @abstractmethod
    def make_runner(self, storage: OperatorStorage) -> Runner: ...

    @abstractmethod
    def pane_table(self, runner: Runner) -> pa.Table: ...

    @abstractmethod
    def late_table(self, runner: Runner) -> pa.Table: ...

    def call_function(self, runner: Runner) -> None:
        """Call the user's function, if that waits until all windows are decided."""

    def side_rows(self, runner: Runner) -> list[SideRow]:
        return runner.side_rows

    def run(self) -> Iterator[pa.Table]:
        """The rows, hashes and counts of the range, marked with what they are."""
        parent = parent_snapshot(self.replay, self.schemas, self.keys, self.key_range)
        if self.replay.shape.parts:
            self.unknown_results = unknown_results(self.replay, parent.tables.window_state)
        with closing(
            Spilling(
                self.replay.state_memory_mb,
                parked_bytes=parent.bytes,
                element_bytes=self.rows.nbytes,
            )
        ) as spilling:
            self.is_spilled = spilling.is_spilled
            runner = self.make_runner(spilling.storage)
            with closing(runner):
                with collector_resting():
                    restore_snapshot(runner, self.codec, parent, self.keys, spilling.parts(self.key_range))
                    del parent
                with self._collector():
                    self._feed_all(runner, spilling)
                    runner.finish(self.replay.scan.to_ms)
                    self.call_function(runner)
                side_rows = self.side_rows(runner)
                with collector_resting():
                    output = {"panes": self.pane_table(runner)}
                    output |= side_tables(self.pipeline, self.owners, side_rows)
                    late_elements = self.late_table(runner)
                rows_read = read_counts(self.rows, self.replay.scan.from_ms)
                counts = {**runner.counts(), **runner.assignments(), **rows_read, "side_rows": len(side_rows)}
                rows_failed = (
                    failed_rows(self.pipeline, runner.failed_elements, self.rows)
                    if runner.failed_elements
                    else None
                )
                self._forget_elements()
                state_hash = ContentHash()
                for state in _with_collector_resting(self._state_tables(runner, spilling)):
                    self._add_to_hash(state_hash, state)
                    is_large = spilling.is_spilled or state.keys() != set(SnapshotTables._fields)
                    replay = replace(self.replay, file_rows=1) if is_large else self.replay
                    yield from self._hand_over_all(replay, state)
        yield from self._hand_over_all(self.replay, {**output, "late_events": late_elements})
        if rows_failed is not None:
            yield from hand_over_quarantine_rows(self.replay, self.number, rows_failed, "failed")
        output_hash = ContentHash()
        self._add_to_hash(output_hash, output)
        yield hashes_table(output_hash, state_hash)
        yield range_counts(counts)

    @contextmanager
    def _collector(self) -> Iterator[None]:
        """The collector of garbage rests, or waits where a function of a user runs, which may make cycles."""
        if self.pipeline.select and self.element_class is None:
            with collector_resting():
                yield
            return
        with objects_set_aside(), collector_waiting():
            yield

    def _forget_elements(self) -> None:
        self.rows = self.rows.slice(0, 0)
        self.__dict__.pop("elements", None)

    def _state_tables(self, runner: Runner, spilling: Spilling) -> Iterator[dict[str, pa.Table]]:
        """What is to be parked; of large state and long lists only one part is in memory at a time."""
        for part in spilling.parts(self.key_range):
            divides_groups = part.divides_groups and part != self.key_range
            holds_key = self.keys.holder(part) if divides_groups else None
            yield from snapshot_tables(self.replay, self.codec, runner.snapshot(part.key_groups, holds_key))

    def _hand_over_all(self, replay: Replay, tables: dict[str, pa.Table]) -> Iterator[pa.Table]:
        for name, rows in tables.items():
            if rows.num_rows:
                part = f"0{self.key_range.label}"
                yield from hand_over(replay, self.number, name, rows, self.schemas[name], part=part)

    def _add_to_hash(self, total: ContentHash, tables: dict[str, pa.Table]) -> None:
        for name, rows in tables.items():
            total.add(name, as_hashed(name, conform(rows, self.schemas[name])), without=("run_id",))

    def _feed_all(self, runner: Runner, spilling: Spilling) -> None:
        """Feed the elements; an error of the user's function names its element."""
        try:
            self.feed(runner, spilling)
        except UserCodeError as error:
            if error.during != PROCESSING_ELEMENT:
                raise
            raise function_raised(
                self.pipeline, error, self.rows.slice(runner.elements_processed, 1)
            ) from error

    @property
    def timeline_of_ticks(self) -> Timeline:
        """The watermarks that the operator emits itself as the clock passes: none where rows carry them."""
        timeline = self.replay.timeline
        return timeline.without_rises() if isinstance(timeline, CarriedTimeline) else timeline

    def feed(self, runner: Runner, spilling: Spilling) -> None:
        """Feed the elements in order of arrival, folded ones first, as if they arrived at the start."""
        if isinstance(self.replay.timeline, CarriedTimeline):
            self._feed_between_watermarks(runner, spilling, self.replay.timeline)
            return
        elements = self.elements_with_times()
        for _ in range(0, self.rows.num_rows, BETWEEN_LOOKS):
            runner.process_all(islice(elements, BETWEEN_LOOKS))
            spilling.look(runner)

    def _feed_between_watermarks(self, runner: Runner, spilling: Spilling, timeline: CarriedTimeline) -> None:
        """As `feed`, with each watermark in its place between the elements, and those left after the last."""
        rise = 0
        rises = list(zip(timeline.watermarks.tolist(), timeline.tick_ends.tolist(), strict=True))
        numbers_of_rises = timeline.rises_before(self.pipeline, self.rows).tolist()
        elements = zip(self.elements_with_times(), numbers_of_rises, strict=True)
        for _ in range(0, self.rows.num_rows, BETWEEN_LOOKS):
            for element, rises_before in islice(elements, BETWEEN_LOOKS):
                while rise < rises_before:
                    runner.emit_watermark(*rises[rise])
                    rise += 1
                runner.process_element(*element)
            spilling.look(runner)
        for watermark, moment in rises[rise:]:
            runner.emit_watermark(watermark, moment)

    def elements_with_times(self) -> Iterator[ElementWithTimes]:
        """The elements, made as Python's objects a piece at a time. None is taken before it is processed."""
        pieces = map(
            self._piece_with_times, repeat(self.elements.values()), range(0, self.rows.num_rows, _FED_AT_ONCE)
        )
        return chain.from_iterable(pieces)

    def _piece_with_times(self, values: Iterator[Any], start: int) -> Iterator[ElementWithTimes]:
        rows = self.rows.slice(start, _FED_AT_ONCE)
        arrivals = np.maximum(rows.column(ARRIVAL).to_numpy(), self.replay.scan.from_ms).tolist()
        times = rows.column(EVENT).to_numpy().tolist()
        return zip(self.keys.values(rows), islice(values, rows.num_rows), times, arrivals, strict=True)


def _with_collector_resting(tables: Iterator[dict[str, pa.Table]]) -> Iterator[dict[str, pa.Table]]:
    """The same tables, each made while the garbage collector rests."""
    while True:
        with collector_resting():
            state = next(tables, None)
        if state is None:
            return
        yield state
