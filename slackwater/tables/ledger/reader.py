"""Reads `runs`, the ledger: the only table that says which rows of all other tables exist."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.foreign_changes import refuse_foreign
from slackwater.tables.delta.open_table import OpenTable
from slackwater.tables.delta.stored_files import StoredFiles, Within
from slackwater.tables.errors import NoRuns
from slackwater.tables.ledger.erasures import Remainders
from slackwater.tables.ledger.ledger_files import (
    Condition,
    LedgerFile,
    LiveRuns,
    columns_of_files,
    ledger_files,
    plain_values,
    revised_rows,
    rows_of_files,
)
from slackwater.tables.ledger.rows import MAIN, Branch, LedgerRow, RowKind
from slackwater.tables.ledger.spans import seq_numbers, seqs_of, spans_of
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs

# What a file's bounds are where the log has none.
_SEQ_BOUNDS = (("min.seq", 0), ("max.seq", np.iinfo(np.int64).max))


class LedgerReader:
    """Reads the ledger of one pipeline, at the version of `table` or, with None, as of each call. Files are
    chosen by their statistics.

    Raises (every method):
        NewerFormat: a row was written by a newer version of the product.
    """

    def __init__(self, folder: Folder, table: OpenTable | None = None) -> None:
        self.folder = folder
        self._table = table

    def _files(self, *bounds: Within) -> StoredFiles:
        return self.folder.files(*bounds, table=self._table)

    def rows(self, since: int = 0, until: int | None = None) -> list[LedgerRow]:
        """Rows with since < seq (≤ until), oldest first."""
        return self._rows(self._files(Within("seq", since + 1, until)), _has_seq(since + 1, until))

    def row(self, seq: int) -> LedgerRow:
        """The row of `seq`. Raises NoRuns: there is none."""
        rows = self.rows(seq - 1, seq)
        if not rows:
            raise NoRuns(f"the ledger has no row {seq}; `slackwater runs` lists what it has.", seq=seq)
        return rows[0]

    def newest(self) -> LedgerRow | None:
        """The row of the greatest seq of all branches; None for an empty ledger."""
        files = self._files()
        seq = newest_seq(files)
        if not seq:
            return None
        return self._rows(files.within(Within.only("seq", seq)), _has_seq(seq, seq))[0]

    def columns(self, *names: str) -> pa.Table:
        """Columns of all rows, oldest first, as they were written: erasures and adoptions are no part."""
        rows = columns_of_files(self._files(), list(dict.fromkeys(("seq", *names))))
        return rows.sort_by("seq").select(list(names))

    def newest_rows(self, branch: str, count: int, until: int) -> list[LedgerRow]:
        """The newest `count` rows of `branch` with seq ≤ until, oldest first."""
        files = self._files(Within("seq", None, until))
        rows = columns_of_files(files, ("seq", "branch"))
        seqs = rows.column("seq").filter(pc.equal(rows.column("branch"), branch)).to_numpy()
        rows_by_seq = self._rows_of_seqs(files, np.sort(seqs[seqs <= until])[-count:])
        return [rows_by_seq[seq] for seq in sorted(rows_by_seq)]

    def seqs_by_run_id(self) -> dict[str, int]:
        """run_id → seq of every row. A file of one row is not opened where its statistics tell both."""
        return dict(_values(self._files(), "run_id", "seq"))

    def by_run_id(self, run_id: str) -> LedgerRow | None:
        files = self._files(Within.only("run_id", run_id))
        return next(iter(self._rows(files, _has("run_id", run_id))), None)

    def head(self, branch: str = MAIN) -> LedgerRow | None:
        """The newest row of `branch`, which may be the one that dropped it; None while there is none."""
        return self._newest_of(self._files(), branch)

    def _newest_of(self, files: StoredFiles, branch: str) -> LedgerRow | None:
        """The newest row of `branch`, from the newest file that may hold one by its statistics."""
        for first, last in sorted(_ranges(files, branch), key=itemgetter(1), reverse=True):
            rows = self._rows(files.within(Within("seq", first, last)), _is_newest_of(branch, first, last))
            if rows:
                return rows[-1]
        return None

    def branch(self, name: str) -> "Branch | None":
        """The branch of that name beside main; None if there is none, or it was dropped."""
        files = self._files(Within.only("branch", name))
        return next((branch for branch in self._branches(files) if branch.name == name), None)

    def branches(self) -> "list[Branch]":
        """Every branch except main that was not dropped, in the order of their forks. Upkeep keeps the runs
        that are live in their heads.
        """
        return self._branches(_with_other_branches(self._files(), MAIN))

    def _branches(self, files: StoredFiles) -> "list[Branch]":
        heads: dict[str, tuple[int, str]] = {}
        forks: dict[str, int] = {}
        rows_of_branches = _values(files, "seq", "branch", "kind", without=("branch", MAIN))
        for seq, branch, kind in sorted(rows_of_branches):
            heads[branch] = seq, kind
            if kind == RowKind.FORK:
                forks[branch] = seq
        pairs = [(forks[name], seq) for name, (seq, kind) in heads.items() if kind != RowKind.DROP]
        rows = self._rows_of_seqs(files, np.array(pairs, np.int64).ravel())
        return [Branch(rows[fork], rows[head]) for fork, head in sorted(pairs)]

    def runs_on(self, branch: "Branch") -> LiveRuns:
        """The runs that were made on a branch and are live there, in slice order."""
        return self.live_runs(replace(branch.head, live=spans_of(branch.own_seqs)))

    def live_runs(self, head: LedgerRow, since: datetime | None = None) -> LiveRuns:
        """The run and close rows of `head`'s branch in slice order, with `since` only slices that end after
        it. Other files are not read.
        """
        files = ledger_files(self._live_files(head, since))
        stored_seqs = [file.column("seq").to_numpy() for file in files]
        places = _places_of(seq_numbers(head.live), np.concatenate([np.zeros(0, np.int64), *stored_seqs]))
        live_runs = LiveRuns(files, places[places >= 0], self._known_remainders())
        if since is None or not files:
            return live_runs
        return live_runs.where(live_runs.ends_after(since))

    def live_reads(self, head: LedgerRow, table: str) -> pa.Table:
        """How the live runs of `head`'s branch have read a source, in slice order: columns from_ms and to_ms
        (the slice in milliseconds), version and table_id.
        """
        seqs = seq_numbers(head.live)
        rows = columns_of_files(self._live_files(head), ("seq", "slice_start", "slice_end", "inputs"))
        places = _places_of(seqs, rows.column("seq").to_numpy())
        rows = rows.take(pa.array(places[places >= 0]))
        inputs = rows.column("inputs").combine_chunks()
        runs, items = pc.list_parent_indices(inputs), pc.list_flatten(inputs)
        is_of_table = pc.equal(pc.struct_field(items, "table"), table)
        runs, items = runs.filter(is_of_table), items.filter(is_of_table)
        reads = rows.take(runs)
        slices = (
            pa.array(reads.column(name).cast(pa.int64()).to_numpy() // 1000)
            for name in ("slice_start", "slice_end")
        )
        names = ["from_ms", "to_ms", "version", "table_id"]
        return pa.table([*slices, *(pc.struct_field(items, name) for name in names[2:])], names)

    def live_values(
        self, head: LedgerRow, *columns: str, prefixes: Collection[str] = ()
    ) -> list[tuple[Any, ...]]:
        """The values of `columns` (numbers, texts, times in whole milliseconds) in the live rows of `head`'s
        branch, in slice order. A file of one row is not opened where its statistics have all values, and no
        row was erased. Texts in `prefixes` may be cut.
        """
        files, seqs = self._live_files(head), seqs_of(head.live)
        if self.erasures():
            rows = self._rows_of_seqs(files, np.array(seqs, np.int64))
            values = {seq: tuple(getattr(row, name) for name in columns) for seq, row in rows.items()}
        else:
            rows_of_values = _values(files, "seq", *columns, prefixes=prefixes)
            values = {row_values[0]: row_values[1:] for row_values in rows_of_values}
        return [values[seq] for seq in seqs if seq in values]

    def _live_files(self, head: LedgerRow, since: datetime | None = None) -> StoredFiles:
        """The files that may hold live rows whose slice ends after `since`."""
        files = self._files()
        if since is not None:
            files = files.within(Within("slice_end", since, None))
        return _with_one_of(files, np.sort(seq_numbers(head.live)))

    def last_runs(self, head: LedgerRow, count: int, until: datetime) -> list[LedgerRow]:
        """The last `count` live runs of `head`'s branch whose slices end at `until` or before, in slice
        order. Older files are not read.
        """
        seqs, runs = seqs_of(head.live), list[LedgerRow]()
        while seqs and len(runs) < count:
            seqs, newest = seqs[:-count], seqs[-count:]
            runs[:0] = [
                row
                for row in self.live_runs(replace(head, live=spans_of(newest)))
                if row.kind == RowKind.RUN and row.slice_end is not None and row.slice_end <= until
            ]
        return runs[-count:]

    def snapshot_owner(self, head: LedgerRow) -> LedgerRow | None:
        """The row whose files are the current snapshot of `head`'s branch: the last seq of its last live
        span; None for a branch that was forked at the start of the lineage and has not run yet.
        """
        if not head.live:
            return None
        last = head.live[-1].last_seq
        if last == head.seq:
            return head
        return self.row(last)

    def erasures(self) -> list[LedgerRow]:
        files = self._files(Within.only("kind", RowKind.ERASE))
        return rows_of_files(files, _has("kind", RowKind.ERASE))

    def remainders(self) -> Remainders:
        return Remainders.after(row.erased for row in self.erasures())

    def erasing_versions(self, table: str, table_id: str) -> frozenset[int]:
        """The versions of a source that deleted rows for an erasure, which count as never written."""
        inputs = (item for row in self.erasures() for item in row.inputs)
        return frozenset(item.version for item in inputs if item.table == table and item.table_id == table_id)

    def _rows_of_seqs(self, files: StoredFiles, seqs: Longs) -> dict[int, LedgerRow]:
        """seq → its row, for `seqs` in the files."""
        sorted_seqs = np.sort(seqs)

        def condition(file: LedgerFile) -> pa.Array:
            return pa.array(_are_among(file.column("seq").to_numpy(), sorted_seqs))

        return {row.seq: row for row in self._rows(_with_one_of(files, sorted_seqs), condition)}

    def _rows(self, files: StoredFiles, condition: Condition) -> list[LedgerRow]:
        """The rows of the files for which `condition` holds, oldest first; after an erasure with the hashes,
        files and counts of the remaining rows.
        """
        rows = rows_of_files(files, condition)
        return revised_rows(rows, self._known_remainders())

    def _known_remainders(self) -> Remainders:
        """`remainders` by the log as it was read last."""
        files = self.folder.known_files(Within.only("kind", RowKind.ERASE))
        erasures = rows_of_files(files, _has("kind", RowKind.ERASE))
        return Remainders.after(row.erased for row in erasures)

    def start_of(self, head: LedgerRow) -> datetime:
        """The start of the first live slice of `head`'s branch; without live runs that of its fork row."""
        first_seq, start = head.live[0].first_seq if head.live else head.seq, head.slice_start
        if first_seq != head.seq:
            starts = dict(_values(self._files(Within.only("seq", first_seq)), "seq", "slice_start"))
            start = starts.get(first_seq)
        assert start is not None
        return start


def newest_row_of(runs: Folder) -> LedgerRow | None:
    """The newest row of a ledger. Raises ForeignCommits: others have changed rows or columns."""
    table = runs.find()
    refuse_foreign(runs.foreign_commits(None))
    newest = LedgerReader(runs, table).newest()
    if newest is not None and runs.name in newest.table_versions:
        refuse_foreign(runs.foreign_commits(newest.table_versions[runs.name]))
    return newest


def _values(
    files: StoredFiles,
    *columns: str,
    prefixes: Collection[str] = (),
    without: tuple[str, str] | None = None,
) -> list[tuple[Any, ...]]:
    """The values of `columns` in all rows of the files, except where `without` has a certain value. A file of
    one row is not opened where its statistics have all values; for `prefixes` see
    `StoredFiles.values_in_log`.
    """
    in_log = files.values_in_log(*columns, prefixes=prefixes)
    others, values = columns_of_files(files.among(set(files.paths) - in_log.keys()), columns), in_log.values()
    if without is None:
        return [*values, *zip(*map(plain_values, others.columns), strict=True)]
    name, other_value = without
    others, place = others.filter(pc.not_equal(others.column(name), other_value)), columns.index(name)
    values_left = (row for row in values if row[place] != other_value)
    return [*values_left, *zip(*map(plain_values, others.columns), strict=True)]


def _has(column: str, value: str) -> Condition:
    return lambda file: pc.equal(file.column(column), value)


def _has_seq(first: int, last: int | None) -> Condition:
    """Rows with first ≤ seq ≤ last; None for no last one."""

    def condition(file: LedgerFile) -> pa.Array:
        seqs = file.column("seq")
        is_after = pc.greater_equal(seqs, first)
        return is_after if last is None else pc.and_(is_after, pc.less_equal(seqs, last))

    return condition


def _is_newest_of(branch: str, first: int, last: int) -> Condition:
    """Of each file the newest row of a branch with first ≤ seq ≤ last."""
    has_seq, is_of_branch = _has_seq(first, last), _has("branch", branch)

    def condition(file: LedgerFile) -> pa.Array:
        is_candidate = pc.and_(has_seq(file), is_of_branch(file))
        seqs = file.column("seq")
        return pc.and_(is_candidate, pc.equal(seqs, pc.max(seqs.filter(is_candidate))))

    return condition


def _are_among(seqs: Longs, sorted_seqs: Longs) -> Booleans:
    places = np.searchsorted(sorted_seqs, seqs)
    is_among: Booleans = np.append(sorted_seqs, -1)[places] == seqs
    return is_among


def _places_of(seqs: Longs, stored_seqs: Longs) -> Longs:
    """The place of each of `seqs` in `stored_seqs`, -1 for none."""
    order = np.argsort(stored_seqs, kind="stable")
    places = np.searchsorted(stored_seqs, seqs, sorter=order)
    has_place = np.append(stored_seqs[order], -1)[places] == seqs
    found_places: Longs = np.where(has_place, np.append(order, -1)[places], -1)
    return found_places


def _with_one_of(files: StoredFiles, seqs: Longs) -> StoredFiles:
    if not {"min.seq", "max.seq"} <= set(files.actions.column_names):
        return files
    first, last = (files.actions.column(name).fill_null(bound) for name, bound in _SEQ_BOUNDS)
    has_one = np.searchsorted(seqs, first.to_numpy()) < np.searchsorted(seqs, last.to_numpy(), side="right")
    return replace(files, actions=files.actions.filter(pa.array(has_one)))


def newest_seq(files: StoredFiles) -> int:
    """The newest seq of all branches, from the files' statistics where they have some; 0 for none."""
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
        for place, (first, last, least, greatest) in enumerate(zip(*columns, strict=True)):
            if branch is None or least is None or greatest is None or least <= branch <= greatest:
                if first is None or last is None:
                    first, last = _seqs_in_file(replace(files, actions=actions.slice(place, 1)))
                if first is not None and last is not None:
                    yield first, last


def _seqs_in_file(file: StoredFiles) -> tuple[int | None, int | None]:
    """The least and greatest seq of a file without statistics, which a table's property may switch off."""
    [ledger_file] = ledger_files(file)
    bounds = pc.min_max(ledger_file.column("seq"))
    return bounds["min"].as_py(), bounds["max"].as_py()


def _with_other_branches(files: StoredFiles, branch: str) -> StoredFiles:
    if not {"min.branch", "max.branch"} <= set(files.actions.column_names):
        return files
    bounds = (files.actions.column(name).to_pylist() for name in ("min.branch", "max.branch"))
    paths = [path for path, *pair in zip(files.paths, *bounds, strict=True) if pair != [branch, branch]]
    return files.among(paths)
