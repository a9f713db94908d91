"""One key-group range of one slice: its share of the parent's snapshot is restored, its elements are replayed, and the rows handed over.

Elements come sorted by arrival; a `KeyGroupRunner` does the windows' work. Nothing is committed here.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jobs.engines.accumulators import Accumulator, SelectFunction, bind_select, operands
from jobs.engines.keys import Keys
from jobs.engines.operator.fired_rows import late_rows, pane_rows
from jobs.engines.parked import codec_of
from jobs.engines.replay import Replay
from jobs.engines.results import conform, counted, hand_over, hashed
from jobs.engines.rows import ARRIVAL, EVENT
from jobs.tables.delta import filesystem
from jobs.tables.schemas import table_schemas
from windowing.order_modes import OrderMode
from windowing.runtime.key_group_runner import KeyGroupRunner
from windowing.runtime.window_operator_builder import WindowOperatorBuilder
from windowing.runtime.window_operator_config import WindowOperatorConfig
from windowing.state.snapshot import ContentHash, SnapshotTables


class RangeWork:
    """What range `number` restores, replays and stages. `elements` are those of its key groups in order of arrival; None for none."""

    def __init__(self, replay: Replay, keys: Keys, number: int, elements: pa.Table | None) -> None:
        self.replay = replay
        self.pipeline = replay.pipeline
        self.keys = keys
        self.number = number
        self.elements = elements
        types = {field.name: field.type for field in replay.scan.source.schema}
        self.accumulators: list[Accumulator] = list(bind_select(self.pipeline, types).values())
        self.schemas = table_schemas(replay.shape)
        self.order_mode = OrderMode(self.pipeline.order_mode)
        self.config = self._operator_config()
        self.codec = codec_of(keys, replay.shape.parts, self.accumulators, self.config, self.order_mode)

    def run(self) -> Iterator[pa.Table]:
        """The rows, hashes and counts of the range, marked with what they are."""
        runner = self._runner()
        if self.elements is not None:
            self._feed(runner, self.elements)
        runner.finish(self.replay.scan.to_ms)
        tables = {"panes": pane_rows(runner.panes, self.keys, self.replay.shape), **self.codec.to_tables(runner.snapshot())._asdict()}
        output, state = ContentHash(), ContentHash()
        for name, rows in tables.items():
            (output if name == "panes" else state).add(name, conform(rows, self.schemas[name]), without=("run_id",))
        if self.elements is not None and runner.late_elements:
            tables["late_events"] = late_rows(runner.late_elements, self.elements, self.replay.shape, self.schemas["late_events"])
        for name, rows in tables.items():
            if rows.num_rows:
                yield hand_over(self.replay, self.number, name, rows, self.schemas[name])
        yield hashed(output, state)
        yield counted({**runner.counts(), **self._read()})

    def _read(self) -> dict[str, int]:
        if self.elements is None:
            return {}
        folded = np.count_nonzero(self.elements.column(ARRIVAL).to_numpy() < self.replay.scan.from_ms)
        return {"rows_read": self.elements.num_rows, "rows_folded": int(folded)}

    def _operator_config(self) -> WindowOperatorConfig:
        columns = [[]] * len(self.accumulators) if self.elements is None else operands(self.pipeline, self.elements)
        builder = WindowOperatorBuilder(self.keys.type, self.pipeline.window).trigger(self.pipeline.effective_trigger)
        return builder.allowed_lateness(self.pipeline.allowed_lateness).aggregate(SelectFunction(self.accumulators, columns))

    def _runner(self) -> KeyGroupRunner:
        runner = KeyGroupRunner(
            self.config,
            key_groups=self.keys.range(self.number, self.replay.ranges),
            max_parallelism=self.keys.max_parallelism,
            order_mode=self.order_mode,
            timeline=self.replay.timeline,
            from_ms=self.replay.scan.from_ms,
        )
        runner.restore(self.codec.from_tables(SnapshotTables(*map(self._parked, SnapshotTables._fields))))
        return runner

    def _feed(self, runner: KeyGroupRunner, elements: pa.Table) -> None:
        """Elements in order of arrival; those folded from before the slice come first, at its start."""
        from_ms = self.replay.scan.from_ms
        rows = zip(self.keys.values(elements), elements.column(EVENT).to_pylist(), elements.column(ARRIVAL).to_pylist(), strict=True)
        for number, (key, timestamp, arrival) in enumerate(rows):
            runner.process_element(key, number, timestamp, max(arrival, from_ms))

    def _parked(self, name: str) -> pa.Table:
        """This range's rows of the parent's snapshot; row groups of other key groups are not read."""
        schema = pa.schema([field for field in self.schemas[name] if field.name != "run_id"])
        owned = self.keys.range(self.number, self.replay.ranges)
        files = filesystem(self.replay.folders[name])
        parts = []
        for path in self.replay.state.get(name, ()):
            with files.open_input_file(path) as data:
                rows = pq.read_table(
                    data, filters=(pc.field("key_group") >= owned.first) & (pc.field("key_group") <= owned.last), use_threads=False
                )
            parts.append(rows.select(schema.names).cast(schema))
        return pa.concat_tables(parts) if parts else schema.empty_table()
