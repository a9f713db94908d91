"""Writes rows of one table as Parquet files piece by piece, each piece while the caller makes the next one.
Commits nothing, and knows no table by name.

Pieces of one partition value go into one file until it is large, or in a clustered table until it has enough
rows (see `clustering`). When too many files are open, the least recently written one is closed.
"""

import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import NamedTuple, Self

import pyarrow as pa

from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.parquet import SealedWriter, output_stream
from slackwater.tables.delta.statistics import Statistics
from slackwater.tables.delta.written_files import (
    WrittenFile,
    by_partition,
    cast_unless_encoded,
    columns_as_differences,
    encoding,
    folder_of,
)
from slackwater.tables.storage_errors import not_writable
from slackwater.tables.stores import filesystem, is_local

_FILE_ROWS = 4 << 20
_OPEN_FILES = 64  # two tables may be written at once, and macOS allows a process 256


class Parts:
    """Writes the new files of one table, for `Folder.commit_files`. One piece is written while one waits.

    Args:
        folder: the table; it has one partition column or none.
        file_rows: a file with so many rows gets no more; None: as the table has it.
        name: part of the files' names, for a task that may be tried again with the same rows in the same
            pieces: its files replace what an earlier try has left. None for unique names.
    """

    def __init__(self, folder: Folder, file_rows: int | None = None, name: str | None = None) -> None:
        clustering = folder.clustering
        self._folder = folder
        self._name = name
        self._file_count = 0
        self._clustering = None if clustering is None or file_rows is not None else clustering
        self._file_rows = file_rows or (_FILE_ROWS if clustering is None else clustering.file_rows)
        self._open_files: dict[_FileKey, _OpenFile] = {}  # the least recently written one comes first
        self._closed_files: list[WrittenFile] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"write {folder.name}")
        self._writing: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown()

    def add(self, rows: pa.Table, band: int | None = None) -> None:
        """Write `rows` with the table's columns; returns before they are written. Rows keep their order
        unless the table is clustered. A column of texts may be a dictionary, in all pieces or in none. Each
        `band` has files of its own. Raises WarehouseNotWritable: these rows, or earlier ones, can't be
        written.
        """
        self._wait()
        if rows.num_rows:
            columns = {
                field.name: cast_unless_encoded(rows.column(field.name), field.type)
                for field in self._folder.schema
            }
            self._writing = self._thread.submit(self._write, pa.table(columns).unify_dictionaries(), band)

    def close(self) -> list[WrittenFile]:
        self._wait()
        return [*self._closed_files, *(file.close() for file in self._open_files.values())]

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def _write(self, rows: pa.Table, band: int | None) -> None:
        for value, partition_rows in by_partition(rows, self._folder.partition_by):
            key = _FileKey(value, band)
            for number, piece in enumerate(self._pieces(partition_rows, key)):
                if number and key in self._open_files:
                    self._close(key)
                self._append(piece, key)

    def _pieces(self, rows: pa.Table, key: "_FileKey") -> Iterator[pa.Table]:
        if self._clustering is None:
            yield rows
            return
        file = self._open_files.get(key)
        yield from self._clustering.pieces(rows, 0 if file is None else file.statistics.rows)

    def _append(self, rows: pa.Table, key: "_FileKey") -> None:
        file = self._open_files.pop(key, None)
        if file is None:
            if len(self._open_files) >= _OPEN_FILES:
                self._close(next(iter(self._open_files)))
            file = _OpenFile(self._folder, key.value, rows, self._new_name())
        self._open_files[key] = file
        file.write(rows)
        if file.statistics.rows >= self._file_rows:
            self._close(key)

    def _new_name(self) -> "_FileName":
        if self._name is None:
            return _FileName(f"part-{uuid.uuid4().hex}.parquet", may_exist=False)
        self._file_count += 1
        return _FileName(f"part-{self._name}-{self._file_count}.parquet", may_exist=True)

    def _close(self, key: "_FileKey") -> None:
        self._closed_files.append(self._open_files.pop(key).close())


class _FileKey(NamedTuple):
    """Partition value (as text) and band of an open file."""

    value: str | None
    band: int | None


class _FileName(NamedTuple):
    """The name of a new file, and whether another try may have left such a file."""

    text: str
    may_exist: bool


class _OpenFile:
    """One file that is being written; the rows in `first` decide how its columns are encoded.

    An object store has a file once it is complete. In a folder, a file whose name may exist is written beside
    it and moved there in one step: two tries may write it at once, and one of them may die.
    """

    def __init__(self, folder: Folder, value: str | None, first: pa.Table, name: _FileName) -> None:
        self._folder, self.statistics = folder, Statistics()
        self._partition: dict[str, str | None] = dict.fromkeys(folder.partition_by, value)
        below = folder_of(folder.partition_by, value)
        self._path = self._written_path = below + name.text
        if name.may_exist and is_local(folder.uri):
            self._written_path = f"{self._path}.{uuid.uuid4().hex}"
        files = filesystem(folder.uri)
        try:
            files.create_dir(below or ".", recursive=True)
            self._sink = output_stream(files, self._written_path)
            as_differences = columns_as_differences(first)
            # A file of a clustered table is seldom more than one row group, and the log has its bounds.
            bounds = None if folder.clustering is None else (folder.clustering.column,)
            options = encoding(as_differences, first.schema, bounds)
            self._writer = SealedWriter(self._sink, first.schema, **options)
        except OSError as error:
            raise not_writable(folder.uri, error) from error

    def write(self, rows: pa.Table) -> None:
        try:
            self._writer.write(rows)
        except OSError as error:
            raise not_writable(self._folder.uri, error) from error
        self.statistics.add(rows)

    def close(self) -> WrittenFile:
        try:
            self._writer.close()
            self._sink.close()
            if self._written_path != self._path:
                filesystem(self._folder.uri).move(self._written_path, self._path)
        except OSError as error:
            raise not_writable(self._folder.uri, error) from error
        return WrittenFile(
            self._path, self._partition, self.statistics.rows, self._writer.size, self.statistics.to_json()
        )
