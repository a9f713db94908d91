"""SQL over Arrow tables in memory, by the one DuckDB database of this process, and over the files of a Delta
table: exactly those that the log names, columns that a file lacks as null, partition columns from the log.
Times are UTC.

Knows no table by name. To make a database costs more than most queries do, so all connections share one; they
see no tables of each other. DuckDB reads local files itself, and only the columns and row groups that a query
needs. Files of object stores are handed to it as an Arrow dataset.
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pads

from slackwater.tables.delta.stored_files import StoredFiles

if TYPE_CHECKING:
    import duckdb


def query(sql: str, parameters: Sequence[Any] = (), **tables: pa.Table | pads.Dataset) -> pa.Table:
    """The rows of a query over `tables`; their keywords are their names in SQL."""
    with connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(sql, params=list(parameters) or None).to_arrow_table()


def connect() -> "duckdb.DuckDBPyConnection":
    """A connection for the caller to close; nobody else sees its registered and temporary tables."""
    return _database(os.getpid()).cursor()


@cache
def _database(process: int) -> "duckdb.DuckDBPyConnection":
    """The database of a process; a forked process needs another, because threads don't live on in a fork.

    It runs on the thread of its caller alone: DuckDB's other threads, when they have rested for half a
    second, return all free memory of the process to the system, also what it keeps for its next batches
    (`slackwater.runtime.memory`).
    """
    import duckdb  # most verbs that look ask nothing of it

    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection


_PARTITION = "partition."
# In a list of files too, DuckDB takes these for patterns.
_PATTERN_CHARACTERS = str.maketrans({"[": "[[]", "*": "[*]", "?": "[?]"})


def relation(
    files: StoredFiles, types: Mapping[str, str], derived_columns: Mapping[str, str] | None = None
) -> str:
    """SQL for a table of all rows of `files`, which are local files of one table. `types` are its columns in
    order (name → SQL type); `derived_columns` partition columns that follow from others (name → SQL).
    """
    if not files.actions.num_rows:
        columns = ", ".join(f"NULL::{kind} AS {quoted(name)}" for name, kind in types.items())
        return f"(SELECT {columns} WHERE false)"
    partitions = [name for name in types if f"{_PARTITION}{name}" in files.actions.column_names]
    fields = ", ".join(
        f"{text(name)}: {{name: {text(name)}, type: {text(kind)}, default_value: NULL}}"
        for name, kind in types.items()
        if name not in partitions
    )
    # A SELECT for each partition: DuckDB 2.0 fails where a column is computed from the number of a file, and
    # compared in a query for the first rows of an order.
    branches = []
    others = [name for name in partitions if name not in (derived_columns or {})]
    for values, paths in _files_by_partition(files, others):
        expressions = {**(derived_columns or {}), **values}
        columns = ", ".join(
            f"({expressions[name]})::{kind} AS {quoted(name)}" if name in partitions else quoted(name)
            for name, kind in types.items()
        )
        list_of_paths = ", ".join(text(pattern_of(path)) for path in paths)
        branches.append(f"SELECT {columns} FROM read_parquet([{list_of_paths}], schema = MAP {{{fields}}})")
    return f"({' UNION ALL '.join(branches)})"


def _files_by_partition(
    files: StoredFiles, partitions: Sequence[str]
) -> Iterator[tuple[dict[str, str], list[str]]]:
    """For each partition: (the values of its columns as SQL, the paths of its files)."""
    folder = files.uri.removeprefix("file://").rstrip("/")
    columns = [
        files.actions.column(f"{_PARTITION}{name}").cast(pa.string()).to_pylist() for name in partitions
    ]
    paths_by_values: dict[tuple[str | None, ...], list[str]] = defaultdict(list)
    for number, path in enumerate(files.paths):
        paths_by_values[tuple(column[number] for column in columns)].append(f"{folder}/{path}")
    for values, paths in paths_by_values.items():
        literals = ("NULL" if value is None else text(value) for value in values)
        yield dict(zip(partitions, literals, strict=True)), paths


def pattern_of(path: str) -> str:
    """The pattern that fits `path` alone."""
    return path.translate(_PATTERN_CHARACTERS)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text(value: Any) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def sql_equality(name: str, value: pa.Scalar, parameter: str) -> tuple[str, Any]:
    """SQL that compares a column with a parameter of DuckDB, and the value of the parameter: the days of a
    date, because Python's dates end with year 9999.
    """
    if pa.types.is_date32(value.type):
        return f"{quoted(name)} = make_date({parameter})", value.cast(pa.int32()).as_py()
    return f"{quoted(name)} = {parameter}", value.as_py()
