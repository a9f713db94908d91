"""Which snapshots still stand: retention drops their files, and the ledger goes on naming them.

A run has its snapshot as long as every file that its ledger row names can be read.
"""

from collections.abc import Sequence

from pyarrow.fs import FileType

from jobs.tables.delta import filesystem
from jobs.tables.errors import DamagedSnapshot, SnapshotGone
from jobs.tables.ledger import LedgerRow
from jobs.tables.parquet import is_sealed_by_name
from jobs.tables.schemas import SNAPSHOT_TABLES
from jobs.tables.staging import read_staged
from jobs.tables.warehouse import Tables
from windowing.state.snapshot import ContentHash


def absent_files(uri: str, paths: Sequence[str]) -> list[str]:
    """Those of `paths`, relative to the table at `uri`, that are not there."""
    if not paths:
        return []
    found = filesystem(uri).get_file_info(list(paths))
    return [path for path, info in zip(paths, found, strict=True) if info.type is FileType.NotFound]


def is_kept(tables: Tables, row: LedgerRow) -> bool:
    """Whether the snapshot that `row` owns is whole."""
    return not any(absent_files(tables[name].uri, row.files.get(name, ())) for name in SNAPSHOT_TABLES)


def nearest_kept(tables: Tables, runs: Sequence[LedgerRow]) -> LedgerRow | None:
    """The newest of `runs` (in slice order) whose snapshot is whole; None when no one's is."""
    return next((row for row in reversed(runs) if is_kept(tables, row)), None)


def require_kept(tables: Tables, pipeline: str, owner: LedgerRow, runs: Sequence[LedgerRow]) -> None:
    """Refuse to continue a snapshot that is gone. `runs` are the live runs up to `owner`, in slice order.

    Raises:
        SnapshotGone: with the nearest one that is kept. Facts: seq, nearest (a seq, or None).
    """
    if is_kept(tables, owner):
        return
    nearest = nearest_kept(tables, runs)
    told = "none before it is kept either; the lineage can be replayed from its start"
    if nearest is not None:
        told = f"the nearest one kept before it is that of run {nearest.seq}, which ends at {nearest.slice_end:%Y-%m-%dT%H:%M:%SZ}"
    raise SnapshotGone(
        f"{pipeline}: the snapshot of run {owner.seq} is gone (`slackwater maintain` keeps the newest ones and one a period); {told}.",
        seq=owner.seq,
        nearest=None if nearest is None else nearest.seq,
    )


def stored_hash(tables: Tables, row: LedgerRow) -> ContentHash:
    """The content hash of the rows that stand in the snapshot which `row` owns; one file is read at a time.

    Raises:
        SnapshotGone, DamagedFile: a file is not there, or is not what was written.
    """
    total = ContentHash()
    for name in SNAPSHOT_TABLES:
        for path in row.files.get(name, ()):
            total.add(name, read_staged(tables, name, (path,)), without=())
    return total


def require_as_recorded(tables: Tables, pipeline: str, owner: LedgerRow) -> None:
    """Refuse a snapshot that does not hold the rows of which its ledger row has the hash.

    Files whose seals stand in their names, which the ledger has, are compared by whoever reads them, at no cost. Of others, which earlier
    versions and other writers have made, every row is hashed.

    Raises:
        DamagedSnapshot: with the ways to go on. Facts: seq, run_id.
    """
    paths = [path for name in SNAPSHOT_TABLES for path in owner.files.get(name, ())]
    if owner.state_hash is None or all(map(is_sealed_by_name, paths)):
        return
    stored = str(stored_hash(tables, owner))
    if stored != owner.state_hash:
        raise DamagedSnapshot(
            f"{pipeline}: the snapshot of run {owner.seq} ({owner.run_id}) does not hold the rows that were parked: its hash is {stored}, "
            f"the ledger has {owner.state_hash}. Somebody has changed or replaced a file. {ways_on(tables, pipeline, owner)}",
            seq=owner.seq,
            run_id=owner.run_id,
        )


def ways_on(tables: Tables, pipeline: str, row: LedgerRow) -> str:
    """How to go on where rows of the run `row` are damaged: the commands, as sentences."""
    if not row.seq or row.slice_start is None or row.slice_end is None:
        return f"It was only staged: `slackwater run {pipeline}` stages the slice again."
    head = tables.ledger.head(row.branch)
    live = [] if head is None else tables.ledger.live_runs(head)
    before = [run for run in live if run.slice_end is not None and run.slice_end <= row.slice_start]
    nearest, last = nearest_kept(tables, before), live[-1].slice_end if live else row.slice_end
    restate = f"`slackwater backfill {pipeline} --from {row.slice_start:%Y-%m-%dT%H:%M:%SZ} --to {row.slice_end:%Y-%m-%dT%H:%M:%SZ}`"
    if nearest is None:
        return f"Nothing was changed. Restate its slice: {restate}."
    return (
        f"Nothing was changed. Restate its slice: {restate}; or go back to the run before it and run again: `slackwater state restore "
        f"{pipeline} {nearest.seq}`, `slackwater run {pipeline} --to {last:%Y-%m-%dT%H:%M:%SZ}`."
    )
