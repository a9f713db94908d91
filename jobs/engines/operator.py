"""The operator engine: windows run element by element, for everything that the core can do.

Map tasks judge rows and send them to their key-group range; a range task sorts its elements by arrival, restores its share of the parent's
snapshot, lets a `KeyGroupRunner` replay them, and turns what that gave into rows of our tables.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jobs.engines import parked
from jobs.engines.accumulators import Accumulator, SelectFunction, bind
from jobs.engines.content_hash import ContentHash
from jobs.engines.keys import Keys
from jobs.engines.python_values import to_arrow, to_python
from jobs.engines.replay import Outcome, Replay
from jobs.engines.rows import ARRIVAL, EVENT, KEY_GROUP, Judge, in_order
from jobs.engines.transport import Batches, Transport
from jobs.tables.delta import WrittenFile, filesystem, write_file
from jobs.tables.schemas import table_schemas
from windowing.runtime.key_group_runner import KeyGroupRunner, LateElement, Pane

_NAME = b"slackwater.table"
_ELEMENTS = "elements"
_HASHED = {"panes": "output", "window_state": "state", "keyed_state": "state", "timers": "state"}
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
        judge = Judge(replay.pipeline, replay.scan.from_ms, replay.scan.to_ms)
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
        yield _counts({"rows_read": lost, "rows_quarantined": lost})


def _counts(counts: dict[str, int]) -> pa.Table:
    return named("counts", pa.table({"name": list(counts), "value": pa.array(list(counts.values()), pa.int64())}))
