"""Batches of source rows that a task has read from row groups of a Parquet file, under the names of Delta's
column mapping, without the rows that a deletion vector hides.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.source.computed_columns import (
    ComputedRows,
    ExpressionFailure,
    compute,
    stored_names,
    type_as_stored,
)
from slackwater.engine.source.deletion_vectors import hidden_rows
from slackwater.engine.source.files import ColumnStatistics, InputFile
from slackwater.engine.source.row_tracking import RowTracking
from slackwater.errors import UsageError
from slackwater.pipelines.sources import COMMIT_TIME, COMMIT_VERSION
from slackwater.tables.delta.parquet import damaged_file, open_verified
from slackwater.tables.storage_errors import reads
from slackwater.tables.stores import filesystem

_ROWS_OF_PIECE = 16_384


@dataclass(frozen=True)
class SourceBatch:
    """Rows of the source as a map task receives them.

    Attributes:
        rows: the columns of the scan, or only those that are read of every row.
        may_hold_unread: whether rows that arrived before the slice, or without an arrival time, belong to
            this run; else they belong to an earlier run.
        read_to_ms: rows that arrived before then, and rows without an arrival time, belong to an earlier run
            all the same; None: there are no such rows.
        is_part: whether rows of the slice belong to another batch; see `InputFile`.
        read_full_rows: reads all columns of the scan at ascending positions; None where `rows` has all.
        keep_rows: keeps what was read of the rows at ascending positions for `full_rows` of the slice's next
            pass, which reads it anew for other rows; None where nothing is kept.
        statistics: a column's statistics in the file; null-checked columns that `rows` lacks have none.
    """

    rows: pa.Table
    path: str | None
    may_hold_unread: bool
    read_to_ms: int | None = None
    read_full_rows: Callable[[npt.NDArray[np.int64]], pa.Table] | None = None
    keep_rows: Callable[[npt.NDArray[np.int64]], None] | None = None
    statistics: Callable[[str], ColumnStatistics] | None = None
    source: int | None = None
    is_part: bool = False
    failures: tuple[ExpressionFailure, ...] = ()
    item_numbers: npt.NDArray[np.int64] | None = None

    def full_rows(self, positions: npt.NDArray[np.int64]) -> pa.Table:
        return (
            self.rows.take(pa.array(positions))
            if self.read_full_rows is None
            else self.read_full_rows(positions)
        )

    def is_complete(self, name: str) -> bool:
        if name in self.rows.column_names or self.statistics is None:
            return bool(self.rows.column(name).null_count == 0)
        return self.statistics(name).is_complete

    def bounds(self, time: str) -> tuple[int, int]:
        """(a lower, an upper) bound of a column of times without nulls, in its unit; of a batch with rows."""
        extent = None if self.statistics is None else self.statistics(time).bounds
        if extent is not None:
            return extent
        values = self.rows.column(time).cast(pa.int64()).to_numpy()
        return int(values.min()), int(values.max())


def read_columns(
    uri: str,
    file: InputFile,
    schema: pa.Schema,
    columns: Sequence[str],
    *,
    row_groups: Sequence[int] | None = None,
    metadata: pq.FileMetaData | None = None,
    first_rows: int | None = None,
) -> pa.Table:
    """`columns` of the rows of one file, as `read_computed` has them."""
    return read_computed(
        uri, file, schema, columns, row_groups=row_groups, metadata=metadata, first_rows=first_rows
    ).rows


def read_computed(
    uri: str,
    file: InputFile,
    schema: pa.Schema,
    columns: Sequence[str],
    *,
    row_groups: Sequence[int] | None = None,
    metadata: pq.FileMetaData | None = None,
    first_rows: int | None = None,
) -> ComputedRows:
    """`columns`, in that order, of the rows in some row groups of one file (None: of all) that its deletion
    vector does not hide, partition columns filled in and computed columns computed. `metadata` spares reading
    the file's footer again; `first_rows` reads no more than so many stored rows.
    """
    names = stored_names(schema, columns)
    stored_rows = read_stored(
        uri, file, schema, names, row_groups=row_groups, metadata=metadata, first_rows=first_rows
    )
    return compute(schema, columns, stored_rows)


def read_stored(
    uri: str,
    file: InputFile,
    schema: pa.Schema,
    columns: Sequence[str],
    *,
    row_groups: Sequence[int] | None,
    metadata: pq.FileMetaData | None,
    first_rows: int | None = None,
) -> pa.Table:
    """Stored `columns`, in that order, of the rows that `read_computed` reads."""
    partition = dict(file.partition)
    stored_names = {name: name_in_files(schema.field(name)) for name in columns}
    reads_commits = (
        file.tracking is not None and file.tracking.is_mixed and {COMMIT_TIME, COMMIT_VERSION} & set(columns)
    )
    tracking = file.tracking if reads_commits else None
    data = open_verified(uri, filesystem(uri), file.path, metadata, coerce_int96_timestamp_unit="us")
    with reads(f"{uri}/{file.path}"), data as parquet:
        columns_in_file = set(parquet.schema_arrow.names)
        stored_names = {
            name: _name_regardless_of_case(stored_name, columns_in_file)
            for name, stored_name in stored_names.items()
        }
        names_to_read = [
            stored_names[name]
            for name in columns
            if stored_names[name] in columns_in_file and name not in partition
        ] + ([] if tracking is None else [tracking.column])
        groups = range(parquet.num_row_groups) if row_groups is None else row_groups
        if first_rows is None:
            table = parquet.read_row_groups(groups, names_to_read, use_threads=False)
        else:
            table = _first_rows(parquet, groups, names_to_read, first_rows)
        is_visible = visible_rows(uri, file, parquet.metadata, groups)
        local_times = _local_times(parquet)
    count = table.num_rows
    commits = {} if tracking is None else _commits_of_rows(uri, file.path, tracking, table)
    arrays = []
    for name in columns:
        kind = type_as_stored(schema.field(name), stored_names[name] in local_times)
        if name in commits:
            arrays.append(pa.chunked_array([commits[name]]).cast(kind))
        elif name in partition:
            arrays.append(pa.chunked_array([pa.repeat(pa.scalar(partition[name], kind), count)]))
        elif stored_names[name] in table.column_names:
            arrays.append(_cast(uri, file.path, name, table.column(stored_names[name]), kind))
        else:  # a column that was added to the table after the file was written
            arrays.append(pa.chunked_array([pa.nulls(count, kind)]))
    rows = pa.table(arrays, names=list(columns))
    return rows if is_visible is None else rows.filter(pa.array(is_visible[:count]))


def _commits_of_rows(uri: str, path: str, tracking: RowTracking, rows: pa.Table) -> dict[str, pa.Array]:
    """The columns of the commit that brought each row."""
    try:
        versions, times_us = tracking.commits_of(rows.column(tracking.column))
    except KeyError as error:
        wrong = (
            f"its column {tracking.column} has version {error}, and by the log none of its rows came with it"
        )
        raise damaged_file(uri, path, wrong) from error
    times = pa.array(times_us).cast(pa.timestamp("us", tz="UTC"))
    return {COMMIT_VERSION: pa.array(versions), COMMIT_TIME: times}


def _local_times(parquet: pq.ParquetFile) -> set[str]:
    """The columns of times without a zone. INT96, which says nothing of zones, is UTC, as Spark writes it."""
    columns = (parquet.metadata.schema.column(place) for place in range(parquet.metadata.num_columns))
    moments = {column.path for column in columns if column.physical_type == "INT96"}
    return {
        field.name
        for field in parquet.schema_arrow
        if pa.types.is_timestamp(field.type) and field.type.tz is None and field.name not in moments
    }


def _first_rows(
    parquet: pq.ParquetFile, groups: Sequence[int], columns: Sequence[str], count: int
) -> pa.Table:
    """The first rows of some row groups, without the memory that all of a row group takes."""
    batches: list[pa.RecordBatch] = []
    for batch in parquet.iter_batches(min(count, _ROWS_OF_PIECE), groups, columns, use_threads=False):
        batches.append(batch)
        count -= len(batch)
        if count <= 0:
            break
    kept_rows = sum(map(len, batches)) + min(count, 0)
    schema = pa.schema([field for field in parquet.schema_arrow if field.name in columns])
    return pa.Table.from_batches(batches, batches[0].schema if batches else schema).slice(0, kept_rows)


class ValueDoesNotFit(UsageError):
    """A value of a file does not fit into the column's type for all files. Facts: uri, path, column."""


def _cast(uri: str, path: str, name: str, column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    try:
        return column.cast(kind, safe=not pa.types.is_timestamp(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueDoesNotFit(
            f"{uri}: column {name!r} is {kind} by all files together, and {column.type} in {path}, where it "
            f"has values that {kind} can't hold ({error}). Write that file anew with values that fit.",
            uri=uri,
            path=path,
            column=name,
        ) from error


def _name_regardless_of_case(name: str, names: Collection[str]) -> str:
    return name if name in names else next((one for one in names if one.lower() == name.lower()), name)


def visible_rows(
    uri: str, file: InputFile, metadata: pq.FileMetaData, row_groups: Sequence[int]
) -> npt.NDArray[np.bool_] | None:
    """Whether the deletion vector leaves each row in some row groups of a file; None: it leaves all."""
    if file.vector is None:
        return None
    sizes = np.array(
        [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)], np.int64
    )
    is_visible = np.ones(int(sizes.sum()), np.bool_)
    is_visible[hidden_rows(uri, file.vector)] = False
    ends = np.cumsum(sizes)
    return np.concatenate(
        [is_visible[ends[number] - sizes[number] : ends[number]] for number in row_groups]
        or [np.zeros(0, np.bool_)]
    )


def name_in_files(column: pa.Field) -> str:
    """A column's name in files and the log: its own, or the one that Delta's column mapping gives it."""
    physical_name = (column.metadata or {}).get(b"delta.columnMapping.physicalName")
    return column.name if physical_name is None else physical_name.decode()
