"""Takes rows out of the files of a table for good: writes what is left beside them, puts it into the log in
one commit, and deletes what no log names.

Knows no table by name, and not which rows go. Nothing here is of use to upkeep, which changes no row.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Transaction

from slackwater.jobs.tables.delta.folder import Folder
from slackwater.jobs.tables.delta.parquet import open_verified
from slackwater.jobs.tables.delta.partitions import partition_of
from slackwater.jobs.tables.delta.parts import Parts
from slackwater.jobs.tables.delta.statistics import Statistics
from slackwater.jobs.tables.delta.stored_files import StoredFiles
from slackwater.jobs.tables.delta.written_files import WrittenFile, filesystem
from slackwater.jobs.tables.errors import CommitConflict
from slackwater.jobs.tables.ledger.erasures import ErasedRows
from slackwater.windowing.snapshot import ContentHash

log = logging.getLogger("slackwater")

_ROWS_AT_ONCE = 1 << 17
_RUN = "run_id"


@dataclass(frozen=True)
class Selection:
    """Rows of one table that go.

    Attributes:
        folder: the table, with the columns that it has.
        columns: those that `is_selected` looks at.
        is_selected: for each row of a table with these columns, whether it goes.
        is_hashed: whether the ledger has a hash of what each run has there.
        blanked: columns that become null in the rows selected, which stay then; without any they go.
    """

    folder: Folder
    columns: tuple[str, ...]
    is_selected: Callable[[pa.Table], pa.Array | pa.ChunkedArray]
    is_hashed: bool = False
    blanked: tuple[str, ...] = ()

    def count(self) -> int:
        """How many rows are selected."""
        return sum(self._selected_in(one) for one in _one_by_one(self._files()))

    def write(self) -> list[ErasedRows]:
        """Write what is left of the files that hold such rows, and say what a commit has to put in their
        place. Commits nothing.
        """
        erased: list[ErasedRows] = []
        files, by_run = self._files(), defaultdict[str, _Rows](_Rows)
        changed: dict[str | None, list[tuple[str, list[str]]]] = defaultdict(list)
        for one in _one_by_one(files):
            if self._selected_in(one):
                [path] = _paths(one)
                written = [file.path for file in self._left_of(one, by_run)]
                changed[self._run_of(path)].append((path, written))
        for run_id, swaps in changed.items():
            removed = tuple(path for path, _ in swaps)
            remaining_files = tuple(path for _, paths in swaps for path in paths)
            if run_id is not None:
                remaining_files = (
                    *(path for path in _paths(files) if self._run_of(path) == run_id and path not in removed),
                    *remaining_files,
                )
            rows = by_run.pop(run_id, _Rows()) if run_id is not None else _Rows()
            total = rows.rows if run_id is not None else sum(item.rows for item in by_run.values())
            erased.append(
                ErasedRows(
                    table=self.folder.name,
                    run_id=run_id,
                    rows=total,
                    hash=rows.text(self),
                    removed=removed,
                    files=remaining_files,
                )
            )
        # Of files that runs share, what went of each run.
        erased += [
            ErasedRows(table=self.folder.name, run_id=run, rows=item.rows, hash=item.text(self))
            for run, item in by_run.items()
            if run
        ]
        return erased

    def _files(self) -> StoredFiles:
        return self.folder.files(table=self.folder.open())

    def _selected_in(self, file: StoredFiles) -> int:
        parts = file.scan(list(self.columns), None, _ROWS_AT_ONCE)
        return sum(pc.sum(self._mask(part)).as_py() or 0 for part in parts)

    def _mask(self, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        return pc.fill_null(self.is_selected(rows), False)

    def _run_of(self, path: str) -> str | None:
        """The run whose partition a file stands in; None where runs share files."""
        return partition_of(path).get(_RUN)

    def _left_of(self, file: StoredFiles, by_run: "dict[str, _Rows]") -> list[WrittenFile]:
        names = self.folder.schema.names
        with Parts(self.folder, file_rows=1 << 62) as parts:
            for rows in file.scan(names, None, _ROWS_AT_ONCE):
                mask = self._mask(rows)
                going = rows.filter(mask)
                run_ids = going.column(_RUN).to_pylist() if _RUN in names else [""] * going.num_rows
                for run_id in dict.fromkeys(run_ids):
                    own = going.filter(pc.equal(going.column(_RUN), run_id)) if _RUN in names else going
                    by_run[run_id].add(self, own)
                parts.add(self._blank(rows, mask) if self.blanked else rows.filter(pc.invert(mask)))
            return parts.close()

    def _blank(self, rows: pa.Table, mask: pa.Array | pa.ChunkedArray) -> pa.Table:
        for name in self.blanked:
            place, kind = rows.schema.get_field_index(name), rows.schema.field(name).type
            rows = rows.set_column(place, name, pc.if_else(mask, pa.scalar(None, kind), rows.column(name)))
        return rows


class _Rows:
    """Rows that go: how many, and their hash."""

    def __init__(self) -> None:
        self.rows, self._hash = 0, ContentHash()

    def add(self, selection: Selection, rows: pa.Table) -> None:
        self.rows += rows.num_rows
        if selection.is_hashed:
            self._hash.add(selection.folder.name, rows.drop_columns([_RUN]), without=())

    def text(self, selection: Selection) -> str | None:
        """The hash; None where the ledger has none to compare it with."""
        return str(self._hash) if selection.is_hashed else None


def put_in_place(
    folder: Folder, erased: Iterable[ErasedRows], table: DeltaTable, transaction: Transaction | None = None
) -> None:
    """Swap files as `erased` says, in one commit on `table`; what is swapped already stays, and what somebody
    else has rewritten meanwhile.

    Raises:
        CommitConflict: the table has moved.
    """
    stored = folder.files(table=table)
    there, removed, added = set(_paths(stored)), set[str](), list[WrittenFile]()
    for item in erased:
        if not item.removed or not there.issuperset(item.removed):
            if there & set(item.removed):
                log.warning(
                    f"{folder.uri}: somebody else has rewritten files that hold erased rows; erase them again"
                )
            continue
        removed |= set(item.removed)
        added += [described(folder, path) for path in item.files if path not in there]
    folder.commit_files(added, stored.among(removed) if removed else None, table, transaction)


def put_all_in_place(folder: Folder, erased: Sequence[ErasedRows]) -> None:
    """`put_in_place` on the table as it stands, however often it moves."""
    while True:
        try:
            put_in_place(folder, erased, folder.open())
        except CommitConflict:
            continue
        return


def described(folder: Folder, path: str) -> WrittenFile:
    """A file that lies in the folder, as a commit has to describe it."""
    files, statistics = filesystem(folder.uri), Statistics()
    with open_verified(folder.uri, files, path) as file:
        for batch in file.iter_batches():
            statistics.add(pa.Table.from_batches([batch]))
    return WrittenFile(
        path, partition_of(path), statistics.rows, files.get_file_info(path).size, statistics.to_json()
    )


def delete_dead(folder: Folder, removed: Iterable[str], before: datetime, spared: Sequence[str]) -> int:
    """Delete, at once, the files that the table's log does not name: those of `removed`, and all that were
    written before the moment `before` and have no text of `spared` in their names. Returns how many."""
    files, gone = filesystem(folder.uri), set(removed)
    table = folder.open()
    dead = [
        unquote(path)
        for path in table.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False, full=True)
    ]
    infos = files.get_file_info(dead) if dead else []
    going = [
        path
        for path, info in zip(dead, infos, strict=True)
        if path in gone
        or (info.mtime is not None and info.mtime < before and not any(text in path for text in spared))
    ]
    for path in going:
        files.delete_file(path)
    return len(going)


def _one_by_one(files: StoredFiles) -> list[StoredFiles]:
    return [
        replace(files, actions=files.actions.slice(number, 1)) for number in range(files.actions.num_rows)
    ]


def _paths(files: StoredFiles) -> list[str]:
    return (
        [unquote(path) for path in files.actions.column("path").to_pylist()] if files.actions.num_rows else []
    )
