"""Opens a recorded run for a replay from its pinned inputs, or refuses, where one of them is gone.

`verify` compares what the replay gives with the record; a redrive asks it for its watermarks.
"""

from slackwater.engine.rows.union_columns import PinnedSources
from slackwater.engine.source.pinning import SourceReplaced, VersionGone, pin
from slackwater.engine.source.scan import SliceScan
from slackwater.errors import UsageError
from slackwater.pipelines import Pipeline
from slackwater.runs.staging.declarations import Declarations
from slackwater.runs.staging.pins import Pins
from slackwater.runs.staging.shapes import shape_of
from slackwater.runs.staging.slice_replay import FinalReplay, SliceReplay
from slackwater.runs.staging.slices import slice_of
from slackwater.runs.staging.stragglers import newer_reads_by_source
from slackwater.tables.ledger.overrides import OverridesReader
from slackwater.tables.ledger.row_kinds import RUN_KINDS, RowKind
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.run_files.snapshots import absent_files, is_kept, require_kept, snapshot_files
from slackwater.tables.schemas import SNAPSHOT_TABLES
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
        pins = Pins.of_run(
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
