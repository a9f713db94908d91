"""Splits rows of a table by partition, and names partitions as Delta does: values as text, and a folder for
the files of each. Knows no table by name. A table has one partition column or none.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

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
