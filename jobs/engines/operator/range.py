"""One key-group range of one slice: its share of the parent's snapshot is restored, its elements are
replayed, and the rows handed over.

Elements come sorted by arrival. What runs, windows or a process function, the files beside this one say.
Nothing is committed here.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Final, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.engines.operator.elements import OperatorElements, element_class
from slackwater.jobs.engines.operator.emitted_rows import EmittedRowError, side_outputs_of
from slackwater.jobs.engines.operator.failed_rows import failed_rows, function_raised
from slackwater.jobs.engines.operator.firing import side_rows
from slackwater.jobs.engines.operator.garbage import collector_resting, objects_set_aside
from slackwater.jobs.engines.replaying.replay import Replay
from slackwater.jobs.engines.replaying.results import (
    conform,
    counts_table,
    hand_over,
    hand_over_quarantine_rows,
    hashes_table,
)
from slackwater.jobs.engines.replaying.snapshot_rows import restored_rows
from slackwater.jobs.engines.replaying.spilling import Spilling
from slackwater.jobs.engines.rows.columns_read import ARRIVAL, EVENT
from slackwater.jobs.engines.rows.keys import Keys
from slackwater.jobs.tables.schemas import side_table, table_schemas
from slackwater.windowing.errors import PROCESSING_ELEMENT, UserCodeError
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from slackwater.windowing.runtime.slice_runner import SliceRunner
from slackwater.windowing.runtime.window_log import SideRow
from slackwater.windowing.snapshot import ContentHash, SnapshotCodec, SnapshotTables

Runner = TypeVar("Runner", bound=SliceRunner)

BETWEEN_LOOKS: Final = 1000


class RangeWork(ABC, Generic[Runner]):
    """What range `number` restores, replays and stages. `rows` are those of its key groups in order of
    arrival.

    Attributes:
        element: the named tuple that an element is; None when row numbers do.
        elements: the elements.
        schemas: of the pipeline's tables.
        runner: the operator of the range, from when the range is run.
    """

    def __init__(self, replay: Replay, keys: Keys, number: int, rows: pa.Table) -> None:
        self.replay = replay
        self.pipeline = replay.pipeline
        self.keys = keys
        self.number = number
        source = replay.scan.source.schema
        self.element = element_class(self.pipeline, source)
        self.elements = self.make_elements(rows)
        self.schemas = table_schemas(replay.shape)
        self.key_groups = keys.range(number, replay.ranges)
        self.order_mode = OrderMode(self.pipeline.order_mode)
        self.codec = self.make_codec()
        self.runner: Runner

    def make_elements(self, rows: pa.Table) -> OperatorElements:
        """The elements that stand in `rows`."""
        return OperatorElements(self.pipeline, rows, self.element)

    @abstractmethod
    def make_codec(self) -> SnapshotCodec:
        """How what the operator remembers stands in the tables."""

    @abstractmethod
    def make_runner(self, storage: OperatorStorage) -> Runner:
        """The operator of the range, at the start of the slice, with state and timers in `storage`."""

    @abstractmethod
    def emitted(self) -> pa.Table:
        """Rows of `panes`: what the operator has emitted."""

    @abstractmethod
    def late(self) -> pa.Table:
        """Rows of `late_events`."""

    def run(self) -> Iterator[pa.Table]:
        """The rows, hashes and counts of the range, marked with what they are."""
        parked = SnapshotTables(*map(self._parked, SnapshotTables._fields))
        with closing(
            Spilling(self.replay.state_memory_mb, self.order_mode, sum(rows.nbytes for rows in parked))
        ) as spilling:
            runner = self.runner = self.make_runner(spilling.storage)
            with closing(runner):
                with collector_resting():
                    self._restore(parked, spilling)
                    del parked
                # Where no function of a user runs, nothing makes cycles.
                with (
                    collector_resting()
                    if self.pipeline.select and self.element is None
                    else objects_set_aside()
                ):
                    self._feed_all(spilling)
                    runner.finish(self.replay.scan.to_ms)
                with collector_resting():
                    output, counts = {"panes": self.emitted(), **self._sides()}, runner.counts()
                state_hash = ContentHash()
                # Of a state that is too large for memory one part at a time is there as objects and as
                # columns.
                to = replace(self.replay, file_rows=1) if spilling.is_spilled else self.replay
                for part in spilling.parts(self.key_groups):
                    with collector_resting():
                        state = self.codec.to_tables(runner.snapshot(part))._asdict()
                        self._add(state_hash, state)
                    yield from self._handed_over(to, state)
        yield from self._handed_over(self.replay, {**output, "late_events": self.late()})
        if runner.failed_elements:
            failed = failed_rows(self.pipeline, runner.failed_elements, self.elements.rows)
            yield hand_over_quarantine_rows(self.replay, self.number, failed, "failed")
        output_hash = ContentHash()
        self._add(output_hash, output)
        yield hashes_table(output_hash, state_hash)
        yield counts_table({**counts, **runner.assignments(), **self._read()})

    def _handed_over(self, to: Replay, tables: dict[str, pa.Table]) -> Iterator[pa.Table]:
        for name, rows in tables.items():
            if rows.num_rows:
                yield hand_over(to, self.number, name, rows, self.schemas[name])

    def _restore(self, parked: SnapshotTables, spilling: Spilling) -> None:
        """Give the operator what the parent has parked."""
        for part in spilling.parts(self.key_groups):
            is_of_part = (pc.field("key_group") >= part.first) & (pc.field("key_group") <= part.last)
            self.runner.restore(
                self.codec.from_tables(SnapshotTables(*(rows.filter(is_of_part) for rows in parked)))
            )

    def _sides(self) -> dict[str, pa.Table]:
        """The rows of each side output, by its table."""
        sides: dict[str, list[SideRow]] = {tag: [] for tag in self.pipeline.sides}
        for row in self.runner.side_rows:
            if row.tag not in sides:
                names = ", ".join(map(repr, sides)) or "none"
                raise EmittedRowError(
                    f"a function wrote to the side output {row.tag!r} (key {row.key!r}, window "
                    f"{row.window!r}); declared: {names}. Add it "
                    "to side_outputs.",
                    key=row.key,
                    window=row.window,
                )
            sides[row.tag].append(row)
        columns = side_outputs_of(self.pipeline)
        return {side_table(tag): side_rows(rows, self.keys, columns[tag]) for tag, rows in sides.items()}

    def _add(self, total: ContentHash, tables: dict[str, pa.Table]) -> None:
        for name, rows in tables.items():
            total.add(name, conform(rows, self.schemas[name]), without=("run_id",))

    def _read(self) -> dict[str, int]:
        folded = np.count_nonzero(self.elements.rows.column(ARRIVAL).to_numpy() < self.replay.scan.from_ms)
        return {"rows_read": self.elements.rows.num_rows, "rows_folded": int(folded)}

    def _feed_all(self, spilling: Spilling) -> None:
        try:
            self.feed(spilling)
        except UserCodeError as error:
            if error.during != PROCESSING_ELEMENT:
                raise
            raise function_raised(
                self.pipeline, error, self.elements.at([self.runner.elements_processed])
            ) from error

    def feed(self, spilling: Spilling) -> None:
        """Elements in order of arrival; those folded from before the slice come first, at its start."""
        from_ms, rows = self.replay.scan.from_ms, self.elements.rows
        times = rows.column(EVENT).to_pylist(), rows.column(ARRIVAL).to_pylist()
        process = self.runner.process_element
        elements = zip(self.keys.values(rows), self.elements.values(), *times, strict=True)
        while several := list(islice(elements, BETWEEN_LOOKS)):
            for key, value, timestamp, arrival in several:
                process(key, value, timestamp, max(arrival, from_ms))
            spilling.look(self.runner)

    def _parked(self, name: str) -> pa.Table:
        """This range's rows of the parent's snapshot; row groups of other key groups are not read."""
        schema = pa.schema([field for field in self.schemas[name] if field.name != "run_id"])
        return restored_rows(self.replay, name, schema, self.key_groups)
