"""SQL by which DuckDB reads the files of a Delta table: exactly those that the log names, columns that a file
lacks as null, partition columns from the log.

Text in, text out; knows no table by name and opens no file. DuckDB reads local files itself, and only the
columns and row groups that a query needs. Files of object stores are handed to it as an Arrow dataset.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from slackwater.jobs.tables.delta.stored_files import StoredFiles

_PARTITION = "partition."
# In a list of files too, DuckDB takes these for patterns.
_PATTERN_CHARACTERS = str.maketrans({"[": "[[]", "*": "[*]", "?": "[?]"})


def is_local(uri: str) -> bool:
    """Whether the table at `uri` lies in a folder of this machine."""
    return "://" not in uri or uri.startswith("file://")


def relation(files: StoredFiles, types: Mapping[str, str]) -> str:
    """SQL for a table of all rows of `files`, which are local.

    Args:
        files: files of one table.
        types: the table's columns, in order: name → type in SQL.
    """
    if not files.actions.num_rows:
        columns = ", ".join(f"NULL::{kind} AS {quoted(name)}" for name, kind in types.items())
        return f"(SELECT {columns} WHERE false)"
    partitions = {
        name: files.actions.column(f"{_PARTITION}{name}")
        for name in types
        if f"{_PARTITION}{name}" in files.actions.column_names
    }
    folder = files.uri.removeprefix("file://").rstrip("/")
    paths = ", ".join(text(pattern_of(f"{folder}/{path}")) for path in files.paths)
    fields = ", ".join(
        f"{text(name)}: {{name: {text(name)}, type: {text(kind)}, default_value: NULL}}"
        for name, kind in types.items()
        if name not in partitions
    )
    columns = ", ".join(
        _value_of_file(partitions[name], kind, name) if name in partitions else quoted(name)
        for name, kind in types.items()
    )
    return f"(SELECT {columns} FROM read_parquet([{paths}], schema = MAP {{{fields}}}))"


def pattern_of(path: str) -> str:
    """The pattern that fits `path` alone."""
    return path.translate(_PATTERN_CHARACTERS)


def _value_of_file(values: pa.ChunkedArray, kind: str, name: str) -> str:
    """SQL for a partition column: the value that the log has for the file of a row."""
    literals = ", ".join(
        "NULL" if value is None else text(value) for value in values.cast(pa.string()).to_pylist()
    )
    return f"(([{literals}])::{kind}[])[file_index::BIGINT + 1] AS {quoted(name)}"


def quoted(name: str) -> str:
    """`name` as an identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'


def text(value: Any) -> str:
    """`value` as a text in SQL."""
    return "'" + str(value).replace("'", "''") + "'"
