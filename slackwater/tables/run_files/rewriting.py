"""Erases rows from the files of a table for good: writes the remaining rows into new files, swaps the files
in one commit, and deletes the files that the log no longer names. Knows no table by name.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Transaction

from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.open_table import OpenTable
from slackwater.tables.delta.parquet import open_verified
from slackwater.tables.delta.parts import Parts
from slackwater.tables.delta.statistics import Statistics
from slackwater.tables.delta.stored_files import StoredFiles
from slackwater.tables.delta.written_files import WrittenFile, partition_of
from slackwater.tables.errors import CommitConflict
from slackwater.tables.ledger.erasures import ErasedRows
from slackwater.tables.run_files.staging import as_hashed
from slackwater.tables.stores import filesystem
from slackwater.windowing.snapshot import ContentHash

log = logging.getLogger("slackwater")

_ROWS_AT_ONCE = 1 << 17
_RUN = "run_id"


@dataclass(frozen=True)
class Selection:
    """Rows of one table that are to be erased.

    Attributes:
        folder: the table, with its columns in storage.
        columns: the columns that `is_selected` reads.
        is_selected: rows with these columns → a mask.
        is_hashed: whether the ledger has a hash of each run's rows in the table.
        columns_to_blank: columns that become null in the selected rows; if empty, the rows are deleted.
    """

    folder: Folder
    columns: tuple[str, ...]
    is_selected: Callable[[pa.Table], pa.Array | pa.ChunkedArray]
    is_hashed: bool = False
    columns_to_blank: tuple[str, ...] = ()

    def count(self) -> int:
        return sum(self._selected_in(one) for one in self._files().one_by_one())

    def write(self) -> list[ErasedRows]:
        """Write the remaining rows of files with selected rows into new files; returns the files to swap in a
        commit, and the erased rows of each run. Commits nothing.
        """
        erased_rows: list[ErasedRows] = []
        files, by_run = self._files(), defaultdict[str, _RowTotal](_RowTotal)
        swaps_by_run: dict[str | None, list[tuple[str, list[str]]]] = defaultdict(list)
        for one in files.one_by_one():
            if self._selected_in(one):
                [path] = one.paths
                new_paths = [file.path for file in self._write_rows_left(one, by_run)]
                swaps_by_run[self._run_of(path)].append((path, new_paths))
        for run_id, swaps in swaps_by_run.items():
            removed_files = tuple(path for path, _ in swaps)
            remaining_files = tuple(path for _, paths in swaps for path in paths)
            if run_id is not None:
                remaining_files = (
                    *(
                        path
                        for path in files.paths
                        if self._run_of(path) == run_id and path not in removed_files
                    ),
                    *remaining_files,
                )
            rows = by_run.pop(run_id, _RowTotal()) if run_id is not None else _RowTotal()
            total = rows.rows if run_id is not None else sum(item.rows for item in by_run.values())
            erased_rows.append(
                ErasedRows(
                    table=self.folder.name,
                    run_id=run_id,
                    rows=total,
                    hash=rows.text(self),
                    removed=removed_files,
                    files=remaining_files,
                )
            )
        # The rows erased of each run in files that runs share.
        erased_rows += [
            ErasedRows(table=self.folder.name, run_id=run, rows=item.rows, hash=item.text(self))
            for run, item in by_run.items()
            if run
        ]
        return erased_rows

    def _files(self) -> StoredFiles:
        return self.folder.files(table=self.folder.open())

    def _selected_in(self, file: StoredFiles) -> int:
        parts = file.scan(list(self.columns), None, _ROWS_AT_ONCE)
        return sum(pc.sum(self._mask(part)).as_py() or 0 for part in parts)

    def _mask(self, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        return pc.fill_null(self.is_selected(rows), False)

    def _run_of(self, path: str) -> str | None:
        """The run whose partition has the file; None where runs share files."""
        return partition_of(path).get(_RUN)

    def _write_rows_left(self, file: StoredFiles, by_run: "dict[str, _RowTotal]") -> list[WrittenFile]:
        """Write the remaining rows of `file` into a new file, and count the selected ones in `by_run`."""
        names = self.folder.schema.names
        with Parts(self.folder, file_rows=1 << 62) as parts:
            for rows in file.scan(names, None, _ROWS_AT_ONCE):
                mask = self._mask(rows)
                selected_rows = rows.filter(mask)
                for run_id, rows_of_run in _rows_by_run(selected_rows):
                    by_run[run_id].add(self, rows_of_run)
                parts.add(self._blank(rows, mask) if self.columns_to_blank else rows.filter(pc.invert(mask)))
            return parts.close()

    def _blank(self, rows: pa.Table, mask: pa.Array | pa.ChunkedArray) -> pa.Table:
        for name in self.columns_to_blank:
            place, kind = rows.schema.get_field_index(name), rows.schema.field(name).type
            rows = rows.set_column(place, name, pc.if_else(mask, pa.scalar(None, kind), rows.column(name)))
        return rows


class _RowTotal:
    def __init__(self) -> None:
        self.rows, self._hash = 0, ContentHash()

    def add(self, selection: Selection, rows: pa.Table) -> None:
        self.rows += rows.num_rows
        if selection.is_hashed:
            name = selection.folder.name
            self._hash.add(name, as_hashed(name, rows.drop_columns([_RUN])), without=())

    def text(self, selection: Selection) -> str | None:
        """The hash; None where the ledger has none to compare it with."""
        return str(self._hash) if selection.is_hashed else None


def put_in_place(
    erased_rows: Iterable[ErasedRows],
    folder: Folder,
    table: OpenTable,
    transaction: Transaction | None = None,
) -> None:
    """Swap the files that `erased_rows` names, in one commit on the version of `table`, except those that
    were swapped or rewritten meanwhile. Raises CommitConflict: the table has moved.
    """
    stored_files = folder.files(table=table)
    stored_paths, removed_paths, added_files = set(stored_files.paths), set[str](), list[WrittenFile]()
    for item in erased_rows:
        if not item.removed or not stored_paths.issuperset(item.removed):
            if stored_paths & set(item.removed):
                log.warning(
                    f"{folder.uri}: somebody else has rewritten files that hold erased rows; erase them again"
                )
            continue
        removed_paths |= set(item.removed)
        added_files += [describe_file(folder, path) for path in item.files if path not in stored_paths]
    removed_files = stored_files.among(removed_paths) if removed_paths else None
    folder.commit_files(added_files, removed_files, table, transaction)


def put_all_in_place(folder: Folder, erased_rows: Sequence[ErasedRows]) -> None:
    """`put_in_place` on the newest version of the table, tried again as often as the table moves."""
    while True:
        try:
            put_in_place(erased_rows, folder, folder.open())
        except CommitConflict:
            continue
        return


def describe_file(folder: Folder, path: str) -> WrittenFile:
    files, statistics = filesystem(folder.uri), Statistics()
    with open_verified(folder.uri, files, path) as file:
        for batch in file.iter_batches():
            statistics.add(pa.Table.from_batches([batch]))
    return WrittenFile(
        path, partition_of(path), statistics.rows, files.get_file_info(path).size, statistics.to_json()
    )


def delete_dead(
    folder: Folder, removed_paths: Iterable[str], before: datetime, spared_texts: Sequence[str]
) -> int:
    """Delete files that the table's log does not name: `removed_paths`, and all that were written before
    `before` and have none of `spared_texts` in their names. Returns how many.
    """
    files, removed_set = filesystem(folder.uri), set(removed_paths)
    table = folder.open().as_delta_rs()
    dead_paths = [
        unquote(path)
        for path in table.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False, full=True)
    ]
    infos = files.get_file_info(dead_paths) if dead_paths else []
    paths_to_delete = [
        path
        for path, info in zip(dead_paths, infos, strict=True)
        if path in removed_set
        or (info.mtime is not None and info.mtime < before and not any(text in path for text in spared_texts))
    ]
    for path in paths_to_delete:
        files.delete_file(path)
    return len(paths_to_delete)


def _rows_by_run(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Each run_id with its rows; "" for rows of a table that knows no runs."""
    if _RUN not in rows.column_names:
        if rows.num_rows:
            yield "", rows
        return
    run_ids = rows.column(_RUN)
    for run_id in dict.fromkeys(run_ids.to_pylist()):
        yield run_id, rows.filter(pc.equal(run_ids, run_id))
