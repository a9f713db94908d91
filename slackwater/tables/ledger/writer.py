"""Appends to `runs`, the ledger, by compare-and-swap on the head of a branch. No row ever changes."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from slackwater.errors import LostRaceError
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.open_table import OpenTable
from slackwater.tables.delta.stored_files import StoredFiles
from slackwater.tables.delta.upkeep import TableUpkeep
from slackwater.tables.errors import CommitConflict
from slackwater.tables.ledger.reader import LedgerReader, newest_seq
from slackwater.tables.ledger.rows import RUN_KINDS, LedgerRow, RowKind
from slackwater.tables.ledger.spans import followed_by

# A ledger of so many files becomes one of fewer. Who reads all of it opens no more.
_MOST_FILES = 128

# A file of this size is left as it is, by commits and by upkeep: to merge costs little, and who asks for the
# spans of one row reads no more than the ones in its file.
LARGE_BYTES = 1 << 20


class LedgerWriter(LedgerReader):
    """Appends to the ledger. `table_versions` returns table name → the newest version that this process has
    seen; each row records it, so that a lost commit is noticed.
    """

    def __init__(self, folder: Folder, table_versions: Callable[[], Mapping[str, int]] = dict) -> None:
        super().__init__(folder)
        self._table_versions = table_versions

    def commit(
        self,
        branch: str,
        parent_seq: int | None,
        rows: Sequence[LedgerRow],
        committed_at: Callable[[], datetime],
        other_heads: Mapping[str, int] | None = None,
    ) -> list[LedgerRow]:
        """Append `rows` to `branch` with the next seqs, in one commit, if `parent_seq` is still its head.

        The only commit point of ledger rows of any kind. `rows` are in slice order; seq, branch, committed_at
        and table_versions of each are set here. So are parent_seq and live of a run or close, which continues
        the branch. Rows of other kinds (see `slackwater.tables.ledger.lineage_rows`) have their live
        already, and a fork its parent. `other_heads`: branch → seq of its head, for branches that must not
        have moved either. Returns the rows as committed.

        Raises:
            LostRaceError: somebody else moved a head.
        """
        heads = {branch: parent_seq, **(other_heads or {})}
        table, is_as_of_now = self.folder.newest_known_or_made(), False
        while True:
            try:
                return self._commit_behind(table, branch, rows, committed_at, heads)
            except LostRaceError:
                if is_as_of_now:
                    raise
            except CommitConflict:
                pass
            table, is_as_of_now = self.folder.ensure(), True

    def _commit_behind(
        self,
        table: OpenTable,
        branch: str,
        rows: Sequence[LedgerRow],
        committed_at: Callable[[], datetime],
        heads: Mapping[str, int | None],
    ) -> list[LedgerRow]:
        """`commit` as the version after `table`. Raises LostRaceError: a branch has another head than
        `heads`; CommitConflict: the ledger has moved since `table`.
        """
        files = self.folder.files(table=table)
        newest_rows = {name: self._newest_of(files, name) for name in heads}
        for name, seq in heads.items():
            _refuse_moved(name, newest_rows[name], seq)
        versions = {**self._table_versions(), self.folder.name: table.version() + 1}
        bound = bind_rows(
            branch,
            [replace(row, table_versions=versions) for row in rows],
            newest_rows[branch],
            newest_seq(files),
            committed_at(),
        )
        self.folder.append(
            pa.Table.from_pylist([row.values() for row in bound], schema=self.folder.schema),
            expected_table=table,
        )
        self._merge_small_files(files)
        return bound

    def _merge_small_files(self, files: StoredFiles) -> None:
        """Merge many small files, so that readers of the ledger open few between two upkeeps. Where another
        process writes meanwhile, the next commit tries it again.
        """
        if files.actions.num_rows < _MOST_FILES:
            return
        upkeep = TableUpkeep(self.folder, "seq", LARGE_BYTES)
        if upkeep.compactable() >= _MOST_FILES // 2:
            with suppress(CommitConflict):
                upkeep.compact()


def bind_rows(
    branch: str, rows: Sequence[LedgerRow], head: LedgerRow | None, newest: int, now: datetime
) -> list[LedgerRow]:
    """`rows` with everything set that depends on the head of their branch and on the `newest` seq of all."""
    bound: list[LedgerRow] = []
    for seq, row in enumerate(rows, newest + 1):
        live_before = () if head is None else head.live
        live = followed_by(live_before, seq) if row.kind in RUN_KINDS else row.live
        parent = row.parent_seq if row.kind == RowKind.FORK else None if head is None else head.seq
        head = replace(row, seq=seq, branch=branch, parent_seq=parent, live=live, committed_at=now)
        bound.append(head)
    return bound


def _refuse_moved(branch: str, head: LedgerRow | None, parent_seq: int | None) -> None:
    head_seq = None if head is None else head.seq
    if head_seq != parent_seq:
        raise LostRaceError(
            f"another run committed first: the head of {branch} is {head_seq}, this run started from "
            f"{parent_seq}. Nothing was changed; run the same command again to continue from there.",
            head=head_seq,
            parent=parent_seq,
        )
