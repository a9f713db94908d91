"""Writes a Parquet file of a Delta table, and says how such files are encoded and which folder they are in.
Commits nothing, and knows no table by name.

Partitions are named as Delta does: values as text, and a folder for the files of each. A table has one
partition column or none.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.tables.delta.parquet import write_sealed
from slackwater.tables.delta.statistics import Statistics
from slackwater.tables.storage_errors import not_writable
from slackwater.tables.stores import filesystem

_NULL = "__HIVE_DEFAULT_PARTITION__"


def folder_of(columns: Sequence[str], value: str | None) -> str:
    """The folder of a partition, relative to the table's, with a slash at its end; empty for a table without
    partitions.
    """
    return "".join(f"{name}={_NULL if value is None else value}/" for name in columns)


def partition_of(path: str) -> dict[str, str | None]:
    """Partition column → value as text of the file at `path` in the table's folder."""
    name_value_pairs = (part.split("=", 1) for part in path.split("/")[:-1])
    return {name: None if value == _NULL else value for name, value in name_value_pairs}


def by_partition(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[str | None, pa.Table]]:
    """Each partition value as text, with its rows in their order and without the partition column. The value
    of a table without partitions is None. Yields nothing where there are no rows.
    """
    if not rows.num_rows:
        return
    if not columns:
        yield None, rows
        return
    [column] = columns
    dictionary_column = rows.column(column).combine_chunks().dictionary_encode(null_encoding="encode")
    values, rows = dictionary_column.dictionary.to_pylist(), rows.drop_columns([column])
    if len(values) > 1:
        codes = dictionary_column.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        rows, ends = rows.take(pa.array(order)), np.cumsum(np.bincount(codes, minlength=len(values)))
    else:
        ends = np.array([rows.num_rows])
    for value, start, end in zip(values, [0, *ends[:-1]], ends, strict=True):
        yield None if value is None else str(value), rows.slice(start, end - start)


# How many rows `_hardly_repeats` looks at.
_SAMPLE_ROWS = 4096
# Integers in a range of this width are as short as their places in a dictionary.
_SMALL_RANGE = 255


@dataclass(frozen=True)
class WrittenFile:
    """A Parquet file in a table's folder that is not yet part of the table.

    Attributes:
        path: relative to the table's folder, partition folders included.
        partition: partition column → value as text.
        rows, bytes: how many the file has.
        statistics: Delta's per-file statistics as JSON.
    """

    path: str
    partition: dict[str, str | None]
    rows: int
    bytes: int
    statistics: str = field(repr=False)


_FILES = pa.schema(
    [
        ("path", pa.string()),
        ("partition", pa.map_(pa.string(), pa.string())),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("statistics", pa.string()),
    ]
)


def table_of_files(files: Sequence[WrittenFile]) -> pa.Table:
    rows = [{**vars(file), "partition": list(file.partition.items())} for file in files]
    return pa.Table.from_pylist(rows, schema=_FILES)


def files_of_table(table: pa.Table) -> list[WrittenFile]:
    rows = table.select(_FILES.names).to_pylist()
    return [WrittenFile(**{**row, "partition": dict(row["partition"])}) for row in rows]


def write_file(
    uri: str,
    path: str,
    table: pa.Table,
    partition: dict[str, str | None],
    *,
    as_differences: Sequence[str] = (),
    columns_with_bounds: Sequence[str] | None = None,
    searched_columns: Sequence[str] | None = None,
) -> WrittenFile:
    """Write `table` (without its partition columns) as a Parquet file below the folder `uri`, at `path` with
    the seal before its suffix. The log gets statistics for `searched_columns`, by default for all. For
    `as_differences` and `columns_with_bounds` see `encoding`. Columns may be dictionaries. Raises
    WarehouseNotWritable.
    """
    files = filesystem(uri)
    rows = _not_nullable_where_possible(table.unify_dictionaries())
    try:
        files.create_dir(os.path.dirname(path) or ".", recursive=True)
        sealed_path, size = write_sealed(
            files, path, rows, **encoding(as_differences, table.schema, columns_with_bounds)
        )
    except OSError as error:
        raise not_writable(uri, error) from error
    statistics = Statistics().add(table if searched_columns is None else table.select(searched_columns))
    return WrittenFile(sealed_path, partition, table.num_rows, size, statistics.to_json())


def _not_nullable_where_possible(table: pa.Table) -> pa.Table:
    """`table` with columns without nulls declared as not nullable, for which Parquet stores no levels."""
    return pa.table(
        table.columns,
        pa.schema([field.with_nullable(table.column(field.name).null_count > 0) for field in table.schema]),
    )


def cast_unless_encoded(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """`column` cast to `kind`, or as it is where it is a dictionary of such values."""
    is_encoded = pa.types.is_dictionary(column.type) and column.type.value_type == kind
    return column if is_encoded else column.cast(kind)


def columns_as_differences(rows: pa.Table) -> list[str]:
    """The columns of integers or times that are best stored as differences, for `encoding`; fields of
    structs, too, as ``new.total``.
    """
    names = []
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if pa.types.is_struct(column.type):
            sample = column.slice(0, _SAMPLE_ROWS)
            fields = (pc.struct_field(sample, [place]) for place in range(column.type.num_fields))
            names += [
                f"{name}.{field.name}"
                for field, values in zip(column.type, fields, strict=True)
                if _hardly_repeats(values)
            ]
        elif _hardly_repeats(column):
            names.append(name)
    return names


def _hardly_repeats(column: pa.ChunkedArray) -> bool:
    """Whether a column of integers or times is better stored as differences than with a dictionary, by its
    first rows: too many values, or integers so close that differences are no longer than places in one.
    """
    kind = column.type
    if not pa.types.is_signed_integer(kind) and not pa.types.is_timestamp(kind):
        return False
    sample = column.slice(0, _SAMPLE_ROWS)
    if pa.types.is_integer(kind) and sample.null_count < len(sample):
        bounds = pc.min_max(sample).as_py()
        if bounds["max"] - bounds["min"] <= _SMALL_RANGE:
            return True
    return bool(pc.count_distinct(sample).as_py() > len(sample) // 8)


def encoding(
    as_differences: Sequence[str], schema: pa.Schema, columns_with_bounds: Sequence[str] | None = None
) -> dict[str, Any]:
    """The options for writing a Parquet file with the columns of `schema`.

    Args:
        as_differences: columns, and fields of structs, that are stored as differences; the others with a
            dictionary as long as that pays.
        columns_with_bounds: columns whose row groups have bounds; None for all, but never those that come as
            a dictionary, for which it would take longer than writing. Delta's log has bounds either way.
    """
    return {
        "compression": "snappy",
        "use_dictionary": [name for name in schema.names if name not in as_differences],
        "column_encoding": dict.fromkeys(as_differences, "DELTA_BINARY_PACKED"),
        "write_statistics": [
            field.name
            for field in schema
            if not pa.types.is_dictionary(field.type)
            and (columns_with_bounds is None or field.name in columns_with_bounds)
        ],
        "store_schema": False,
        "write_page_checksum": True,
    }
