"""The replay of one slice from pinned inputs: a run stages its results, `verify` compares them, and a
redrive asks for its watermarks.

Reads the source and the parent's snapshot. Records nothing, and writes only into folders that the caller
names.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from slackwater.jobs.engines.replaying.replay import Engine, Outcome, Replay
from slackwater.jobs.engines.replaying.spilling import state_memory_mb
from slackwater.jobs.engines.replaying.task_memory import ranges_for, rows_at_once, rows_sent
from slackwater.jobs.engines.rows.judge import Judge
from slackwater.jobs.engines.rows.progress import Maxima, Progress, tick_maxima, timeline_of
from slackwater.jobs.engines.source.coverage import ReadRange
from slackwater.jobs.engines.source.overrides import MovedArrival, Overrides
from slackwater.jobs.engines.source.pinned_source import PinnedSource
from slackwater.jobs.engines.source.pinning import pin, pin_both
from slackwater.jobs.engines.source.scan import SliceScan
from slackwater.jobs.engines.transport.in_process import Transport
from slackwater.jobs.errors import UsageError
from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.protocol.staging.collected_mark import mark_of
from slackwater.jobs.protocol.staging.slices import Slice, iso
from slackwater.jobs.protocol.staging.stragglers import without_erased
from slackwater.jobs.tables.ledger.overrides import INPUT as OVERRIDES
from slackwater.jobs.tables.ledger.overrides import Override, honoured, honoured_by
from slackwater.jobs.tables.ledger.reader import LedgerReader
from slackwater.jobs.tables.ledger.rows import Input, LedgerRow
from slackwater.jobs.tables.run_files.snapshots import require_as_recorded
from slackwater.jobs.tables.run_files.staging import read_staged
from slackwater.jobs.tables.schemas import Shape, staged_tables
from slackwater.jobs.tables.warehouse import Tables, Warehouse
from slackwater.windowing.columnar.timeline.timeline import Timeline
from slackwater.windowing.times import to_datetime
from slackwater.windowing.times import to_ms as to_ms_of


def restate_all(pipeline: str, start_ms: int, end_ms: int) -> str:
    """What can be done wherever the source was replaced and main has run [start, end)."""
    return (
        f"Restate everything from the table that is there: `slackwater backfill {pipeline} --from "
        f"{iso(start_ms)} --to {iso(end_ms)}`."
    )


def ways_on(pipeline: str, start_ms: int, end_ms: int) -> str:
    """As `restate_all`, and what can be done if the rows are the same."""
    return (
        f"{restate_all(pipeline, start_ms, end_ms)} Or, if it holds the same rows, say so: `slackwater state "
        f"adopt {pipeline}` compares "
        "them and records it."
    )


class SourceChanged(UsageError):
    """The pipeline reads another table than its lineage so far."""


@dataclass(frozen=True)
class Pins:
    """The versions that a slice is replayed from: two replays with equal pins and equal parents give the
    same.

    Attributes:
        source: the source as the slice reads it.
        before: the source as the parent run has read it; None at the start of a lineage.
        restated: what live runs have read at newer versions than `before`.
        overrides: the changed arrivals that the slice honours, the first of all that were ever made.
    """

    source: PinnedSource
    before: PinnedSource | None
    restated: tuple[ReadRange, ...] = ()
    overrides: tuple[Override, ...] = ()

    @classmethod
    def newest(
        cls,
        pipeline: Pipeline,
        warehouse: Warehouse,
        owner: LedgerRow | None,
        from_ms: int,
        restated: tuple[ReadRange, ...],
        overrides: Sequence[Override],
        known: int,
        ledger: LedgerReader,
    ) -> "Pins":
        """The source as it stands, for a slice that starts at `from_ms` on the snapshot of `owner`, in a
        lineage that has honoured the first `known` of all `overrides`.

        Raises:
            SourceChanged: the parent has read another table.
            SourceReplaced: the parent has read a table that is not there any more.
            SourceRewritten: rows that runs have read are not there any more.
        """
        uri = warehouse.source(pipeline.source.table)
        read = _input_of(pipeline, () if owner is None else owner.inputs)
        source, before = (
            (pin(pipeline.source, uri), None)
            if read is None
            else pin_both(pipeline.source, uri, read.version, read.table_id)
        )
        source = without_erased(source, pipeline.source.table, ledger)
        newer = (
            ()
            if before is None
            else tuple(stretch for stretch in restated if stretch.version > before.version)
        )
        if before is not None:
            source.check_kept(before, from_ms, pipeline.source.arrival_time, newer)
        count = honoured(overrides, known, to_datetime(from_ms))
        return cls(source, before, newer, tuple(overrides[:count]))

    @classmethod
    def recorded(
        cls,
        pipeline: Pipeline,
        warehouse: Warehouse,
        row: LedgerRow,
        owner: LedgerRow | None,
        restated: tuple[ReadRange, ...],
        overrides: Sequence[Override],
        ledger: LedgerReader,
    ) -> "Pins":
        """What the run `row` on the snapshot of `owner` was pinned to.

        Raises:
            SourceChanged: it has read another table than the pipeline declares now.
            VersionGone: a version has been cleaned up.
            SourceReplaced: the table that it has read is not there any more.
        """
        uri = warehouse.source(pipeline.source.table)
        own = _input_of(pipeline, row.inputs)
        assert own is not None, f"run {row.seq} has no input"
        source = without_erased(pin(pipeline.source, uri, own.version, own.table_id), own.table, ledger)
        read = _input_of(pipeline, () if owner is None else owner.inputs)
        is_same = read is not None and read.version == own.version
        before = (
            None
            if read is None
            else source
            if is_same
            else pin(pipeline.source, uri, read.version, read.table_id)
        )
        return cls(source, before, restated, tuple(overrides[: honoured_by(row)]))


def _input_of(pipeline: Pipeline, inputs: Iterable[Input]) -> Input | None:
    """What `inputs` say of the source; None where there are none."""
    tables = {item.table: item for item in inputs}
    if not tables:
        return None
    table = pipeline.source.table
    if table not in tables:
        read_table = next(iter(tables))
        raise SourceChanged(
            f"{pipeline.name}: the run before read {read_table}, the pipeline now declares {table}. A "
            "lineage "
            "keeps its source: undo the "
            "change, or give the pipeline another name (it then starts a lineage of its own).",
            table=table,
        )
    return tables[table]


@dataclass(frozen=True)
class SliceReplay:
    """A slice and all that its replay depends on.

    Attributes:
        pipeline, shape, tables: what is run, and the tables that hold the parent's snapshot.
        slice: the arrivals.
        start_ms: where the lineage begins.
        owner: the row whose snapshot the slice continues; None at the start of a lineage.
        state: snapshot table → the files of the parent's snapshot, relative to the table's folder.
        pins: the versions read.
        creates_windows_again: whether windows that an earlier run has collected are created again under a
            greater lateness, as runs of the first format did.
    """

    pipeline: Pipeline
    shape: Shape
    tables: Tables
    slice: Slice
    start_ms: int
    owner: LedgerRow | None
    state: Mapping[str, tuple[str, ...]]
    pins: Pins
    creates_windows_again: bool = False

    def scan(self) -> SliceScan:
        """The files and rows of the slice."""
        pins, arrival, from_ms, to_ms = (
            self.pins,
            self.pipeline.source.arrival_time,
            self.slice.from_ms,
            self.slice.to_ms,
        )
        overrides = Overrides(
            tuple(
                MovedArrival(row.row_hash, to_ms_of(row.true_arrival), to_ms_of(row.arrival_time))
                for row in pins.overrides
            )
        )
        also = overrides.true_arrivals(from_ms, to_ms)
        files = tuple(
            pins.source.files(from_ms, to_ms, arrival, pins.before, newer_reads=pins.restated, also=also)
        )
        columns = tuple(pins.source.schema.names)
        return SliceScan(
            pins.source,
            files,
            columns,
            arrival,
            from_ms,
            to_ms,
            self.start_ms,
            pins.before,
            pins.restated,
            overrides,
            rows_at_once=rows_at_once(state_memory_mb()),
        )

    def progress(self) -> Progress:
        """What the parent knew of the source, and the collected mark of the lineage.

        Raises:
            DamagedSnapshot: the parent's snapshot is not what its ledger row has recorded.
        """
        if self.owner is None:
            return Progress.none()
        require_as_recorded(self.tables, self.pipeline.name, self.owner, self.state)
        progress = Progress.from_table(
            read_staged(self.tables, "source_progress", self.state["source_progress"])
        )
        if self.creates_windows_again:
            return replace(progress, collected=None)
        return replace(progress, collected=mark_of(self.tables, self.pipeline, self.owner, progress))

    def transport(
        self, scan: SliceScan, engine: Engine, transport: Transport, ranges: int | None = None
    ) -> Transport:
        """`transport`, or what replays a slice as small as this one sooner."""
        if not engine.in_threads:
            return transport
        return transport.for_slice(
            scan, lambda slots: self._ranges(scan, engine, slots) if ranges is None else ranges
        )

    def timeline(
        self, scan: SliceScan, before: Progress, transport: Transport, maxima: Maxima = tick_maxima
    ) -> tuple[Timeline, Progress]:
        """The watermarks of the slice, and the progress after it; see `timeline_of` for `maxima`."""
        return timeline_of(transport, scan, Judge.of(self.pipeline, scan), before, maxima)

    def replay(
        self,
        scan: SliceScan,
        timeline: Timeline,
        after: Progress,
        engine: Engine,
        transport: Transport,
        *,
        run_id: str,
        ranges: int | None = None,
        scratch: str | None = None,
    ) -> Outcome:
        """All that the slice leaves, source progress included. Tasks write large tables as files of the
        tables' folders, or below `scratch`; `ranges` None leaves their number to the size of the input."""
        folders = {name: self.tables[name].uri for name in staged_tables(self.shape)}
        number = self._ranges(scan, engine, transport.slots) if ranges is None else ranges
        outcome = engine.replay(
            Replay(
                self.pipeline,
                self.shape,
                scan,
                timeline,
                self.state,
                folders,
                run_id,
                number,
                scratch=scratch,
                state_memory_mb=state_memory_mb(),
                parked_windows=self._parked,
            ),
            transport,
        )
        progress = after.to_table(run_id)
        outcome.rows["source_progress"] = [progress]
        outcome.state_hash.add("source_progress", progress, without=("run_id",))
        return outcome

    def inputs(self, scan: SliceScan, rows: int) -> tuple[Input, ...]:
        """What the ledger says of the versions read; `rows` is how many rows of the source were."""
        size = sum(file.bytes for file in scan.files)
        source, known = self.pins.source, len(self.pins.overrides)
        read = Input(
            table=self.pipeline.source.table,
            table_id=source.table_id,
            version=source.version,
            files=len(scan.files),
            rows=rows,
            bytes=size,
        )
        return (
            (read, Input(table=OVERRIDES, version=known, files=0, rows=known, bytes=0)) if known else (read,)
        )

    def _ranges(self, scan: SliceScan, engine: Engine, slots: int) -> int:
        """So many ranges that the rows of each, and the windows parked before, fit its task."""
        rows = rows_sent(self.pipeline, self.pins.source, scan.files, engine)
        return ranges_for(rows + self._parked, state_memory_mb(), slots, self.pipeline.max_parallelism)

    @property
    def _parked(self) -> int:
        return 0 if self.owner is None else self.owner.windows_open or 0
