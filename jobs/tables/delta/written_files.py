"""Parquet files of Delta tables: their file system, their encoding, and how one is written with its seal.

Commits nothing, and knows no table by name.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
from deltalake.fs import DeltaStorageHandler

from slackwater.jobs.tables.delta.parquet import write_sealed
from slackwater.jobs.tables.delta.statistics import Statistics
from slackwater.jobs.tables.storage_errors import not_writable

# Rows that `hardly_repeats` looks at, and the widest range of integers that is not worth differences.
_SAMPLE = 4096
_SMALL = 255


@dataclass(frozen=True)
class WrittenFile:
    """A Parquet file that stands in a table's folder and is not yet part of the table.

    Attributes:
        path: relative to the table's folder, partition folders included.
        partition: partition column → value as text.
        rows, bytes: its size.
        statistics: Delta's per-file statistics as JSON.
    """

    path: str
    partition: dict[str, str | None]
    rows: int
    bytes: int
    statistics: str = field(repr=False)


def filesystem(uri: str) -> pafs.FileSystem:
    """The folder at `uri` (a local path or a URI that delta-rs knows) as a file system of relative paths."""
    if "://" in uri and not uri.startswith("file://"):
        return pafs.PyFileSystem(DeltaStorageHandler(uri))
    return pafs.SubTreeFileSystem(uri.removeprefix("file://"), pafs.LocalFileSystem())


def write_file(
    uri: str,
    path: str,
    table: pa.Table,
    partition: dict[str, str | None],
    as_differences: Sequence[str] = (),
    bounded: Sequence[str] | None = None,
) -> WrittenFile:
    """Write `table` (without its partition columns) as a Parquet file below the folder `uri`, under `path`
    with the file's seal put before its end. Commits nothing.

    For `as_differences` and `bounded` see `encoding`. A column of the table may itself be a dictionary;
    readers do not see it.

    Raises:
        WarehouseNotWritable: the folder can't be written.
    """
    files = filesystem(uri)
    rows = _without_levels(table.unify_dictionaries())
    try:
        files.create_dir(os.path.dirname(path) or ".", recursive=True)
        sealed, size = write_sealed(files, path, rows, **encoding(as_differences, table.schema, bounded))
    except OSError as error:
        raise not_writable(uri, error) from error
    return WrittenFile(sealed, partition, table.num_rows, size, Statistics().add(table).to_json())


def _without_levels(table: pa.Table) -> pa.Table:
    """`table`, whose columns without nulls are declared so: Parquet then stores nothing about nulls, and
    readers look for none.
    """
    return pa.table(
        table.columns,
        pa.schema([field.with_nullable(table.column(field.name).null_count > 0) for field in table.schema]),
    )


def of_type(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """A column as a table's files have it: of its type, or a dictionary of such values, which readers do not
    see.
    """
    is_encoded = pa.types.is_dictionary(column.type) and column.type.value_type == kind
    return column if is_encoded else column.cast(kind)


def hardly_repeats(column: pa.ChunkedArray) -> bool:
    """Whether integers or times are too varied for a dictionary, which would be given up after much work, or
    integers so small that their differences are no longer than places in one; the first ones tell."""
    kind = column.type
    if not pa.types.is_signed_integer(kind) and not pa.types.is_timestamp(kind):
        return False
    sample = column.slice(0, _SAMPLE)
    if pa.types.is_integer(kind) and sample.null_count < len(sample):
        bounds = pc.min_max(sample).as_py()
        if bounds["max"] - bounds["min"] <= _SMALL:
            return True
    return bool(pc.count_distinct(sample).as_py() > len(sample) // 8)


def encoding(
    as_differences: Sequence[str], schema: pa.Schema, bounded: Sequence[str] | None = None
) -> dict[str, Any]:
    """How a Parquet file is written: integers and times in `as_differences` as such, other columns with a
    dictionary as long as that pays. Readers see no dictionary. The row groups have bounds of the columns in
    `bounded`, None for all; never of those that come as a dictionary, where they would take longer than the
    column. What the log says of a whole file is another matter."""
    return {
        "compression": "snappy",
        "use_dictionary": [name for name in schema.names if name not in as_differences],
        "column_encoding": dict.fromkeys(as_differences, "DELTA_BINARY_PACKED"),
        "write_statistics": [
            field.name
            for field in schema
            if not pa.types.is_dictionary(field.type) and (bounded is None or field.name in bounded)
        ],
        "store_schema": False,
        "write_page_checksum": True,
    }
