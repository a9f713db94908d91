"""SQL by which DuckDB reads the files of a Delta table: exactly those that the log names, columns that a file
lacks as null, partition columns from the log.

Text in, text out; knows no table by name and opens no file. DuckDB reads local files itself, and only the
columns and row groups that a query needs. Files of object stores are handed to it as an Arrow dataset.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from slackwater.tables.delta.stored_files import StoredFiles

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
