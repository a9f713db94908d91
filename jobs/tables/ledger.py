"""`runs`, the ledger: the only table that says which rows of all other tables exist.

Appended by compare-and-swap on the branch head, never changed. Rows are typed here; what a row means is the
run protocol's business.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.errors import LostRaceError
from slackwater.jobs.tables import schemas
from slackwater.jobs.tables.delta import Folder
from slackwater.jobs.tables.erasures import Erased, Left
from slackwater.jobs.tables.errors import CommitConflict, NewerFormat, NoRuns
from slackwater.jobs.tables.reading import StoredFiles, Within
from slackwater.jobs.tables.row_kinds import RUN_KINDS, RowKind
from slackwater.jobs.tables.spans import Span, Spans, seqs_of, spans_of

MAIN = "main"
# Folder → (files that may hold rows of that kind, these rows).
_ERASURES: "dict[str, tuple[tuple[str, ...], list[LedgerRow]]]" = {}


@dataclass(frozen=True, kw_only=True)
class Input:
    """What a run read of one source table: its own id (None: not known, as in ledgers of format 1), its
    pinned version, and the files, rows and bytes that were read."""

    table: str
    table_id: str | None = None
    version: int
    files: int
    rows: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class LedgerRow:
    """One row of `runs`, columns in the documented order (`slackwater.jobs.tables.schemas.RUNS`)."""

    seq: int
    run_id: str
    kind: str
    branch: str
    parent_seq: int | None
    live: Spans
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
    table_versions: dict[str, int] = field(default_factory=dict)
    erased: tuple[Erased, ...] = ()

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
    values["erased"] = [vars(item) for item in row.erased]
    return values


def refuse_newer(values: dict[str, Any]) -> None:
    """Refuse a row, given by its columns, of a format that this version does not know.

    Raises:
        NewerFormat: with the version to install.
    """
    if values["format_version"] > schemas.FORMAT_VERSION:
        raise NewerFormat(
            f"run {values['seq'] or values['run_id']} was written in format {values['format_version']} by "
            f"slackwater {values['version']}; "
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
            "table_versions": dict(values.get("table_versions") or {}),
            "erased": tuple(map(Erased.of_values, values.get("erased") or ())),
        }
    )


class LedgerReader:
    """Reads the ledger of one pipeline. Files that a question excludes are pruned by their statistics on
    `seq`.

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
        return self._rows(self.folder.read(where=where, within=Within("seq", since + 1, until)))

    def row(self, seq: int) -> LedgerRow:
        """The row of `seq`.

        Raises:
            NoRuns: there is none.
        """
        found = self.rows(seq - 1, seq)
        if not found:
            raise NoRuns(f"the ledger has no row {seq}; `slackwater runs` lists what it has.", seq=seq)
        return found[0]

    def newest(self) -> LedgerRow | None:
        """The row of the greatest seq of all branches; None while there is none."""
        files = self.folder.files()
        seq = _newest_seq(files)
        where = pc.field("seq") == seq
        return (
            self._rows(files.within(Within.only("seq", seq)).read(self.folder.schema.names, where))[0]
            if seq
            else None
        )

    def by_run_id(self, run_id: str) -> LedgerRow | None:
        """The row that a run was committed as, if it was."""
        found = self._rows(
            self.folder.read(where=pc.field("run_id") == run_id, within=Within.only("run_id", run_id))
        )
        return found[0] if found else None

    def head(self, branch: str = MAIN) -> LedgerRow | None:
        """The newest row of `branch`, also that which dropped it; None while there is none."""
        return self._newest_of(self.folder.files(), branch)

    def _newest_of(self, files: StoredFiles, branch: str) -> LedgerRow | None:
        """The newest row of `branch`, read from the newest file that may hold one, by the files' statistics
        on branch and seq.
        """
        for first, last in sorted(_ranges(files, branch), key=lambda found: found[1], reverse=True):
            where = (pc.field("seq") >= first) & (pc.field("seq") <= last) & (pc.field("branch") == branch)
            rows = self._rows(files.within(Within("seq", first, last)).read(self.folder.schema.names, where))
            if rows:
                return rows[-1]
        return None

    def branch(self, name: str) -> "Branch | None":
        """The branch of that name beside main; None if there is none, or it was dropped."""
        found = self._branches(pc.field("branch") == name, Within.only("branch", name))
        return next((branch for branch in found if branch.name == name), None)

    def branches(self) -> "list[Branch]":
        """Every branch beside main that was not dropped, in the order of their forks. What their heads have
        live must be kept.
        """
        return self._branches(pc.field("branch") != MAIN)

    def _branches(self, where: pc.Expression, within: Within | None = None) -> "list[Branch]":
        forks: dict[str, LedgerRow] = {}
        heads: dict[str, LedgerRow] = {}
        for row in self._rows(self.folder.read(where=where, within=within)):
            heads[row.branch] = row
            if row.kind == RowKind.FORK:
                forks[row.branch] = row
        return [
            Branch(fork, heads[name])
            for name, fork in sorted(forks.items(), key=_seq)
            if heads[name].kind != RowKind.DROP
        ]

    def live_runs(self, head: LedgerRow, since: datetime | None = None) -> list[LedgerRow]:
        """The run and close rows that make up `head`'s branch, in slice order; with `since` only those whose
        slice ends after it. Their inputs are what they count as having read, see `RowKind.ADOPT`.

        Rows that are not live are not read, nor are files that lie wholly before `since`.
        """
        if not head.live:
            return []
        where = reduce(
            or_,
            ((pc.field("seq") >= span.first_seq) & (pc.field("seq") <= span.last_seq) for span in head.live),
        )
        if since is not None:
            where = where & (pc.field("slice_end") > since)
        rows = {row.seq: row for row in self._as_adopted(head, self._rows(self.folder.read(where=where)))}
        return [rows[seq] for seq in seqs_of(head.live) if seq in rows]

    def snapshot_owner(self, head: LedgerRow) -> LedgerRow | None:
        """The row whose files are the current snapshot of `head`'s branch: the last seq of its last live
        span.

        None for a branch that was forked at the start of the lineage and has not run yet.
        """
        if not head.live:
            return None
        last = head.live[-1].last_seq
        return head if last == head.seq else self._as_adopted(head, [self.row(last)])[0]

    def erasures(self) -> list[LedgerRow]:
        """The rows that have taken rows out of the tables, oldest first."""
        return self._erasures_in(self.folder.files(Within.only("kind", RowKind.ERASE)))

    def _erasures_in(self, files: StoredFiles) -> list[LedgerRow]:
        if not files.actions.num_rows:
            return []
        # Every read of the ledger asks for them; a file that it names never changes.
        paths = tuple(files.actions.column("path").to_pylist())
        if _ERASURES.get(self.folder.uri, ((), []))[0] != paths:
            _ERASURES[self.folder.uri] = (
                paths,
                _rows(files.read(self.folder.schema.names, pc.field("kind") == RowKind.ERASE)),
            )
        return _ERASURES[self.folder.uri][1]

    def left(self) -> Left:
        """What erasures have left of each run."""
        return Left.after(row.erased for row in self.erasures())

    def erasing_versions(self, table: str, table_id: str) -> frozenset[int]:
        """The versions of a source that have deleted rows which count as never written."""
        inputs = (item for row in self.erasures() for item in row.inputs)
        return frozenset(item.version for item in inputs if item.table == table and item.table_id == table_id)

    def _rows(self, table: pa.Table) -> list[LedgerRow]:
        """The rows of `table`; of a run of which rows were erased, what it says of them is what is left."""
        rows = _rows(table)
        erasures = self._erasures_in(self.folder.files_as_listed(Within.only("kind", RowKind.ERASE)))
        if not erasures:
            return rows
        left = Left.after(row.erased for row in erasures)
        return [
            replace(
                row,
                state_hash=left.state_hash(row.run_id, row.state_hash),
                output_hash=left.output_hash(row.run_id, row.output_hash),
                files=left.files(row.run_id, row.files),
                windows_open=row.windows_open - left.rows(row.run_id, "window_state"),
                timers_pending=row.timers_pending - left.rows(row.run_id, "timers"),
            )
            if row.run_id in left.of_runs
            else row
            for row in rows
        ]

    def _as_adopted(self, head: LedgerRow, rows: list[LedgerRow]) -> list[LedgerRow]:
        """`rows` as they count at `head`: one that was live when another table was declared the same as its
        source has read that one, at the version that was declared."""
        found = _rows(
            self.folder.read(
                where=pc.field("kind") == RowKind.ADOPT, within=Within.only("kind", RowKind.ADOPT)
            )
        )
        for adoption in (row for row in found if row.seq <= head.seq):
            rows = [
                replace(row, inputs=_adopted(row.inputs, adoption)) if row.is_live_in(adoption) else row
                for row in rows
            ]
        return rows

    def start_of(self, head: LedgerRow) -> datetime:
        """Where the lineage of `head`'s branch begins: the start of its first live slice, else what its fork
        says.
        """
        first = (
            head if not head.live or head.live[0].first_seq == head.seq else self.row(head.live[0].first_seq)
        )
        assert first.slice_start is not None
        return first.slice_start


def _adopted(inputs: Iterable[Input], adoption: LedgerRow) -> tuple[Input, ...]:
    declared = {item.table: item for item in adoption.inputs}
    new = ((item, declared.get(item.table)) for item in inputs)
    return tuple(
        item if same is None else replace(item, table_id=same.table_id, version=same.version)
        for item, same in new
    )


@dataclass(frozen=True)
class Branch:
    """A branch beside main, as the ledger has it.

    Attributes:
        fork: the row that made it; its live runs are those that the branch began with.
        head: its newest row.
    """

    fork: LedgerRow
    head: LedgerRow

    @property
    def name(self) -> str:
        return self.head.branch

    @property
    def own(self) -> tuple[int, ...]:
        """Seqs of the runs that were made on the branch, in slice order."""
        return seqs_of(self.head.live)[len(seqs_of(self.fork.live)) :]


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
        `slackwater.jobs.tables.lineage`) bring their live, and a fork brings its parent. `beside`: heads of
        other branches that must not have moved either. Returns the rows as committed.

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
            bound = _bind(branch, staged, head, _newest_seq(files), committed_at())
            try:
                self.folder.append(
                    pa.Table.from_pylist([_row(row) for row in bound], schema=self.folder.schema),
                    expected=table,
                )
            except CommitConflict:
                continue
            return bound


def _refuse_moved(branch: str, head: LedgerRow | None, wanted: int | None) -> None:
    found = None if head is None else head.seq
    if found != wanted:
        raise LostRaceError(
            f"another run committed first: the head of {branch} is {found}, this run started from {wanted}. "
            "Nothing was "
            "changed; run the same command again to continue from there.",
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


def _seq(named: tuple[str, LedgerRow]) -> int:
    return named[1].seq


def _rows(table: pa.Table) -> list[LedgerRow]:
    rows = sorted(table.to_pylist(), key=lambda values: values["seq"])
    for values in rows:
        refuse_newer(values)
    return [_from_values(values) for values in rows]


def _newest_seq(files: StoredFiles) -> int:
    """The newest seq of all branches, from the files' statistics alone; 0 for none."""
    return max((last for _, last in _ranges(files, None)), default=0)


def _ranges(files: StoredFiles, branch: str | None) -> Iterable[tuple[int, int]]:
    """(least, greatest seq) of each file of the ledger, or of those that may hold rows of `branch`."""
    actions = files.actions
    if actions.num_rows:
        unknown = [None] * actions.num_rows  # of names that are long the log has no bounds
        names = ("min.seq", "max.seq", "min.branch", "max.branch")
        columns = (
            actions.column(name).to_pylist() if name in actions.column_names else unknown for name in names
        )
        for first, last, least, greatest in zip(*columns, strict=True):
            if branch is None or least is None or greatest is None or least <= branch <= greatest:
                yield first, last
