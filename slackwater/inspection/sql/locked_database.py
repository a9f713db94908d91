"""A DuckDB database in memory that reads files of one folder and nothing else: no other file, no network, no
extension, no variable of Python; it writes nothing, and its settings can't be changed. Errors of statements
are raised as `NotAStatement`.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from slackwater.inspection.sql.select_statements import (
    MEMORY_LIMIT,
    SelectStatement,
    error_of_statement,
    has_place,
)
from slackwater.tables.sql import pattern_of, text

Result = TypeVar("Result")

# DuckDB counts the greater part of what it holds, so the process stays below 500 MB. Without a folder for
# temporary files it spills nothing to disk.
_CONFIGURATION: dict[str, str | bool | int | float | list[str]] = {
    "threads": 2,
    "memory_limit": MEMORY_LIMIT,
    "temp_directory": "",
    "python_enable_replacements": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
}
_LAST_SETTINGS = (
    "TimeZone = 'UTC'",
    "errors_as_json = true",
    # DuckDB takes a list of files whose schema it is given for one row, and would keep all of their rows in
    # memory to join them with a few runs. So the right side of a JOIN is the one that is kept in memory.
    "disabled_optimizers = 'build_side_probe_side'",
    "enable_external_access = false",
    "lock_configuration = true",
)
_BATCH_ROWS = 1 << 14
_EXPLAIN = "EXPLAIN "
_INTERRUPTION_SECONDS = 0.05


@dataclass(frozen=True)
class RowBatches:
    """The rows of an answer as a stream; it can be read once."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class LockedDatabase:
    """A connection to a database of its own. For one thread at a time."""

    _connection: duckdb.DuckDBPyConnection = field(repr=False)
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "sql"), repr=False)

    @classmethod
    def reading(cls, folder: str | None) -> "LockedDatabase":
        """A database that reads files below the local `folder`, whose path ends with a slash; None: none."""
        connection = duckdb.connect(config=_CONFIGURATION)
        if folder is not None:
            folders = ", ".join(map(text, (folder, pattern_of(folder))))
            connection.execute(f"SET allowed_directories = [{folders}]")
        for setting in _LAST_SETTINGS:
            connection.execute(f"SET {setting}")
        return cls(connection)

    def close(self) -> None:
        self._threads.shutdown()
        self._connection.close()

    def define(self, sql: str) -> None:
        with self._errors_of(sql, ()):
            self._connection.execute(sql)

    def register(self, name: str, rows: Any) -> None:
        self._connection.register(name, rows)

    def types_of(self, schema: pa.Schema) -> dict[str, str]:
        types = self._connection.from_arrow(schema.empty_table()).types
        return dict(zip(schema.names, map(str, types), strict=True))

    def parse(self, sql: str) -> SelectStatement:
        """The names in a statement, which is not run. Raises NotAStatement unless it is one that reads."""
        return SelectStatement.parse(sql, self._connection)

    def rows(self, sql: str, parameters: Sequence[Any]) -> pa.Table:
        """The rows of a statement. Raises NotAStatement: it names what does not exist, or needs too much
        memory.
        """
        with self._errors_of(sql, parameters):
            relation = self._connection.sql(sql, params=list(parameters) or None)
            return self._interruptibly(relation.to_arrow_table)

    @contextmanager
    def stream(self, sql: str, parameters: Sequence[Any]) -> Iterator[RowBatches]:
        with self._errors_of(sql, parameters):
            relation = self._connection.sql(sql, params=list(parameters) or None)
            reader = self._interruptibly(lambda: relation.to_arrow_reader(_BATCH_ROWS))
        try:
            yield RowBatches(reader.schema, self._batches(reader, sql))
        finally:
            reader.close()  # another statement can only run then

    def _batches(self, reader: pa.RecordBatchReader, sql: str) -> Iterator[pa.RecordBatch]:
        while True:
            with self._errors_of(sql, ()):
                try:
                    batch = self._interruptibly(reader.read_next_batch)
                except StopIteration:
                    return
            yield batch

    def _interruptibly(self, work: Callable[[], Result]) -> Result:
        """Do `work` of DuckDB, which does not always look for Ctrl-C itself: Ctrl-C reaches a main thread
        that waits for another one, and no thread that is in DuckDB.
        """
        if threading.current_thread() is not threading.main_thread():
            return work()
        future = self._threads.submit(work)
        try:
            return future.result()
        except BaseException:  # Ctrl-C, or what a handler of signals raises instead
            while not future.done():
                self._connection.interrupt()
                wait([future], timeout=_INTERRUPTION_SECONDS)
            raise

    @contextmanager
    def _errors_of(self, sql: str, parameters: Sequence[Any]) -> Iterator[None]:
        """Rewords errors of the block. Those of a stream are raised as an OSError of Arrow."""
        try:
            yield
        except (duckdb.Error, OSError) as error:
            message, offset = str(error), 0
            if isinstance(error, duckdb.Error) and not has_place(message):
                message_with_place = self._message_with_place(sql, parameters)
                if message_with_place is not None:
                    message, offset = message_with_place, len(_EXPLAIN)
            raise error_of_statement(message, sql, offset) from error
        except RuntimeError as error:
            if str(error) != "Query interrupted":  # what DuckDB makes of Ctrl-C
                raise
            raise KeyboardInterrupt from error

    def _message_with_place(self, sql: str, parameters: Sequence[Any]) -> str | None:
        """The message of a statement that can't be bound, with the place, which DuckDB tells only when the
        statement is executed at once; None where it can be bound.
        """
        try:
            self._connection.execute(f"{_EXPLAIN}{sql}", list(parameters) or None).fetchall()
        except duckdb.Error as error:
            return str(error)
        return None
