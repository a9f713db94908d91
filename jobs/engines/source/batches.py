"""The rows of files as tasks read them, a few row groups at once.

A task reads Parquet itself. Where that is impossible (deletion vectors, column mapping) Spark scans instead.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.jobs.engines.source.files import ColumnStatistics, InputFile
from slackwater.jobs.tables.delta.parquet import open_verified
from slackwater.jobs.tables.delta.written_files import filesystem
from slackwater.jobs.tables.storage_errors import reads


@dataclass(frozen=True)
class SourceBatch:
    """Rows of the source as a map task receives them.

    Attributes:
        rows: the wanted columns, or those of them that are wanted of every row.
        path: the file they stand in; None where Spark scanned.
        may_hold_unread: whether rows that arrived before the slice, or without an arrival time, are this
            run's; else an earlier run's.
        read_to_ms: those that arrived before then, and those without an arrival time, are an earlier run's
            all the same; None: none are.
        whole_rows: all wanted columns of the rows at some ascending positions, where `rows` lacks some.
        statistics: what the file says of a column. Of some columns it may be asked alone, where `rows` lacks
            them: those are complete.
    """

    rows: pa.Table
    path: str | None
    may_hold_unread: bool
    read_to_ms: int | None = None
    read_full_rows: Callable[[npt.NDArray[np.int64]], pa.Table] | None = None
    statistics: Callable[[str], ColumnStatistics] | None = None

    def full_rows(self, positions: npt.NDArray[np.int64]) -> pa.Table:
        """All wanted columns of the rows at ascending `positions`."""
        return (
            self.rows.take(pa.array(positions))
            if self.read_full_rows is None
            else self.read_full_rows(positions)
        )

    def is_complete(self, name: str) -> bool:
        """Whether the column holds no null."""
        if name in self.rows.column_names or self.statistics is None:
            return bool(self.rows.column(name).null_count == 0)
        return self.statistics(name).is_complete

    def bounds(self, time: str) -> tuple[int, int]:
        """Two times, in the column's unit, that all of a column without nulls lie between; of a batch that
        has rows.
        """
        extent = None if self.statistics is None else self.statistics(time).bounds
        if extent is not None:
            return extent
        values = self.rows.column(time).cast(pa.int64()).to_numpy()
        return int(values.min()), int(values.max())


def read(
    uri: str,
    file: InputFile,
    schema: pa.Schema,
    columns: Sequence[str],
    row_groups: Sequence[int] | None = None,
    metadata: pq.FileMetaData | None = None,
) -> pa.Table:
    """`columns` of some row groups of one file, in that order, partition columns filled in. `metadata`: the
    file's, if it was read.
    """
    partition = dict(file.partition)
    data = open_verified(uri, filesystem(uri), file.path, metadata, coerce_int96_timestamp_unit="us")
    with reads(f"{uri}/{file.path}"), data as parquet:
        columns_in_file = set(parquet.schema_arrow.names)
        stored = [name for name in columns if name in columns_in_file and name not in partition]
        groups = range(parquet.num_row_groups) if row_groups is None else row_groups
        table = parquet.read_row_groups(groups, stored, use_threads=False)
    arrays = []
    for name in columns:
        kind = schema.field(name).type
        if name in partition:
            arrays.append(pa.chunked_array([pa.repeat(pa.scalar(partition[name], kind), table.num_rows)]))
        elif name in table.column_names:
            arrays.append(table.column(name).cast(kind))
        else:  # a column that was added to the table after the file was written
            arrays.append(pa.chunked_array([pa.nulls(table.num_rows, kind)]))
    return pa.table(arrays, names=list(columns))


def name_in_files(column: pa.Field) -> str:
    """The name of a column in files and in the log: its own, or that which Delta has mapped it to."""
    mapped = (column.metadata or {}).get(b"delta.columnMapping.physicalName")
    return column.name if mapped is None else mapped.decode()
