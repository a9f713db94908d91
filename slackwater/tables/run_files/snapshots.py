"""Finds the files of a run's snapshot, and commits files again that upkeep has dropped.

A snapshot is in the files that the Delta log has in the run's partition, wherever somebody has moved its
rows. The ledger's column `files` records the files that the run has written: which tables hold rows at all,
and where to look for files that upkeep has dropped, which stay in the folder for a week.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from urllib.parse import quote, unquote

import pyarrow as pa
from pyarrow.fs import FileType

from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.open_table import OpenTable
from slackwater.tables.delta.parquet import is_sealed_by_name, lost_file
from slackwater.tables.delta.stored_files import StoredFiles, Within
from slackwater.tables.delta.written_files import WrittenFile
from slackwater.tables.errors import CommitConflict, DamagedSnapshot, SnapshotGone
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.run_files.rewriting import describe_file
from slackwater.tables.run_files.staging import as_hashed, scan_staged
from slackwater.tables.schemas import SNAPSHOT_TABLES
from slackwater.tables.stores import filesystem
from slackwater.tables.warehouse import Tables
from slackwater.windowing.snapshot import ContentHash

# A vacuum deletes files that were dropped a week before. A file that it may delete within a day counts as
# gone: the vacuum may have begun.
_NOT_DELETED_SOON_HOURS = 6 * 24
_FEW_FILES = 4


def absent_files(uri: str, paths: Sequence[str]) -> list[str]:
    """The `paths` below the table at `uri` where there is no file."""
    if not paths:
        return []
    infos = filesystem(uri).get_file_info(list(paths))
    return [path for path, info in zip(paths, infos, strict=True) if info.type is FileType.NotFound]


def snapshot_files(tables: Tables, name: str, owner: LedgerRow | None) -> tuple[str, ...]:
    recorded_paths = () if owner is None else owner.files.get(name, ())
    if owner is None or not recorded_paths:
        return ()
    return _paths_in_log(tables[name], owner.run_id) or recorded_paths


def stored_snapshot(folder: Folder, owner: LedgerRow | None) -> StoredFiles:
    """The files in a snapshot table with the snapshot of the run `owner`. Raises SnapshotGone."""
    recorded_paths = () if owner is None else owner.files.get(folder.name, ())
    if owner is None or not recorded_paths:
        return _stored_files(folder.uri, folder.schema)
    files = folder.files(Within.only("run_id", owner.run_id))
    return files if files.actions.num_rows else _dropped_files(folder, owner, recorded_paths)


def _dropped_files(folder: Folder, owner: LedgerRow, paths: tuple[str, ...]) -> StoredFiles:
    """Files that the log does not have any more, and the folder may still have."""
    if absent_files(folder.uri, paths):
        raise SnapshotGone(
            f"the snapshot of run {owner.seq} is gone: `slackwater maintain` drops snapshots that are "
            "neither among the newest nor the last of a period. Ask for a newer run, or for the newest.",
            path=paths[0],
        )
    infos = filesystem(folder.uri).get_file_info(list(paths))
    files = [(path, info.size, None) for path, info in zip(paths, infos, strict=True)]
    return _stored_files(folder.uri, folder.schema, files)


def written_files(uri: str, files: Sequence[WrittenFile], schema: pa.Schema) -> StoredFiles:
    """Files below the folder `uri` that no log names, with the columns `schema`."""
    return _stored_files(uri, schema, [(file.path, file.bytes, file.rows) for file in files])


def _stored_files(
    uri: str, schema: pa.Schema, files: Sequence[tuple[str, int, int | None]] = ()
) -> StoredFiles:
    """Files by (path, bytes, rows) that are not in a table's log."""
    schema_of_log = pa.schema(
        [("path", pa.string()), ("size_bytes", pa.int64()), ("num_records", pa.int64())]
    )
    rows = [dict(zip(schema_of_log.names, (quote(path), *sizes), strict=True)) for path, *sizes in files]
    actions = pa.Table.from_pylist(rows, schema=schema_of_log)
    return StoredFiles(actions, uri, filesystem(uri), schema)


def is_kept(tables: Tables, row: LedgerRow) -> bool:
    """Whether the snapshot of the run `row` is in the log, or can be put back there."""
    return all(_is_kept_in(tables[name], row.run_id, row.files.get(name, ())) for name in SNAPSHOT_TABLES)


def put_back(tables: Tables, owner: LedgerRow | None) -> dict[str, tuple[str, ...]]:
    """Commit the files of the run `owner`'s snapshot again where upkeep has dropped them. Returns table → the
    snapshot's files. Raises SnapshotGone: files are deleted, or may be at any moment.
    """
    if owner is None:
        return dict.fromkeys(SNAPSHOT_TABLES, ())
    return {
        name: _put_back_in(tables[name], owner.run_id, owner.files.get(name, ())) for name in SNAPSHOT_TABLES
    }


def put_back_for_reading(tables: Tables, owner: LedgerRow | None) -> dict[str, tuple[str, ...]]:
    """`put_back` for a run that reads the snapshot at once: the version of each table that this process knows
    is new enough, since files that somebody has dropped meanwhile can be read for a week.
    """
    if owner is None:
        return dict.fromkeys(SNAPSHOT_TABLES, ())
    recorded_paths = {name: owner.files.get(name, ()) for name in SNAPSHOT_TABLES}
    known_paths = {
        name: _paths_in_log(tables[name], owner.run_id, tables[name].newest_known()) if paths else ()
        for name, paths in recorded_paths.items()
    }
    return {
        name: paths or _put_back_in(tables[name], owner.run_id, recorded_paths[name])
        for name, paths in known_paths.items()
    }


def bounds_of_key_groups(
    tables: Tables, owner: LedgerRow | None, state: Mapping[str, Sequence[str]]
) -> dict[tuple[str, str], tuple[int, int]]:
    """(table, file) of a snapshot (`state`: table → files) → its least and greatest key group by the log.
    Tables of few files, which readers may open all, are left out.
    """
    bounds: dict[tuple[str, str], tuple[int, int]] = {}
    for name, paths in state.items():
        if owner is None or len(paths) < _FEW_FILES:
            continue
        files = tables[name].files(Within.only("run_id", owner.run_id)).among(paths)
        columns = ["min.key_group", "max.key_group"]
        if set(columns) <= set(files.actions.column_names):
            rows = zip(
                files.paths, *(files.actions.column(column).to_pylist() for column in columns), strict=True
            )
            bounds |= {(name, path): (least, greatest) for path, least, greatest in rows if least is not None}
    return bounds


@contextmanager
def put_back_around(tables: Tables, owner: LedgerRow | None) -> Iterator[None]:
    """Calls `put_back` before and after the block, which makes the snapshot of `owner` the current one,
    because an upkeep that has begun before may drop it meanwhile.
    """
    put_back(tables, owner)
    yield
    put_back(tables, owner)


def nearest_kept(tables: Tables, runs: Sequence[LedgerRow]) -> LedgerRow | None:
    """The newest of `runs` (in slice order) whose snapshot is kept; None where none is."""
    return next((row for row in reversed(runs) if is_kept(tables, row)), None)


def require_kept(tables: Tables, pipeline: str, owner: LedgerRow, runs: Sequence[LedgerRow]) -> None:
    """Refuse to continue a snapshot that is gone. `runs` are the live runs up to `owner`, in slice order.

    Raises:
        SnapshotGone: with the nearest one that is kept. Facts: seq, nearest (a seq, or None).
        DamagedFile: a file is missing though nobody has dropped it.
    """
    if is_kept(tables, owner):
        return
    for folder in map(tables.__getitem__, SNAPSHOT_TABLES):
        for path in absent_files(folder.uri, _paths_in_log(folder, owner.run_id)):
            raise lost_file(folder.uri, path)
    nearest = nearest_kept(tables, runs)
    alternative = "none before it is kept either; the lineage can be replayed from its start"
    if nearest is not None:
        alternative = (
            f"the nearest one kept before it is that of run {nearest.seq}, which ends at "
            f"{nearest.slice_end:%Y-%m-%dT%H:%M:%SZ}"
        )
    raise SnapshotGone(
        f"{pipeline}: the snapshot of run {owner.seq} is gone (`slackwater maintain` keeps the newest ones "
        f"and one a period); {alternative}.",
        seq=owner.seq,
        nearest=None if nearest is None else nearest.seq,
    )


def stored_hash(tables: Tables, state: Mapping[str, Sequence[str]]) -> ContentHash:
    """The content hash of a snapshot's rows (`state`: table → files), read in batches. Raises SnapshotGone or
    DamagedFile: a file is missing, or was changed.
    """
    total = ContentHash()
    for name in SNAPSHOT_TABLES:
        for path in state[name]:
            for rows in scan_staged(tables, name, path):
                total.add(name, as_hashed(name, rows), without=())
    return total


def require_as_recorded(
    tables: Tables, pipeline: str, owner: LedgerRow, state: Mapping[str, Sequence[str]]
) -> None:
    """Refuse a snapshot (`state`: table → files) whose rows have another hash than its ledger row says. Files
    with seals in the recorded names need no look: readers compare them. All rows of other files are hashed.
    Raises DamagedSnapshot: with the ways to go on. Facts: seq, run_id.
    """
    is_as_written = all(set(state[name]) == set(owner.files.get(name, ())) for name in SNAPSHOT_TABLES)
    paths = [path for name in SNAPSHOT_TABLES for path in state[name]]
    if owner.state_hash is None or (is_as_written and all(map(is_sealed_by_name, paths))):
        return
    hash_of_files = str(stored_hash(tables, state))
    if hash_of_files != owner.state_hash:
        raise DamagedSnapshot(
            f"{pipeline}: the snapshot of run {owner.seq} ({owner.run_id}) does not hold the rows that were "
            f"parked: its hash is {hash_of_files}, "
            f"the ledger has {owner.state_hash}. Somebody has changed or replaced a file. "
            f"{ways_on(tables, pipeline, owner)}",
            seq=owner.seq,
            run_id=owner.run_id,
        )


def ways_on(tables: Tables, pipeline: str, row: LedgerRow) -> str:
    """The commands by which to go on where rows of the run `row` are damaged, as sentences."""
    if not row.seq or row.slice_start is None or row.slice_end is None:
        return f"It was only staged: `slackwater run {pipeline}` stages the slice again."
    head = tables.ledger.head(row.branch)
    live = [] if head is None else tables.ledger.live_runs(head)
    before = [run for run in live if run.slice_end is not None and run.slice_end <= row.slice_start]
    nearest, last = nearest_kept(tables, before), live[-1].slice_end if live else row.slice_end
    restate = (
        f"`slackwater backfill {pipeline} --from {row.slice_start:%Y-%m-%dT%H:%M:%SZ} "
        f"--to {row.slice_end:%Y-%m-%dT%H:%M:%SZ}`"
    )
    if nearest is None:
        return f"Nothing was changed. Restate its slice: {restate}."
    return (
        f"Nothing was changed. Restate its slice: {restate}; or go back to the run before it and run again: "
        "`slackwater state restore "
        f"{pipeline} {nearest.seq}`, `slackwater run {pipeline} --to {last:%Y-%m-%dT%H:%M:%SZ}`."
    )


def _paths_in_log(folder: Folder, run_id: str, table: OpenTable | None = None) -> tuple[str, ...]:
    """A run's files in a table, by the log at the version of `table`, by default as of now."""
    return tuple(folder.files(Within.only("run_id", run_id), table=table).paths)


def _is_kept_in(folder: Folder, run_id: str, recorded_paths: tuple[str, ...]) -> bool:
    if not recorded_paths:
        return True
    paths_in_log = _paths_in_log(folder, run_id)
    if not paths_in_log:
        return _can_be_put_back(folder, recorded_paths)
    return not absent_files(folder.uri, paths_in_log)


def _put_back_in(folder: Folder, run_id: str, recorded_paths: tuple[str, ...]) -> tuple[str, ...]:
    while recorded_paths and not (paths_in_log := _paths_in_log(folder, run_id)):
        table = folder.open()
        if not _can_be_put_back(folder, recorded_paths):
            raise SnapshotGone(
                f"{folder.uri}: the state that run {run_id} left is gone: it was dropped (`slackwater "
                "maintain` keeps the newest snapshots "
                "and one a period), and its files are deleted or about to be. `slackwater state restore` to "
                "an earlier run whose snapshot "
                "is kept goes on from there.",
                run_id=run_id,
            )
        if folder.files(Within.only("run_id", run_id), table=table).actions.num_rows:
            continue  # somebody else was quicker
        try:
            folder.commit_files(
                [describe_file(folder, path) for path in recorded_paths], expected_table=table
            )
        except CommitConflict:
            continue
    return paths_in_log if recorded_paths else ()


def _can_be_put_back(folder: Folder, paths: Sequence[str]) -> bool:
    """Whether files that the log does not have still exist and will not be deleted soon."""
    if absent_files(folder.uri, paths):
        return False
    vacuum = folder.open().as_delta_rs().vacuum
    paths_deleted_soon = vacuum(
        retention_hours=_NOT_DELETED_SOON_HOURS, dry_run=True, enforce_retention_duration=False, full=True
    )
    return not set(paths) & set(map(unquote, paths_deleted_soon))
