"""Which snapshots still stand: retention drops their files, and the ledger goes on naming them.

A run has its snapshot as long as every file that its ledger row names can be read.
"""

from collections.abc import Sequence

from pyarrow.fs import FileType

from jobs.tables.delta import filesystem
from jobs.tables.errors import SnapshotGone
from jobs.tables.ledger import LedgerRow
from jobs.tables.schemas import SNAPSHOT_TABLES
from jobs.tables.warehouse import Tables


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
