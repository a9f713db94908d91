"""Reads `runs`, the ledger: the only table that says which rows of all other tables exist."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import datetime
from operator import itemgetter
from typing import Any

from slackwater.jobs.tables.delta.folder import Folder
from slackwater.jobs.tables.delta.stored_files import StoredFiles, Within
from slackwater.jobs.tables.errors import NoRuns
from slackwater.jobs.tables.ledger.erasures import Remainders
from slackwater.jobs.tables.ledger.ledger_files import rows_of_files
from slackwater.jobs.tables.ledger.row_kinds import RowKind
from slackwater.jobs.tables.ledger.rows import MAIN, Branch, Input, LedgerRow
from slackwater.jobs.tables.ledger.spans import seqs_of, spans_of


class LedgerReader:
    """Reads the ledger of one pipeline. Files that can't hold the rows in question are not read, by their
    statistics.

    Raises (every method):
        NewerFormat: a row was written by a newer version of the product.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def rows(self, since: int = 0, until: int | None = None) -> list[LedgerRow]:
        """Rows with since < seq (≤ until), oldest first."""
        files = self.folder.files(Within("seq", since + 1, until))
        return self._rows(files, lambda row: since < row.seq and (until is None or row.seq <= until))

    def row(self, seq: int) -> LedgerRow:
        """The row of `seq`.

        Raises:
            NoRuns: there is none.
        """
        rows = self.rows(seq - 1, seq)
        if not rows:
            raise NoRuns(f"the ledger has no row {seq}; `slackwater runs` lists what it has.", seq=seq)
        return rows[0]

    def newest(self) -> LedgerRow | None:
        """The row of the greatest seq of all branches; None for an empty ledger."""
        files = self.folder.files()
        seq = newest_seq(files)
        if not seq:
            return None
        return self._rows(files.within(Within.only("seq", seq)), lambda row: row.seq == seq)[0]

    def seqs_by_run_id(self) -> dict[str, int]:
        """run_id → seq of every row. A file of one row is not opened where its statistics tell both."""
        files = self.folder.files()
        pairs = files.values_in_log("run_id", "seq")
        others = self._rows(files.among(path for path in files.paths if path not in pairs), lambda row: True)
        return dict(pairs.values()) | {row.run_id: row.seq for row in others}

    def by_run_id(self, run_id: str) -> LedgerRow | None:
        """The row of the run `run_id`; None where it was not committed."""
        files = self.folder.files(Within.only("run_id", run_id))
        return next(iter(self._rows(files, lambda row: row.run_id == run_id)), None)

    def head(self, branch: str = MAIN) -> LedgerRow | None:
        """The newest row of `branch`, which may be the one that dropped it; None while there is none."""
        return self._newest_of(self.folder.files(), branch)

    def _newest_of(self, files: StoredFiles, branch: str) -> LedgerRow | None:
        """The newest row of `branch`, read from the newest file that may hold one, by the files' statistics
        on branch and seq.
        """
        for first, last in sorted(_ranges(files, branch), key=itemgetter(1), reverse=True):
            rows = self._rows(files.within(Within("seq", first, last)), lambda row: row.branch == branch)
            rows = [row for row in rows if first <= row.seq <= last]
            if rows:
                return rows[-1]
        return None

    def branch(self, name: str) -> "Branch | None":
        """The branch of that name beside main; None if there is none, or it was dropped."""
        files = self.folder.files(Within.only("branch", name))
        return next((branch for branch in self._branches(files) if branch.name == name), None)

    def branches(self) -> "list[Branch]":
        """Every branch beside main that was not dropped, in the order of their forks. Upkeep must keep the
        runs that are live in their heads.
        """
        return self._branches(_with_other_branches(self.folder.files(), MAIN))

    def _branches(self, files: StoredFiles) -> "list[Branch]":
        forks: dict[str, LedgerRow] = {}
        heads: dict[str, LedgerRow] = {}
        for row in self._rows(files, lambda row: row.branch != MAIN):
            heads[row.branch] = row
            if row.kind == RowKind.FORK:
                forks[row.branch] = row
        return [
            Branch(fork, heads[name])
            for name, fork in sorted(forks.items(), key=lambda item: item[1].seq)
            if heads[name].kind != RowKind.DROP
        ]

    def live_runs(self, head: LedgerRow, since: datetime | None = None) -> list[LedgerRow]:
        """The run and close rows that make up `head`'s branch, in slice order; with `since` only those whose
        slice ends after it. Their inputs are the tables that they count as having read, see `RowKind.ADOPT`.

        Files without live rows are not read, nor are files of which all slices end before `since`.
        """
        if not head.live:
            return []
        live_rows = self._rows(
            self._live_files(head, since),
            lambda row: since is None or (row.slice_end is not None and row.slice_end > since),
        )
        rows = {row.seq: row for row in self._as_adopted(head, live_rows)}
        return [rows[seq] for seq in seqs_of(head.live) if seq in rows]

    def live_values(
        self, head: LedgerRow, *columns: str, prefixes: Collection[str] = ()
    ) -> list[tuple[Any, ...]]:
        """The values of `columns` in the rows that make up `head`'s branch, in slice order. A file of one row
        is not opened where its statistics tell all of them, and where no row was erased.

        Args:
            columns: numbers, texts, and times of whole milliseconds.
            prefixes: texts of which the first characters will do.
        """
        files = self._live_files(head)
        in_log = {} if self.erasures() else files.values_in_log("seq", *columns, prefixes=prefixes)
        others = self._rows(files.among(path for path in files.paths if path not in in_log), lambda row: True)
        values = {row_values[0]: row_values[1:] for row_values in in_log.values()}
        values |= {row.seq: tuple(getattr(row, name) for name in columns) for row in others}
        return [values[seq] for seq in seqs_of(head.live) if seq in values]

    def _live_files(self, head: LedgerRow, since: datetime | None = None) -> StoredFiles:
        """The files that may hold live rows whose slice ends after `since`."""
        files = self.folder.files()
        if since is not None:
            files = files.within(Within("slice_end", since, None))
        spans = (files.within(Within("seq", span.first_seq, span.last_seq)) for span in head.live)
        return files.among(path for span in spans for path in span.paths)

    def last_runs(self, head: LedgerRow, count: int, until: datetime) -> list[LedgerRow]:
        """The last `count` runs that make up `head`'s branch of which the slice ends at `until` or before, in
        slice order. Of a longer history no more is read.
        """
        seqs, runs = seqs_of(head.live), list[LedgerRow]()
        while seqs and len(runs) < count:
            seqs, newest = seqs[:-count], seqs[-count:]
            runs = [
                row
                for row in self.live_runs(replace(head, live=spans_of(newest)))
                if row.kind == RowKind.RUN and row.slice_end is not None and row.slice_end <= until
            ] + runs
        return runs[-count:]

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
        """The rows of the ledger that have erased rows of the tables, oldest first."""
        return self._erasures_in(self.folder.files(Within.only("kind", RowKind.ERASE)))

    def _erasures_in(self, files: StoredFiles) -> list[LedgerRow]:
        return [row for row in rows_of_files(files) if row.kind == RowKind.ERASE]

    def remainders(self) -> Remainders:
        """What erasures have left of each run."""
        return Remainders.after(row.erased for row in self.erasures())

    def erasing_versions(self, table: str, table_id: str) -> frozenset[int]:
        """The versions of a source that have deleted rows because of an erasure: these rows count as never
        written.
        """
        inputs = (item for row in self.erasures() for item in row.inputs)
        return frozenset(item.version for item in inputs if item.table == table and item.table_id == table_id)

    def _rows(self, files: StoredFiles, is_wanted: Callable[[LedgerRow], bool]) -> list[LedgerRow]:
        """The wanted rows of the files, oldest first. Hashes, files and counts of a run of which rows were
        erased are those of the rows that are left.
        """
        rows = [row for row in rows_of_files(files) if is_wanted(row)]
        erasures = self._erasures_in(self.folder.files_as_listed(Within.only("kind", RowKind.ERASE)))
        if not erasures:
            return rows
        remainders = Remainders.after(row.erased for row in erasures)
        return [
            replace(
                row,
                state_hash=remainders.state_hash(row.run_id, row.state_hash),
                output_hash=remainders.output_hash(row.run_id, row.output_hash),
                files=remainders.files(row.run_id, row.files),
                windows_open=row.windows_open - remainders.rows(row.run_id, "window_state"),
                timers_pending=row.timers_pending - remainders.rows(row.run_id, "timers"),
            )
            if row.run_id in remainders.of_runs
            else row
            for row in rows
        ]

    def _as_adopted(self, head: LedgerRow, rows: list[LedgerRow]) -> list[LedgerRow]:
        """`rows` as they count at `head`: a run that was live in an adopt row up to `head` has read the table
        that this row declares to be the same as its source, at the version declared.
        """
        candidates = rows_of_files(self.folder.files(Within.only("kind", RowKind.ADOPT)))
        for adoption in (row for row in candidates if row.kind == RowKind.ADOPT and row.seq <= head.seq):
            rows = [
                replace(row, inputs=_adopt_inputs(row.inputs, adoption)) if row.is_live_in(adoption) else row
                for row in rows
            ]
        return rows

    def start_of(self, head: LedgerRow) -> datetime:
        """Where the lineage of `head`'s branch begins: the start of its first live slice; without live runs
        the start that its fork row has.
        """
        first = (
            head if not head.live or head.live[0].first_seq == head.seq else self.row(head.live[0].first_seq)
        )
        assert first.slice_start is not None
        return first.slice_start


def _adopt_inputs(inputs: Iterable[Input], adoption: LedgerRow) -> tuple[Input, ...]:
    """`inputs`, with the table id and version that `adoption` declares for the same table."""
    declared_inputs = {item.table: item for item in adoption.inputs}
    pairs = ((item, declared_inputs.get(item.table)) for item in inputs)
    return tuple(
        item
        if declared_input is None
        else replace(item, table_id=declared_input.table_id, version=declared_input.version)
        for item, declared_input in pairs
    )


def newest_seq(files: StoredFiles) -> int:
    """The newest seq of all branches, from the files' statistics alone; 0 for none."""
    return max((last for _, last in _ranges(files, None)), default=0)


def _ranges(files: StoredFiles, branch: str | None) -> Iterable[tuple[int, int]]:
    """(least, greatest seq) of each file of the ledger, or of those that may hold rows of `branch`."""
    actions = files.actions
    if actions.num_rows:
        unknown = [None] * actions.num_rows  # the log has no bounds of long branch names
        names = ("min.seq", "max.seq", "min.branch", "max.branch")
        columns = (
            actions.column(name).to_pylist() if name in actions.column_names else unknown for name in names
        )
        for first, last, least, greatest in zip(*columns, strict=True):
            if branch is None or least is None or greatest is None or least <= branch <= greatest:
                yield first, last


def _with_other_branches(files: StoredFiles, branch: str) -> StoredFiles:
    """The files of the ledger that may hold rows of other branches than `branch`."""
    if not {"min.branch", "max.branch"} <= set(files.actions.column_names):
        return files
    bounds = (files.actions.column(name).to_pylist() for name in ("min.branch", "max.branch"))
    paths = [path for path, *pair in zip(files.paths, *bounds, strict=True) if pair != [branch, branch]]
    return files.among(paths)
