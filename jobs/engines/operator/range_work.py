"""One key-group range of one slice: its share of the parent's snapshot is restored, its elements are replayed, and the rows handed over.

Elements come sorted by arrival; a `KeyGroupRunner` does the windows' work. Nothing is committed here.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jobs.engines.accumulators import Accumulator, SelectFunction, bind_select
from jobs.engines.keys import Keys
from jobs.engines.operator.elements import Elements, element_class
from jobs.engines.operator.emitted_rows import EmittedRowError, output_of, side_outputs_of
from jobs.engines.operator.fired_rows import late_rows, pane_rows, side_rows
from jobs.engines.parked import codec_of
from jobs.engines.refires import thinned
from jobs.engines.replay import Replay
from jobs.engines.results import conform, counted, hand_over, hashed
from jobs.engines.rows import ARRIVAL, EVENT
from jobs.pipelines.windows import window_config
from jobs.tables.delta import filesystem
from jobs.tables.schemas import side_table, table_schemas
from windowing.order_modes import OrderMode
from windowing.runtime.key_group_runner import KeyGroupRunner
from windowing.runtime.window_log import SideRow
from windowing.state.snapshot import ContentHash, SnapshotTables


class RangeWork:
    """What range `number` restores, replays and stages. `rows` are those of its key groups in order of arrival."""

    def __init__(self, replay: Replay, keys: Keys, number: int, rows: pa.Table) -> None:
        self.replay = replay
        self.pipeline = replay.pipeline
        self.keys = keys
        self.number = number
        source = replay.scan.source.schema
        kind = element_class(self.pipeline, source)
        self.elements = Elements(self.pipeline, rows, kind)
        self.accumulators: list[Accumulator] = list(bind_select(self.pipeline, {field.name: field.type for field in source}).values())
        self.schemas = table_schemas(replay.shape)
        self.config = window_config(self.pipeline, keys.type, self._select())
        self.codec = codec_of(self.pipeline, keys, replay.shape, self.accumulators, self.config, kind)

    def run(self) -> Iterator[pa.Table]:
        """The rows, hashes and counts of the range, marked with what they are."""
        runner = self._runner()
        try:
            runner.restore(self.codec.from_tables(SnapshotTables(*map(self._parked, SnapshotTables._fields))))
            self._feed(runner)
            runner.finish(self.replay.scan.to_ms)
            output, state = self._output(runner), self.codec.to_tables(runner.snapshot())._asdict()
        finally:
            runner.close()
        late = late_rows(runner.late_elements, self.elements.rows, self.replay.shape, self.schemas["late_events"])
        for name, rows in (*output.items(), *state.items(), ("late_events", late)):
            if rows.num_rows:
                yield hand_over(self.replay, self.number, name, rows, self.schemas[name])
        yield hashed(self._hash(output), self._hash(state))
        yield counted({**runner.counts(), **self._read()})

    def _output(self, runner: KeyGroupRunner) -> dict[str, pa.Table]:
        """The panes and side outputs."""
        sides: dict[str, list[SideRow]] = {tag: [] for tag in self.pipeline.sides}
        for row in runner.side_rows:
            if row.tag not in sides:
                known = ", ".join(map(repr, sides)) or "none"
                raise EmittedRowError(
                    f"a function wrote to the side output {row.tag!r} (key {row.key!r}, window {row.window!r}); declared: {known}. Add it "
                    "to side_outputs.",
                    key=row.key,
                    window=row.window,
                )
            sides[row.tag].append(row)
        columns = side_outputs_of(self.pipeline)
        return {
            "panes": thinned(pane_rows(runner.panes, self.keys, self.replay.shape, output_of(self.pipeline)), self.pipeline),
            **{side_table(tag): side_rows(rows, self.keys, columns[tag]) for tag, rows in sides.items()},
        }

    def _hash(self, tables: dict[str, pa.Table]) -> ContentHash:
        total = ContentHash()
        for name, rows in tables.items():
            total.add(name, conform(rows, self.schemas[name]), without=("run_id",))
        return total

    def _read(self) -> dict[str, int]:
        folded = np.count_nonzero(self.elements.rows.column(ARRIVAL).to_numpy() < self.replay.scan.from_ms)
        return {"rows_read": self.elements.rows.num_rows, "rows_folded": int(folded)}

    def _select(self) -> SelectFunction:
        return SelectFunction(self.accumulators, self.elements.operands)

    def _runner(self) -> KeyGroupRunner:
        return KeyGroupRunner(
            self.config,
            key_groups=self.keys.range(self.number, self.replay.ranges),
            max_parallelism=self.keys.max_parallelism,
            order_mode=OrderMode(self.pipeline.order_mode),
            timeline=self.replay.timeline,
            from_ms=self.replay.scan.from_ms,
        )

    def _feed(self, runner: KeyGroupRunner) -> None:
        """Elements in order of arrival; those folded from before the slice come first, at its start."""
        from_ms, rows = self.replay.scan.from_ms, self.elements.rows
        times = rows.column(EVENT).to_pylist(), rows.column(ARRIVAL).to_pylist()
        for key, value, timestamp, arrival in zip(self.keys.values(rows), self.elements.values(), *times, strict=True):
            runner.process_element(key, value, timestamp, max(arrival, from_ms))

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
