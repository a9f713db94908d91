"""Writes rows of one table as Parquet files piece by piece, each piece while the caller makes the next one.
Commits nothing.

Knows no table by name. Pieces of one partition value go into one file until it is large, so that many pieces
don't make many files. A process may have few files open: when there are too many, the least recently written
one is closed.
"""

import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

import pyarrow as pa

from slackwater.jobs.tables.delta.folder import Folder
from slackwater.jobs.tables.delta.parquet import SealedWriter, output_stream
from slackwater.jobs.tables.delta.partitions import by_partition, folder_of
from slackwater.jobs.tables.delta.statistics import Statistics
from slackwater.jobs.tables.delta.written_files import (
    WrittenFile,
    encoding,
    filesystem,
    hardly_repeats,
    of_type,
)
from slackwater.jobs.tables.storage_errors import not_writable

_FILE_ROWS = 4 << 20
_OPEN_FILES = 64  # two tables may be written at once, and macOS allows a process 256


class Parts:
    """Writes the new files of one table, for `Folder.commit_files`. At most one piece is being written while
    one waits.

    Args:
        folder: the table; it has one partition column or none.
        file_rows: a file that has so many rows gets no more.
    """

    def __init__(self, folder: Folder, file_rows: int = _FILE_ROWS) -> None:
        self._folder, self._file_rows = folder, file_rows
        self._open_files: dict[str | None, _OpenFile] = {}  # the least recently written one comes first
        self._closed_files: list[WrittenFile] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"write {folder.name}")
        self._writing: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown()

    def add(self, rows: pa.Table) -> None:
        """Write `rows`, which have the table's columns, in their order. Returns before they are written.
        A column of texts may be a dictionary, in all pieces or in none.

        Raises:
            WarehouseNotWritable: these rows, or those added before, can't be written.
        """
        self._wait()
        if rows.num_rows:
            columns = {
                field.name: of_type(rows.column(field.name), field.type) for field in self._folder.schema
            }
            self._writing = self._thread.submit(self._write, pa.table(columns).unify_dictionaries())

    def close(self) -> list[WrittenFile]:
        """Close the files, and return all files with the rows that were added.

        Raises:
            WarehouseNotWritable: they can't be written.
        """
        self._wait()
        return [*self._closed_files, *(file.close() for file in self._open_files.values())]

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def _write(self, rows: pa.Table) -> None:
        for value, partition_rows in by_partition(rows, self._folder.partition_by):
            file = self._open_files.pop(value, None)
            if file is None:
                if len(self._open_files) >= _OPEN_FILES:
                    self._close(next(iter(self._open_files)))
                file = _OpenFile(self._folder, value, partition_rows)
            self._open_files[value] = file
            file.write(partition_rows)
            if file.statistics.rows >= self._file_rows:
                self._close(value)

    def _close(self, value: str | None) -> None:
        self._closed_files.append(self._open_files.pop(value).close())


class _OpenFile:
    """One file that is being written.

    Args:
        folder: the table.
        value: the partition value of its rows, as text.
        first: its first rows; they decide how the columns are encoded.
    """

    def __init__(self, folder: Folder, value: str | None, first: pa.Table) -> None:
        self._folder, self.statistics = folder, Statistics()
        self._partition: dict[str, str | None] = dict.fromkeys(folder.partition_by, value)
        below = folder_of(folder.partition_by, value)
        self._path = f"{below}part-{uuid.uuid4().hex}.parquet"
        files = filesystem(folder.uri)
        try:
            files.create_dir(below or ".", recursive=True)
            self._sink = output_stream(files, self._path)
            as_differences = [name for name in first.column_names if hardly_repeats(first.column(name))]
            self._writer = SealedWriter(self._sink, first.schema, **encoding(as_differences, first.schema))
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
        except OSError as error:
            raise not_writable(self._folder.uri, error) from error
        return WrittenFile(
            self._path, self._partition, self.statistics.rows, self._writer.size, self.statistics.to_json()
        )
