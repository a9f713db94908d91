"""The operator engine: windows run element by element, for everything that the core can do.

Map tasks judge rows and send them to their key-group range; a range task sorts its elements by arrival, restores its share of the parent's
snapshot, lets a `KeyGroupRunner` replay them, and turns what that gave into rows of our tables.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jobs.engines.accumulators import Accumulator, SelectFunction, bind
from jobs.engines.keys import Keys
from jobs.engines.parked import codec_of
from jobs.engines.python_values import to_arrow, to_python
from jobs.engines.replay import Outcome, Replay
from jobs.engines.rows import ARRIVAL, EVENT, KEY_GROUP, Judge, in_order
from jobs.engines.transport import Batches, Transport
from jobs.tables.delta import WrittenFile, filesystem
from jobs.tables.schemas import table_schemas
from jobs.tables.staging import write_staged
from windowing.java import LONG_MAX, LONG_MIN
from windowing.order_modes import OrderMode
from windowing.runtime.key_group_runner import KeyGroupRunner
from windowing.runtime.window_log import LateElement, Pane
from windowing.runtime.window_operator_builder import WindowOperatorBuilder
from windowing.runtime.window_operator_config import WindowOperatorConfig
from windowing.state.snapshot import ContentHash, SnapshotTables, bounds, times

_NAME = b"slackwater.table"
_ELEMENTS = "elements"
_HASHED = {"panes": "output", "window_state": "state", "keyed_state": "state", "timers": "state"}
_FILES = pa.schema(
    [
        ("table", pa.string()),
        ("path", pa.string()),
        ("partition", pa.map_(pa.string(), pa.string())),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("statistics", pa.string()),
    ]
)
COUNTS = (
    "rows_read",
    "rows_filtered",
    "rows_accepted",
    "rows_late",
    "rows_unassigned",
    "rows_quarantined",
    "rows_folded",
    "assignments_missed",
    "elements_never_fired",
    "windows_opened",
    "windows_fired",
    "windows_refired",
    "windows_merged",
    "windows_cleaned",
    "windows_open",
    "timers_pending",
)


class OperatorEngine:
    """Exact for every pipeline."""

    name = "operator"

    def replay(self, replay: Replay, transport: Transport) -> Outcome:
        judge = Judge(replay.pipeline, replay.scan.from_ms, replay.scan.to_ms, replay.scan.start_ms)
        keys = Keys.of(replay.pipeline, replay.scan.source.schema)
        results = transport.shuffle(replay.scan, MapElements(judge, keys, replay.ranges), replay.ranges, ReplayRange(replay, keys))
        outcome = Outcome(counts=dict.fromkeys(COUNTS, 0))
        for table in results:
            self._collect(outcome, name_of(table), table)
        return outcome

    def _collect(self, outcome: Outcome, name: str, table: pa.Table) -> None:
        if name == "counts":
            for count, value in zip(table.column("name").to_pylist(), table.column("value").to_pylist(), strict=True):
                outcome.counts[count] += value
        elif name == "hashes":
            for kind, text in zip(table.column("kind").to_pylist(), table.column("hash").to_pylist(), strict=True):
                (outcome.output_hash if kind == "output" else outcome.state_hash).merge(ContentHash.parse(text))
        elif name == "files":
            for row in table.to_pylist():
                table_name = row.pop("table")
                outcome.files.setdefault(table_name, []).append(WrittenFile(**{**row, "partition": dict(row["partition"])}))
        else:
            outcome.rows.setdefault(name, []).append(table.replace_schema_metadata(None))


def named(name: str, table: pa.Table) -> pa.Table:
    """`table`, marked with what it is; the mark travels with it."""
    return table.replace_schema_metadata({_NAME: name.encode()})


def name_of(table: pa.Table) -> str:
    """The mark that `named` left."""
    return bytes(table.schema.metadata[_NAME]).decode()


@dataclass(frozen=True)
class MapElements:
    """Map task: judge the rows of the slice; send elements to the range of their key group, and quarantined rows along to range 0."""

    judge: Judge
    keys: Keys
    ranges: int

    def __call__(self, batches: Batches) -> Iterator[tuple[int, pa.Table]]:
        for batch in batches:
            prepared = self.judge.prepare(batch)
            if prepared.quarantined.num_rows:
                yield 0, named("quarantine", prepared.quarantined)
            elements = prepared.elements
            if not elements.num_rows:
                continue
            groups = self.keys.groups(elements)
            elements = elements.append_column(KEY_GROUP, pa.array(groups, pa.int32()))
            numbers = pa.array([self.keys.range_of(group, self.ranges) for group in groups], pa.int32())
            for number in pc.unique(numbers).to_pylist():
                yield number, named(_ELEMENTS, elements.filter(pc.equal(numbers, number)))


@dataclass(frozen=True)
class ReplayRange:
    """Range task: replay the elements of one key-group range."""

    replay: Replay
    keys: Keys

    def __call__(self, number: int, received: list[pa.Table]) -> Iterable[pa.Table]:
        quarantined = [table for table in received if name_of(table) == "quarantine"]
        elements = [table.replace_schema_metadata(None) for table in received if name_of(table) == _ELEMENTS]
        work = _RangeWork(self.replay, self.keys, number, in_order(self.replay.pipeline, pa.concat_tables(elements)) if elements else None)
        yield from quarantined
        yield from work.run()
        lost = sum(table.num_rows for table in quarantined)
        folded = sum(self._folded(table.column("arrival_time")) for table in quarantined)
        yield _counts({"rows_read": lost, "rows_quarantined": lost, "rows_folded": folded})

    def _folded(self, arrivals: pa.ChunkedArray) -> int:
        """How many of these arrivals lie before the slice."""
        earlier = pc.less(arrivals, pa.scalar(self.replay.scan.from_ms * 1000, pa.int64()).cast(arrivals.type))
        return int(pc.sum(earlier).as_py() or 0)


def _counts(counts: dict[str, int]) -> pa.Table:
    return named("counts", pa.table({"name": list(counts), "value": pa.array(list(counts.values()), pa.int64())}))


def _watermarks(values: Iterable[int]) -> pa.Array:
    """As times; null before the first watermark, and for the final one."""
    return times([None if watermark in (LONG_MIN, LONG_MAX) else watermark for watermark in values], "watermark")


class _RangeWork:
    """One range of one slice: what it restores, replays and stages."""

    def __init__(self, replay: Replay, keys: Keys, number: int, elements: pa.Table | None) -> None:
        self.replay = replay
        self.pipeline = replay.pipeline
        self.keys = keys
        self.number = number
        self.elements = elements
        types = {field.name: field.type for field in replay.scan.source.schema}
        self.accumulators: list[Accumulator] = [bind(name, item, types) for name, item in self.pipeline.select.items()]
        self.schemas = table_schemas(replay.shape)
        self.order_mode = OrderMode(self.pipeline.order_mode)
        self.config = self._operator_config()
        self.codec = codec_of(keys, replay.shape.parts, self.accumulators, self.config, self.order_mode)

    def run(self) -> Iterator[pa.Table]:
        runner = self._runner()
        if self.elements is not None:
            self._feed(runner, self.elements)
        runner.finish(self.replay.scan.to_ms)
        tables = {"panes": self._panes(runner.panes), **self.codec.to_tables(runner.snapshot())._asdict()}
        hashes = {"output": ContentHash(), "state": ContentHash()}
        for name, rows in tables.items():
            hashes[_HASHED[name]].add(name, self._conform(name, rows), without=("run_id",))
        tables["late_events"] = self._late_events(runner.late_elements)
        for name, rows in tables.items():
            if rows.num_rows:
                yield self._hand_over(name, rows)
        yield named("hashes", pa.table({"kind": list(hashes), "hash": [str(item) for item in hashes.values()]}))
        yield _counts({**runner.counts(), **self._read()})

    def _read(self) -> dict[str, int]:
        if self.elements is None:
            return {}
        folded = np.count_nonzero(self.elements.column(ARRIVAL).to_numpy() < self.replay.scan.from_ms)
        return {"rows_read": self.elements.num_rows, "rows_folded": int(folded)}

    def _operator_config(self) -> WindowOperatorConfig:
        columns = [self._values(item.column) for item in self.pipeline.select.values()]
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

    def _values(self, column: str | None) -> list[Any] | None:
        if column is None:
            return None
        return [] if self.elements is None else to_python(self.elements.column(column))

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

    def _panes(self, panes: Sequence[Pane]) -> pa.Table:
        start, end = bounds(pane.window for pane in panes)
        nothing = (None,) * len(self.accumulators)  # a withdrawal has no results
        results = list(zip(*(pane.result or nothing for pane in panes), strict=True)) or [()] * len(self.accumulators)
        return pa.table(
            {
                "key_group": pa.array(self.keys.groups_of([pane.key for pane in panes]), pa.int32()),
                **dict(self.keys.arrays([pane.key for pane in panes])),
                "window_start": start,
                "window_end": end,
                "firing": pa.array([pane.firing for pane in panes], pa.int64()),
                "ordinal": pa.array([pane.ordinal for pane in panes], pa.int64()),
                "kind": pa.array([pane.kind for pane in panes], pa.string()),
                **{name: to_arrow(values, kind) for (name, kind), values in zip(self.replay.shape.results, results, strict=True)},
                "elements": pa.array([pane.elements for pane in panes], pa.int64()),
                "watermark": _watermarks(pane.watermark for pane in panes),
                "tick_end": times([pane.tick_end for pane in panes], "tick_end"),
                "cause_arrival": times([pane.cause_arrival for pane in panes], "cause_arrival"),
            }
        )

    def _late_events(self, late: Sequence[LateElement]) -> pa.Table:
        if self.elements is None or not late:
            return self.schemas["late_events"].empty_table().drop_columns(["run_id"])
        rows = self.elements.take(pa.array([item.value for item in late]))
        names = [name for name, _ in self.replay.shape.source]
        kept = {name: rows.column(name) for name in names}
        kept["key_group"] = rows.column(KEY_GROUP)
        kept["event_time"] = times(rows.column(EVENT).to_pylist(), "event_time")
        kept["arrival_time"] = times(rows.column(ARRIVAL).to_pylist(), "arrival_time")
        kept["windows"] = self._missed(late)
        kept["late_by_ms"] = pa.array([item.watermark - item.timestamp for item in late], pa.int64())
        kept["watermark"] = _watermarks(item.watermark for item in late)
        wanted = [field.name for field in self.schemas["late_events"] if field.name != "run_id"]
        return pa.table({name: kept[name] for name in wanted})

    def _missed(self, late: Sequence[LateElement]) -> pa.Array:
        start, end = bounds(window for item in late for window in item.windows)
        offsets = [0]
        for item in late:
            offsets.append(offsets[-1] + len(item.windows))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.StructArray.from_arrays([start, end], names=["start", "end"]))

    def _conform(self, name: str, rows: pa.Table) -> pa.Table:
        """`rows` with every column of the table but run_id, in its order, so that a hash covers what a reader sees."""
        schema = self.schemas[name]
        columns = {
            field.name: rows.column(field.name).cast(field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
            for field in schema
            if field.name != "run_id"
        }
        return pa.table(columns)

    def _hand_over(self, name: str, rows: pa.Table) -> pa.Table:
        """Few rows go to the driver, many stay here as a file of the table."""
        if rows.num_rows < self.replay.file_rows:
            return named(name, rows)
        run_id, uri = self.replay.run_id, self.replay.folders[name]
        written = write_staged(uri, run_id, f"range-{self.number:05d}", self._conform(name, rows))
        columns = [{"table": name, **vars(written)}]
        columns[0]["partition"] = list(written.partition.items())
        return named("files", pa.Table.from_pylist(columns, schema=_FILES))
