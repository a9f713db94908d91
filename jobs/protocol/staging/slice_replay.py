"""The replay of one slice from pinned inputs. A run stages its results, `verify` compares them with those of
the run, and a redrive uses its timeline alone.

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
from slackwater.jobs.tables.ledger.overrides import Override, count_honoured_by, count_to_honour
from slackwater.jobs.tables.ledger.reader import LedgerReader
from slackwater.jobs.tables.ledger.rows import Input, LedgerRow
from slackwater.jobs.tables.run_files.snapshots import require_as_recorded
from slackwater.jobs.tables.run_files.staging import count_staged, read_staged
from slackwater.jobs.tables.schemas import Shape, staged_tables
from slackwater.jobs.tables.warehouse import Tables, Warehouse
from slackwater.windowing.columnar.timeline.timeline import Timeline
from slackwater.windowing.times import to_datetime
from slackwater.windowing.times import to_ms as to_ms_of


def how_to_restate_all(pipeline: str, start_ms: int, end_ms: int) -> str:
    """The next step where the source was replaced by another table and main has run [start, end)."""
    return (
        f"Restate everything from the table that is there: `slackwater backfill {pipeline} --from "
        f"{iso(start_ms)} --to {iso(end_ms)}`."
    )


def how_to_restate_or_adopt(pipeline: str, start_ms: int, end_ms: int) -> str:
    """As `how_to_restate_all`, and the next step if the other table holds the same rows."""
    return (
        f"{how_to_restate_all(pipeline, start_ms, end_ms)} Or, if it holds the same rows, say so: "
        f"`slackwater state adopt {pipeline}` compares them and records it."
    )


class SourceChanged(UsageError):
    """The pipeline reads another table than its lineage so far."""


@dataclass(frozen=True)
class Pins:
    """The versions that a slice is replayed from. Two replays with equal pins and equal parents leave equal
    rows.

    Attributes:
        source: the source as the slice reads it.
        before: the source as the parent run has read it; None at the start of a lineage.
        newer_reads: the slices that live runs have read at newer versions than `before`.
        overrides: the changed arrivals that the slice honours: the first few of all that were ever recorded.
    """

    source: PinnedSource
    before: PinnedSource | None
    newer_reads: tuple[ReadRange, ...] = ()
    overrides: tuple[Override, ...] = ()

    @classmethod
    def newest(
        cls,
        pipeline: Pipeline,
        warehouse: Warehouse,
        *,
        owner: LedgerRow | None,
        from_ms: int,
        newer_reads: tuple[ReadRange, ...],
        overrides: Sequence[Override],
        honoured_count: int,
        ledger: LedgerReader,
    ) -> "Pins":
        """The newest version of the source, for a slice that starts at `from_ms` on the snapshot of `owner`,
        in a lineage that has honoured the first `honoured_count` of all `overrides`.

        Raises:
            SourceChanged: the parent has read another table.
            SourceReplaced: the parent has read a table that is not there any more.
            SourceRewritten: rows that runs have read are not there any more.
        """
        uri = warehouse.source(pipeline.source.table)
        owner_input = _input_of(pipeline, () if owner is None else owner.inputs)
        source, before = (
            (pin(pipeline.source, uri), None)
            if owner_input is None
            else pin_both(pipeline.source, uri, owner_input.version, owner_input.table_id)
        )
        source = without_erased(source, pipeline.source.table, ledger)
        newer = () if before is None else tuple(read for read in newer_reads if read.version > before.version)
        if before is not None:
            source.check_kept(before, from_ms, pipeline.source.arrival_time, newer)
        count = count_to_honour(overrides, honoured_count, to_datetime(from_ms))
        return cls(source, before, newer, tuple(overrides[:count]))

    @classmethod
    def of_run(
        cls,
        pipeline: Pipeline,
        warehouse: Warehouse,
        row: LedgerRow,
        *,
        owner: LedgerRow | None,
        newer_reads: tuple[ReadRange, ...],
        overrides: Sequence[Override],
        ledger: LedgerReader,
    ) -> "Pins":
        """The versions that the run `row`, on the snapshot of `owner`, was pinned to.

        Raises:
            SourceChanged: it has read another table than the pipeline declares now.
            VersionGone: a version has been cleaned up.
            SourceReplaced: the table that it has read is not there any more.
        """
        uri = warehouse.source(pipeline.source.table)
        run_input = _input_of(pipeline, row.inputs)
        assert run_input is not None, f"run {row.seq} has no input"
        source = without_erased(
            pin(pipeline.source, uri, run_input.version, run_input.table_id), run_input.table, ledger
        )
        owner_input = _input_of(pipeline, () if owner is None else owner.inputs)
        if owner_input is None:
            before = None
        elif owner_input.version == run_input.version:
            before = source
        else:
            before = pin(pipeline.source, uri, owner_input.version, owner_input.table_id)
        return cls(source, before, newer_reads, tuple(overrides[: count_honoured_by(row)]))


def _input_of(pipeline: Pipeline, inputs: Iterable[Input]) -> Input | None:
    """The item of `inputs` that is of the pipeline's source; None where `inputs` is empty."""
    tables = {item.table: item for item in inputs}
    if not tables:
        return None
    table = pipeline.source.table
    if table not in tables:
        read_table = next(iter(tables))
        raise SourceChanged(
            f"{pipeline.name}: the run before read {read_table}, the pipeline now declares {table}. A "
            "lineage keeps its source: undo the change, or give the pipeline another name (it then starts "
            "a lineage of its own).",
            table=table,
        )
    return tables[table]


@dataclass(frozen=True)
class SliceReplay:
    """A slice and all that its replay depends on.

    Attributes:
        pipeline, shape: the declarations, and the columns of the pipeline's tables.
        tables: the tables that hold the parent's snapshot.
        slice: the range of arrivals.
        start_ms: where the lineage begins.
        owner: the row whose snapshot the slice continues; None at the start of a lineage.
        state: snapshot table → the files of the parent's snapshot, relative to the table's folder.
        pins: the versions of the source and the overrides.
        creates_windows_again: whether windows that an earlier run has collected are created again under a
            greater lateness, as runs of the first format did. See `collected_mark`.
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
        pins, arrival = self.pins, self.pipeline.source.arrival_time
        from_ms, to_ms = self.slice.from_ms, self.slice.to_ms
        overrides = Overrides(
            tuple(
                MovedArrival(row.row_hash, to_ms_of(row.true_arrival), to_ms_of(row.arrival_time))
                for row in pins.overrides
            )
        )
        true_arrivals = overrides.true_arrivals(from_ms, to_ms)
        files = pins.source.files(
            from_ms, to_ms, arrival, pins.before, newer_reads=pins.newer_reads, also=true_arrivals
        )
        return SliceScan(
            source=pins.source,
            files=tuple(files),
            columns=tuple(pins.source.schema.names),
            arrival=arrival,
            from_ms=from_ms,
            to_ms=to_ms,
            start_ms=self.start_ms,
            before=pins.before,
            newer_reads=pins.newer_reads,
            overrides=overrides,
            rows_at_once=rows_at_once(state_memory_mb()),
        )

    def progress(self) -> Progress:
        """The source progress in the parent's snapshot, with the collected mark of the lineage.

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
            return replace(progress, collected_mark=None)
        return replace(progress, collected_mark=mark_of(self.tables, self.pipeline, self.owner, progress))

    def transport(
        self, scan: SliceScan, engine: Engine, transport: Transport, ranges: int | None = None
    ) -> Transport:
        """`transport`, or a transport that replays a slice as small as this one sooner."""
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
        """The rows and files that the slice leaves, source progress included.

        Args:
            scan, timeline, after: as `scan` and `timeline` gave them.
            engine, transport: the engine that runs the windows, and where its tasks run.
            run_id: of the rows.
            ranges: number of key-group ranges; None leaves it to the size of the input.
            scratch: a folder below which tasks write the files of large tables; None: they write into the
                folders of the tables.
        """
        folders = {name: self.tables[name].uri for name in staged_tables(self.shape)}
        outcome = engine.replay(
            Replay(
                pipeline=self.pipeline,
                shape=self.shape,
                scan=scan,
                timeline=timeline,
                state=self.state,
                folders=folders,
                run_id=run_id,
                ranges=self._ranges(scan, engine, transport.slots) if ranges is None else ranges,
                scratch=scratch,
                state_memory_mb=state_memory_mb(),
                parked_windows=self._parked_windows,
            ),
            transport,
        )
        progress = after.to_table(run_id)
        outcome.rows["source_progress"] = [progress]
        outcome.state_hash.add("source_progress", progress, without=("run_id",))
        return outcome

    def inputs(self, scan: SliceScan, rows: int) -> tuple[Input, ...]:
        """The inputs of the slice as the ledger records them; `rows` is how many rows of the source were
        read.
        """
        source, honoured_count = self.pins.source, len(self.pins.overrides)
        source_input = Input(
            table=self.pipeline.source.table,
            table_id=source.table_id,
            version=source.version,
            files=len(scan.files),
            rows=rows,
            bytes=sum(file.bytes for file in scan.files),
        )
        if not honoured_count:
            return (source_input,)
        return (
            source_input,
            Input(table=OVERRIDES, version=honoured_count, files=0, rows=honoured_count, bytes=0),
        )

    def _ranges(self, scan: SliceScan, engine: Engine, slots: int) -> int:
        """The least number of ranges at which the rows, parked windows and remembered rows of each fit its
        task's memory.
        """
        rows = rows_sent(self.pipeline, self.pins.source, scan.files, engine)
        parked_rows = self._parked_windows
        if self.pipeline.distinct_by is not None:
            parked_rows += count_staged(self.tables, "keyed_state", self.state.get("keyed_state", ()))
        return ranges_for(rows + parked_rows, state_memory_mb(), slots, self.pipeline.max_parallelism)

    @property
    def _parked_windows(self) -> int:
        return 0 if self.owner is None else self.owner.windows_open or 0
