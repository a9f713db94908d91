"""`runs`, the ledger: the only table that says which rows of all other tables exist.

Appended by compare-and-swap on the branch head, never changed. Rows are typed here; what a row means is the run protocol's business.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from jobs.errors import LostRaceError
from jobs.tables import schemas
from jobs.tables.delta import Folder
from jobs.tables.errors import CommitConflict, NewerFormat, NoRuns

MAIN = "main"


@dataclass(frozen=True)
class Span:
    """Consecutive seqs, both ends included, all of which are live."""

    first_seq: int
    last_seq: int


@dataclass(frozen=True)
class Input:
    """What a run read of one source table: its pinned version, and the files, rows and bytes that were read."""

    table: str
    version: int
    files: int
    rows: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class LedgerRow:
    """One row of `runs`, columns in the documented order (`jobs.tables.schemas.RUNS`)."""

    seq: int
    run_id: str
    kind: str
    branch: str
    parent_seq: int | None
    live: tuple[Span, ...]
    slice_start: datetime | None = None
    slice_end: datetime | None = None
    attempt: int = 1
    engine: str | None = None
    watermark_in: datetime | None = None
    watermark_out: datetime | None = None
    inputs: tuple[Input, ...] = ()
    config_hash: str | None = None
    code_hash: str | None = None
    format_version: int = schemas.FORMAT_VERSION
    rows_read: int = 0
    rows_filtered: int = 0
    rows_accepted: int = 0
    rows_late: int = 0
    rows_unassigned: int = 0
    rows_quarantined: int = 0
    rows_folded: int = 0
    assignments_missed: int = 0
    elements_never_fired: int = 0
    windows_opened: int = 0
    windows_fired: int = 0
    windows_refired: int = 0
    windows_merged: int = 0
    windows_cleaned: int = 0
    windows_open: int = 0
    timers_pending: int = 0
    verdict: str | None = None
    state_hash: str | None = None
    output_hash: str | None = None
    files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    started_at: datetime | None = None
    committed_at: datetime | None = None
    phase_seconds: dict[str, float] = field(default_factory=dict)
    version: str | None = None

    def is_live_in(self, head: "LedgerRow") -> bool:
        """Whether this row's run is part of the branch that `head` ends."""
        return any(span.first_seq <= self.seq <= span.last_seq for span in head.live)

    def to_json(self) -> str:
        """Every column as JSON; times as ISO 8601."""
        return json.dumps(_row(self), default=lambda value: value.isoformat(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "LedgerRow":
        """The inverse of `to_json`.

        Raises:
            NewerFormat: a newer version of the product wrote it.
        """
        values = json.loads(text)
        refuse_newer(values)
        for name, kind in schemas.RUNS:
            if pa.types.is_timestamp(kind) and values[name] is not None:
                values[name] = datetime.fromisoformat(values[name])
        return _from_values(values)


def _row(row: LedgerRow) -> dict[str, Any]:
    values = {column.name: getattr(row, column.name) for column in fields(row)}
    values["live"] = [vars(span) for span in row.live]
    values["inputs"] = [vars(item) for item in row.inputs]
    values["files"] = {table: list(paths) for table, paths in row.files.items()}
    return values


def refuse_newer(values: dict[str, Any]) -> None:
    """Refuse a row, given by its columns, of a format that this version does not know.

    Raises:
        NewerFormat: with the version to install.
    """
    if values["format_version"] > schemas.FORMAT_VERSION:
        raise NewerFormat(
            f"run {values['seq'] or values['run_id']} was written in format {values['format_version']} by slackwater {values['version']}; "
            f"this one reads up to {schemas.FORMAT_VERSION}. Install that version or a newer one.",
            seq=values["seq"],
            format_version=values["format_version"],
        )


def _from_values(values: dict[str, Any]) -> LedgerRow:
    return LedgerRow(
        **{
            **values,
            "live": tuple(Span(**span) for span in values["live"] or ()),
            "inputs": tuple(Input(**item) for item in values["inputs"] or ()),
            "files": {table: tuple(paths) for table, paths in dict(values["files"] or {}).items()},
            "phase_seconds": dict(values["phase_seconds"] or {}),
        }
    )


class LedgerReader:
    """Reads the ledger of one pipeline. Files that a question excludes are pruned by their statistics on `seq`.

    Raises (every method):
        NewerFormat: a row was written by a newer version of the product.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def rows(self, since: int = 0, until: int | None = None) -> list[LedgerRow]:
        """Rows with since < seq (≤ until), oldest first."""
        where = pc.field("seq") > since
        if until is not None:
            where = where & (pc.field("seq") <= until)
        return _rows(self.folder.read(where=where))

    def row(self, seq: int) -> LedgerRow:
        """The row of `seq`.

        Raises:
            NoRuns: there is none.
        """
        found = self.rows(seq - 1, seq)
        if not found:
            raise NoRuns(f"the ledger has no row {seq}; `slackwater runs` lists what it has.", seq=seq)
        return found[0]

    def by_run_id(self, run_id: str) -> LedgerRow | None:
        """The row that a run was committed as, if it was."""
        found = _rows(self.folder.read(where=pc.field("run_id") == run_id))
        return found[0] if found else None

    def head(self, branch: str = MAIN) -> LedgerRow | None:
        """The newest row of `branch`; None while there is none."""
        table = self.folder.find()
        return None if table is None else _head(table, branch)[0]

    def live_runs(self, head: LedgerRow) -> list[LedgerRow]:
        """The run and close rows that make up `head`'s branch, in slice order."""
        rows = {row.seq: row for row in self.rows(min((span.first_seq for span in head.live), default=1) - 1)}
        seqs = [seq for span in head.live for seq in range(span.first_seq, span.last_seq + 1)]
        return [rows[seq] for seq in seqs if seq in rows and rows[seq].kind in ("run", "close")]

    def snapshot_owner(self, head: LedgerRow) -> LedgerRow:
        """The row whose files are the current snapshot of `head`'s branch: the last seq of its last live span."""
        last = head.live[-1].last_seq
        return head if last == head.seq else self.row(last)


class LedgerWriter(LedgerReader):
    """Appends to the ledger."""

    def commit(
        self, branch: str, parent_seq: int | None, rows: Sequence[LedgerRow], committed_at: Callable[[], datetime]
    ) -> list[LedgerRow]:
        """Append `rows`, bound to the next seqs, in one commit, if `parent_seq` is still the head of `branch`.

        The only commit point of a run. `rows` are in slice order; seq, parent_seq, live and committed_at of each are set here. Returns the
        rows as committed.

        Raises:
            LostRaceError: somebody else moved the head.
        """
        while True:
            table = self.folder.ensure()
            head, newest = _head(table, branch)
            head_seq = None if head is None else head.seq
            if head_seq != parent_seq:
                raise LostRaceError(
                    f"another run committed first: the head of {branch} is {head_seq}, this run started from {parent_seq}. Nothing was "
                    "changed; run the same command again to continue from there.",
                    head=head_seq,
                    parent=parent_seq,
                )
            bound = _bind(rows, head, newest, committed_at())
            try:
                self.folder.append(pa.Table.from_pylist([_row(row) for row in bound], schema=self.folder.schema), expected=table)
            except CommitConflict:
                continue
            return bound


def _bind(rows: Sequence[LedgerRow], head: LedgerRow | None, newest: int, now: datetime) -> list[LedgerRow]:
    bound: list[LedgerRow] = []
    for seq, row in enumerate(rows, newest + 1):
        live = head.live if head is not None else ()
        if live and live[-1].last_seq == seq - 1:
            live = (*live[:-1], replace(live[-1], last_seq=seq))
        else:
            live = (*live, Span(seq, seq))
        head = replace(row, seq=seq, parent_seq=None if head is None else head.seq, live=live, committed_at=now)
        bound.append(head)
    return bound


def _rows(table: pa.Table) -> list[LedgerRow]:
    rows = sorted(table.to_pylist(), key=lambda values: values["seq"])
    for values in rows:
        refuse_newer(values)
    return [_from_values(values) for values in rows]


def _head(table: DeltaTable, branch: str) -> tuple[LedgerRow | None, int]:
    """The head of `branch` and the newest seq of all branches, from the newest files alone where they have the answer."""
    actions = pa.table(table.get_add_actions(flatten=True))
    if not actions.num_rows:
        return None, 0
    newest = pc.max(actions["max.seq"]).as_py()
    dataset = table.to_pyarrow_dataset()
    for depth in (8, 512, newest):
        rows = _rows(dataset.to_table(filter=pc.field("seq") > newest - depth))
        ours = [row for row in rows if row.branch == branch]
        if ours:
            return ours[-1], newest
    return None, newest
