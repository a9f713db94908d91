"""Appends to `runs`, the ledger, by compare-and-swap on the head of a branch. No row ever changes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from slackwater.jobs.errors import LostRaceError
from slackwater.jobs.tables.delta.folder import Folder
from slackwater.jobs.tables.errors import CommitConflict
from slackwater.jobs.tables.ledger.reader import LedgerReader, newest_seq
from slackwater.jobs.tables.ledger.row_kinds import RUN_KINDS, RowKind
from slackwater.jobs.tables.ledger.rows import LedgerRow
from slackwater.jobs.tables.ledger.spans import seqs_of, spans_of


class LedgerWriter(LedgerReader):
    """Appends to the ledger.

    Args:
        table_versions: the newest versions of the pipeline's tables that this process has seen, by their
            names; recorded in each row, so that a table whose log loses its newest commits is found out.
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
        beside: Mapping[str, int] | None = None,
    ) -> list[LedgerRow]:
        """Append `rows` to `branch`, bound to the next seqs, in one commit, if `parent_seq` is still its
        head.

        The only commit point of a run, a fork, a publish, a restore, a close or a drop. `rows` are in slice
        order; seq, branch, committed_at and table_versions of each are set here. So are parent_seq and live
        of a run or close, which continues the branch; rows of other kinds (see
        `slackwater.jobs.tables.ledger.lineage_rows`) bring their live, and a fork brings its parent.
        `beside`: heads of other branches that must not have moved either. Returns the rows as committed.

        Raises:
            LostRaceError: somebody else moved a head.
        """
        while True:
            table = self.folder.ensure()
            files = self.folder.files(table=table)
            head = self._newest_of(files, branch)
            _refuse_moved(branch, head, parent_seq)
            for other, seq in (beside or {}).items():
                _refuse_moved(other, self._newest_of(files, other), seq)
            versions = {**self._table_versions(), self.folder.name: table.version() + 1}
            staged = [replace(row, table_versions=versions) for row in rows]
            bound = _bind(branch, staged, head, newest_seq(files), committed_at())
            try:
                self.folder.append(
                    pa.Table.from_pylist([row.values() for row in bound], schema=self.folder.schema),
                    expected_table=table,
                )
            except CommitConflict:
                continue
            return bound


def _refuse_moved(branch: str, head: LedgerRow | None, wanted: int | None) -> None:
    found = None if head is None else head.seq
    if found != wanted:
        raise LostRaceError(
            f"another run committed first: the head of {branch} is {found}, this run started from {wanted}. "
            "Nothing was changed; run the same command again to continue from there.",
            head=found,
            parent=wanted,
        )


def _bind(
    branch: str, rows: Sequence[LedgerRow], head: LedgerRow | None, newest: int, now: datetime
) -> list[LedgerRow]:
    bound: list[LedgerRow] = []
    for seq, row in enumerate(rows, newest + 1):
        live = (
            spans_of((*seqs_of(head.live if head is not None else ()), seq))
            if row.kind in RUN_KINDS
            else row.live
        )
        parent = row.parent_seq if row.kind == RowKind.FORK else None if head is None else head.seq
        head = replace(row, seq=seq, branch=branch, parent_seq=parent, live=live, committed_at=now)
        bound.append(head)
    return bound
