"""The contract between a run and an engine: a `Replay` goes in, an `Outcome` comes out."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from slackwater.engine.replaying.pane_metrics import RowsLateByMark
from slackwater.engine.rows.derived_columns import derived_fields, with_derived_columns
from slackwater.engine.rows.key_ranges import KeyRange
from slackwater.engine.source.scan import SliceScan
from slackwater.engine.transport.in_process import Transport
from slackwater.pipelines import Expectation, Pipeline
from slackwater.tables.delta.written_files import WrittenFile
from slackwater.tables.schemas import Shape
from slackwater.windowing.columnar.timeline.timeline import Timeline
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.snapshot import ContentHash


@dataclass(frozen=True)
class Replay:
    """One slice to replay, and everything that an engine needs for it.

    Attributes:
        shape: the columns of the pipeline's tables.
        state: table → files (relative to that table's folder) of the parent's snapshot.
        state_bounds: (table, file) of it → least and greatest key group in it; a missing file may hold any.
        folders: table → folder of the pipeline's tables.
        run_id: what staged rows carry.
        ranges: number of key ranges, one task each.
        file_rows: a range writes a file from this many rows of a table on; fewer come back as Arrow.
        scratch: a folder below which such files are written instead, by a replay that stages nothing.
        state_memory_mb: memory of one range's state in MB above which it goes to disk or is merged in parts.
        parked_windows: how many windows the parent's snapshot holds.
        added_results: results that the parent's snapshot lacks: they are unknown in its windows.
        order_mode: of recorded traces, the state back end of Flink that they were recorded with.
        expectations: range tasks take metrics of the panes for them; none in a replay that is not validated.
    """

    pipeline: Pipeline
    shape: Shape
    scan: SliceScan
    timeline: Timeline
    state: Mapping[str, tuple[str, ...]]
    folders: Mapping[str, str]
    run_id: str
    ranges: int
    file_rows: int = 50_000
    scratch: str | None = None
    state_memory_mb: int = 1024
    parked_windows: int = 0
    added_results: frozenset[str] = frozenset()
    state_bounds: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    order_mode: OrderMode = OrderMode.ROCKSDB
    expectations: tuple[Expectation, ...] = ()

    def state_files(self, table: str, key_range: KeyRange) -> list[str]:
        """The files of the parent's snapshot that may hold rows of `table` of these keys."""
        return [
            path
            for path in self.state.get(table, ())
            if key_range.overlaps(self._range_of_file(table, path) or key_range)
        ]

    def _range_of_file(self, table: str, path: str) -> KeyRange | None:
        """The keys whose rows a file may hold; None: any."""
        bounds = self.state_bounds.get((table, path))
        return KeyRange.in_name(path) or (None if bounds is None else KeyRange.from_groups(*bounds))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the source, and the derived ones."""
        return with_derived_columns(self.pipeline, self.scan.schema)

    @property
    def element_fields(self) -> list[pa.Field]:
        """The columns that an element has: the scanned and the derived ones."""
        source = self.scan.schema
        return [*(source.field(name) for name in self.scan.columns), *derived_fields(self.pipeline, source)]

    def target(self, table: str) -> str:
        """The folder into which tasks write files of `table`."""
        return self.folders[table] if self.scratch is None else f"{self.scratch}/{table}"


@dataclass
class Outcome:
    """The results of a replay: rows or files by table, counts, and hashes over the logical columns.

    Attributes:
        rows, files: table → rows that came back to the driver, or files that tasks have written.
        pane_metrics: of the panes that each task has handed over, see `pane_metrics`.
        late_by_mark: the late rows that only the collected mark makes late; None for none.
        reason_counts: reason code → rows of `quarantine`.
        counts: names of the ledger's count columns → values.
        assignments: what became of the (element, window) assignments, see `results.ASSIGNMENTS`.
        state_hash, output_hash: over the snapshot tables of the engine, and over the panes.
        rows_by_source: how many rows of each of several sources were read; empty for one source.
        memory_mb: the most that any process has taken while it ran a range task.
        state_s: CPU seconds of all tasks for reading and writing snapshots; 0 if the engine can't tell.
    """

    rows: dict[str, list[pa.Table]] = field(default_factory=dict)
    files: dict[str, list[WrittenFile]] = field(default_factory=dict)
    pane_metrics: list[pa.Table] = field(default_factory=list)
    late_by_mark: RowsLateByMark | None = None
    reason_counts: Counter[str] = field(default_factory=Counter)
    counts: dict[str, int] = field(default_factory=dict)
    assignments: dict[str, int] = field(default_factory=dict)
    state_hash: ContentHash = field(default_factory=ContentHash)
    output_hash: ContentHash = field(default_factory=ContentHash)
    rows_by_source: dict[int, int] = field(default_factory=dict)
    memory_mb: int = 0
    state_s: float = 0.0

    def rows_of_source(self, number: int) -> int:
        """How many rows of a source were read, which is the only one, or one of several."""
        return self.rows_by_source.get(number, 0) if self.rows_by_source else self.counts["rows_read"]


class Engine(Protocol):
    """A way to run windows.

    Attributes:
        name: as the ledger has it.
        aggregates_first: whether its map tasks aggregate, so that fewer rows may reach its ranges than it
            reads.
        in_threads: whether threads of one process may run its tasks, which then hardly hold Python's lock and
            call no function of the user.
    """

    name: str
    aggregates_first: bool
    in_threads: bool

    def replay(self, replay: Replay, transport: Transport) -> Outcome:
        """Replay one slice. Rows, counts and hashes do not depend on the number of ranges and tasks."""
