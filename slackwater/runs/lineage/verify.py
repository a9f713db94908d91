"""The verification: replays a recorded run from its pinned inputs, and compares what comes out with the
hashes and counts of the ledger, and, where these differ, with the run's rows.

The engine is the one that the planner takes, and a large run is replayed on Spark, as it was run. Writes into
no table: files that tasks must write stand in a scratch folder, which is removed. Rows are compared by ranges
of key groups, so that memory does not grow with a run.

A recorded run is opened for a replay from its pinned inputs, or refused, where one of them is gone. A redrive
asks such a replay for its watermarks alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import FileType

from slackwater.engine import planner
from slackwater.engine.replaying.replay import Engine, Outcome
from slackwater.engine.rows.progress import Progress, moment
from slackwater.engine.rows.union_columns import PinnedSources
from slackwater.engine.source.pinning import SourceReplaced, VersionGone, pin
from slackwater.engine.source.scan import SliceScan
from slackwater.engine.transport.in_process import Transport
from slackwater.errors import UsageError
from slackwater.pipelines import Pipeline
from slackwater.pipelines.registry import config_hash
from slackwater.runs.lineage.erasure import describe_erasure
from slackwater.runs.lineage.history import horizon_of
from slackwater.runs.publishing.portions import KEY_GROUP, Portion, portions
from slackwater.runs.staging.declarations import Declarations
from slackwater.runs.staging.evolution import as_declared, differences
from slackwater.runs.staging.pins import Pins
from slackwater.runs.staging.shapes import shape_of
from slackwater.runs.staging.slice_replay import FinalReplay, SliceReplay
from slackwater.runs.staging.slices import end_of, slice_of
from slackwater.runs.staging.stragglers import newer_reads_by_source
from slackwater.tables.arrow_values import python_rows
from slackwater.tables.delta.stored_files import StoredFiles, Within
from slackwater.tables.ledger.overrides import OverridesReader
from slackwater.tables.ledger.rows import RUN_KINDS, LedgerRow, RowKind
from slackwater.tables.run_files.snapshots import (
    absent_files,
    is_kept,
    require_kept,
    snapshot_files,
    stored_snapshot,
    written_files,
)
from slackwater.tables.run_files.staging import declaration_of, stack
from slackwater.tables.schemas import COUNTS, SNAPSHOT_TABLES
from slackwater.tables.sql import query
from slackwater.tables.stores import filesystem
from slackwater.tables.warehouse import Tables, Warehouse
from slackwater.windowing.times import to_ms


class CannotRepeat(UsageError):
    """The run can't be repeated: it ran nothing, was declared otherwise, or what it was pinned to is gone."""


def recorded_slice(
    pipeline: Pipeline, warehouse: Warehouse, stored_tables: Tables, row: LedgerRow
) -> SliceReplay:
    """The slice of the run `row`, with its recorded pins and the snapshot that it continued.

    Raises:
        CannotRepeat: it replays nothing, or a version of the source is gone, or the table itself.
        SnapshotGone: with the nearest snapshot that is kept.
    """
    if row.kind not in RUN_KINDS:
        raise CannotRepeat(
            f"{pipeline.name}: row {row.seq} of the ledger is a {row.kind}, which replays nothing.",
            seq=row.seq,
        )
    ledger = stored_tables.ledger
    parent = None if row.parent_seq is None else ledger.row(row.parent_seq)
    owner = None if parent is None else ledger.snapshot_owner(parent)
    if parent is not None and owner is not None and not is_kept(stored_tables, owner):
        require_kept(stored_tables, pipeline.name, owner, ledger.live_runs(parent))
    newer_reads = {} if parent is None else newer_reads_by_source(ledger, parent, owner, pipeline)
    try:
        pins = Pins.recorded_by(
            pipeline,
            warehouse,
            row,
            owner=owner,
            newer_reads=newer_reads,
            overrides=OverridesReader(stored_tables["overrides"]).rows(),
            ledger=ledger,
        )
    except (VersionGone, SourceReplaced) as error:
        raise CannotRepeat(
            f"{pipeline.name}: run {row.seq} can't be repeated. {error.message}", **error.facts
        ) from error
    shape = stored_tables.shape(shape_of(pipeline, PinnedSources.of(pipeline, pins.sources).schema))
    tables = warehouse.tables(pipeline.name, shape)
    state = {name: snapshot_files(stored_tables, name, owner) for name in SNAPSHOT_TABLES}
    replay = FinalReplay if row.kind == RowKind.CLOSE else SliceReplay
    return replay(
        pipeline=pipeline,
        shape=shape,
        tables=tables,
        slice=slice_of(row),
        start_ms=to_ms(ledger.start_of(row)),
        owner=owner,
        state=state,
        pins=pins,
        added_results=Declarations(pipeline, row.config_hash or "", stored_tables).added_results(owner),
    )


def refuse_vacuumed(pipeline: Pipeline, row: LedgerRow, scan: SliceScan) -> None:
    """Refuse with `CannotRepeat` a run whose source files are gone, though the log has the version."""
    for source, part in zip(pipeline.sources, scan.parts, strict=True):
        changed_files = part.source.changed_files(file.path for file in part.files)
        if changed_files:
            facts = ", ".join(f"{path} {fact}" for path, fact in sorted(changed_files.items()))
            raise CannotRepeat(
                f"{pipeline.name}: run {row.seq} can't be repeated: of the {len(part.files)} files that it "
                f"has read of {part.source.uri}, {facts}. Put back what was there, or restate the slice with "
                "a backfill, which reads what is there now.",
                seq=row.seq,
                version=part.source.version,
            )
        absent = absent_files(part.source.uri, [file.path for file in part.files])
        if absent:
            newest = pin(source, part.source.place, may_be_empty=True)
            raise CannotRepeat(
                f"{pipeline.name}: run {row.seq} can't be repeated: {len(absent)} of the {len(part.files)} "
                f"files that it has read of version {part.source.version} of {part.source.uri} are gone "
                f"(vacuumed), e.g. {absent[0]}. The source stands at version {newest.version}; a backfill of "
                "the slice reads that one.",
                seq=row.seq,
                version=part.source.version,
            )


_COMPARED_TABLES = ("panes", *SNAPSHOT_TABLES)
# About so many rows of each side are compared at once.
ROWS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Fact:
    """One value that was compared: its name, and the value as recorded and as replayed."""

    what: str
    recorded: Any
    replayed: Any

    @property
    def is_equal(self) -> bool:
        return bool(self.recorded == self.replayed)


@dataclass(frozen=True)
class TableDifference:
    """How many rows of a table only one side has, and one of them."""

    table: str
    only_recorded: int
    only_replayed: int
    example: dict[str, Any]


@dataclass(frozen=True)
class Verification:
    """The comparison of a run with its repetition; `tables` differ, none when the hashes are equal."""

    row: LedgerRow
    facts: tuple[Fact, ...]
    tables: tuple[TableDifference, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def is_equal(self) -> bool:
        return all(fact.is_equal for fact in self.facts)


@dataclass(frozen=True)
class Verifier:
    """Repeats recorded runs of one pipeline. `code_hash` is today's; `engine` replaces the planner's
    choice.
    """

    warehouse: Warehouse
    pipeline: Pipeline
    code_hash: str
    engine: Engine | None
    transport: Transport

    def verify(self, seq: int) -> Verification:
        """Repeat the run `seq` and compare.

        Raises:
            CannotRepeat, SnapshotGone: it can't be repeated; with the reason and what is kept.
            NoRuns: there is no such run.
        """
        stored_tables = self.warehouse.tables_with_foreign_commits(self.pipeline.name)
        row = stored_tables.ledger.row(seq)
        self._refuse_erased(stored_tables, row)
        pipeline, notes = self._as_declared_then(stored_tables, row)
        horizon = horizon_of(stored_tables)
        work = recorded_slice(pipeline, self.warehouse, stored_tables, row)
        is_old = horizon is not None and end_of(row) <= end_of(stored_tables.ledger.row(horizon))
        if is_old:
            notes += (
                f"its panes and corrections may be gone: upkeep has dropped history up to run {horizon} "
                "(`keep_history`)",
            )
        scan = work.scan()
        refuse_vacuumed(self.pipeline, row, scan)
        engine = self.engine or planner.choose(pipeline, scan.schema).make()
        transport = work.transport(scan, engine, self.transport).transport
        before = work.progress()
        scratch = f"{self.warehouse.root}/{self.pipeline.name}/_verify-{row.run_id}"
        try:
            with work.with_column_files(scan, transport) as scan_of_both:
                timeline, after = work.timeline(scan_of_both, before, transport)
                outcome = work.replay(
                    scan_of_both, timeline, after, engine, transport, run_id=row.run_id, scratch=scratch
                )
            facts = _facts(row, outcome, after)
            compared_rows = _ComparedRows(work.tables, row, outcome, scratch, pipeline.max_parallelism)
            names = SNAPSHOT_TABLES if is_old else _COMPARED_TABLES
            is_equal = all(fact.is_equal for fact in facts)
            tables = () if is_equal else tuple(compared_rows.differences(names))
        finally:
            _remove(scratch)
        return Verification(row, facts, tables, notes)

    def _refuse_erased(self, stored_tables: Tables, row: LedgerRow) -> None:
        """Refuse a run where rows of it, or of the snapshot that it continued, were erased."""
        ledger, remainders = stored_tables.ledger, stored_tables.ledger.remainders()
        if not remainders.rows_by_run:
            return
        parent = None if row.parent_seq is None else ledger.row(row.parent_seq)
        owner = None if parent is None else ledger.snapshot_owner(parent)
        run_ids = {item.run_id for item in (row, owner) if item is not None} & remainders.rows_by_run.keys()
        erasures = [
            erasure for erasure in ledger.erasures() if any(item.run_id in run_ids for item in erasure.erased)
        ]
        if erasures:
            descriptions = "; ".join(map(describe_erasure, erasures))
            raise CannotRepeat(
                f"{self.pipeline.name}: run {row.seq} can't be repeated, because rows of it, or of the state "
                f"before it, were erased: {descriptions}. `slackwater verify {self.pipeline.name} --tables` "
                "compares what is left of it with what the ledger says of that.",
                seq=row.seq,
            )

    def _as_declared_then(self, stored_tables: Tables, row: LedgerRow) -> tuple[Pipeline, tuple[str, ...]]:
        """The pipeline with the results and the condition of the run, and what else differs between the
        run and today. Refuses a run with other differences.
        """
        notes = () if row.code_hash == self.code_hash else ("the code has changed since the run",)
        if row.kind not in RUN_KINDS or row.config_hash == config_hash(self.pipeline):
            return self.pipeline, notes
        recorded = declaration_of(stored_tables.attempts, row.run_id)
        if recorded is None:
            raise self._declared_otherwise(row, " what it was declared as is not recorded")
        pipeline = self.pipeline
        if pipeline.select and recorded["select"]:
            pipeline = as_declared(pipeline, recorded)
        # What is published of panes is no part of a run.
        settings = differences(recorded, pipeline.describe())
        meaning = [item for item in settings if item.kind not in ("free", "published")]
        if meaning:
            raise self._declared_otherwise(row, "".join(f"\n  {item}" for item in meaning))
        today = [item for item in differences(recorded, self.pipeline.describe()) if item.kind != "free"]
        return pipeline, (*notes, *(f"replayed as it was declared then; since: {item}" for item in today))

    def _declared_otherwise(self, row: LedgerRow, how: str) -> CannotRepeat:
        return CannotRepeat(
            f"{self.pipeline.name}: run {row.seq} was declared otherwise than today:{how}\nVerify "
            "it with what was declared then.",
            seq=row.seq,
        )


def _facts(row: LedgerRow, outcome: Outcome, after: Progress) -> tuple[Fact, ...]:
    return (
        Fact("state_hash", row.state_hash, str(outcome.state_hash)),
        Fact("output_hash", row.output_hash, str(outcome.output_hash)),
        Fact("watermark_out", row.watermark_out, moment(after.watermark)),
        *(
            Fact(name, getattr(row, name), outcome.counts[name])
            for name in COUNTS
            if getattr(row, name) is not None
        ),
    )


@dataclass(frozen=True)
class _ComparedRows:
    """Compares the rows of a run with its repetition's, whose files are in `scratch`, as multisets."""

    tables: Tables
    row: LedgerRow
    outcome: Outcome
    scratch: str
    key_groups: int

    def differences(self, names: Sequence[str]) -> Iterator[TableDifference]:
        for name in names:
            recorded_files, replayed_files = self._recorded_files(name), self._replayed_files(name)
            only_recorded, only_replayed, examples = 0, 0, list[pa.Table]()
            for portion in self._portions(recorded_files, replayed_files):
                rows = {
                    "recorded": self._recorded_rows(name, recorded_files, portion),
                    "replayed": self._replayed_rows(name, replayed_files, portion),
                }
                recorded_part = query("FROM recorded EXCEPT ALL FROM replayed", **rows)
                replayed_part = query("FROM replayed EXCEPT ALL FROM recorded", **rows)
                only_recorded += recorded_part.num_rows
                only_replayed += replayed_part.num_rows
                examples += [part.slice(0, 1) for part in (recorded_part, replayed_part) if part.num_rows]
            if examples:
                [example] = python_rows(examples[0])
                example = {key: value for key, value in example.items() if value is not None}
                yield TableDifference(name, only_recorded, only_replayed, example)

    def _portions(self, *sides: StoredFiles) -> list[Portion]:
        """Ranges of key groups that fit memory, where the rows are spread evenly; one for a table without."""
        if KEY_GROUP not in sides[0].schema.names:
            return [Portion()]
        spread = {
            "num_records": [max(files.rows for files in sides)],
            f"min.{KEY_GROUP}": [0],
            f"max.{KEY_GROUP}": [self.key_groups - 1],
        }
        return portions([pa.table(spread)], ROWS_AT_ONCE)

    def _recorded_files(self, name: str) -> StoredFiles:
        folder = self.tables[name]
        if name in SNAPSHOT_TABLES:
            return stored_snapshot(folder, self.row)
        return folder.files(Within.only("run_id", self.row.run_id))

    def _recorded_rows(self, name: str, files: StoredFiles, portion: Portion) -> pa.Table:
        names = [name for name in files.schema.names if name != "run_id"]
        is_of_run = pc.scalar(True) if name in SNAPSHOT_TABLES else pc.field("run_id") == self.row.run_id
        return portion.files_among(files).read(names, portion.where & is_of_run)

    def _replayed_files(self, name: str) -> StoredFiles:
        files = self.outcome.files.get(name, [])
        return written_files(f"{self.scratch}/{name}", files, self.tables[name].schema.remove(0))

    def _replayed_rows(self, name: str, files: StoredFiles, portion: Portion) -> pa.Table:
        rows = stack(self.outcome.rows.get(name, []), self.tables[name].schema, self.row.run_id)
        rows = rows.drop_columns(["run_id"]).filter(portion.where)
        rows_in_files = portion.files_among(files).read(files.schema.names, portion.where)
        return pa.concat_tables([rows, rows_in_files.cast(rows.schema)])


def _remove(folder: str) -> None:
    parent, name = folder.rsplit("/", 1)
    files = filesystem(parent)
    if files.get_file_info(name).type is FileType.Directory:
        files.delete_dir(name)
