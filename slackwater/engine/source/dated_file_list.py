"""The list of a table's files, in which each has the time and the version of the commit that brought its rows
as two partition columns more; and files that no version lists any more, in the form of such a list.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.source.batches import name_in_files
from slackwater.engine.source.changes import LogicalFile
from slackwater.engine.source.dated_files import Arrival, DatedFile
from slackwater.engine.source.deletion_vectors import VECTOR
from slackwater.engine.source.files import Bounds, InputFile, as_list, files_with_bounds, vectors_of
from slackwater.engine.source.row_tracking import TRACKING
from slackwater.pipelines.sources import COMMIT_TIME, COMMIT_VERSION

_TIME = pa.timestamp("us", tz="UTC")
COMMIT_COLUMNS = (pa.field(COMMIT_TIME, _TIME), pa.field(COMMIT_VERSION, pa.int64()))


def files_with_commits(actions: pa.Table) -> list[tuple[InputFile, Bounds]]:
    """Files, with the times of the oldest and the newest commit that brought rows of each."""
    if not actions.num_rows:
        return []
    oldest = as_list(actions.column(f"min.{COMMIT_TIME}").cast(pa.int64()))
    return [
        (file, (oldest_us, bounds[1]))
        for (file, bounds), oldest_us in zip(files_with_bounds(actions, COMMIT_TIME), oldest, strict=True)
        if bounds is not None
    ]


def versions_of(file: InputFile) -> frozenset[int]:
    """The versions that have brought rows of a file of such a list."""
    if file.tracking is not None:
        return frozenset(commit.version for commit in file.tracking.commits)
    return frozenset([dict(file.partition)[COMMIT_VERSION]])


def with_commits(actions: pa.Table, arrivals: Sequence[Arrival]) -> pa.Table:
    """A list of files, with the arrival of each one's rows as values of partition columns, and the column
    `TRACKING` where that of some tells rows apart.
    """
    for name, values, kind in (
        (f"partition.{COMMIT_TIME}", [item.time_us for item in arrivals], _TIME),
        (f"partition.{COMMIT_VERSION}", [item.version for item in arrivals], pa.int64()),
        (f"min.{COMMIT_TIME}", [item.least_us for item in arrivals], _TIME),
    ):
        actions = actions.append_column(name, pa.array(values, pa.int64()).cast(kind))
    texts = [None if item.tracking is None else item.tracking.to_json() for item in arrivals]
    return actions.append_column(TRACKING, pa.array(texts, pa.string())) if any(texts) else actions


def listed_logical_files(log_files: pa.Table) -> list[LogicalFile]:
    paths = map(unquote, as_list(log_files.column("path")))
    return [
        LogicalFile(path, None if vector is None else vector.name)
        for path, vector in zip(paths, vectors_of(log_files), strict=True)
    ]


def _partition_names(log_files: pa.Schema) -> list[str]:
    return [name.removeprefix("partition.") for name in log_files.names if name.startswith("partition.")]


def descriptions_of(log_files: pa.Table) -> dict[LogicalFile, DatedFile]:
    names = _partition_names(log_files.schema)
    columns = ["num_records", "size_bytes", "modification_time", *(f"partition.{name}" for name in names)]
    values = zip(*(as_list(log_files.column(name)) for name in columns), strict=True)
    return {
        file: DatedFile(
            rows=rows,
            bytes=size,
            partition=dict(zip(names, partition, strict=True)),
            vector=vector,
            modified_us=None if modified_ms is None else modified_ms * 1000,
        )
        for file, vector, (rows, size, modified_ms, *partition) in zip(
            listed_logical_files(log_files), vectors_of(log_files), values, strict=True
        )
    }


def actions_of_files(
    descriptions: Mapping[LogicalFile, DatedFile], log_files: pa.Schema, schema: pa.Schema
) -> pa.Table:
    """Files that the version does not list any more, in the form in which it lists others."""
    files, values = list(descriptions), list(descriptions.values())
    columns: dict[str, pa.Array] = {
        "path": pa.array([quote(file.path) for file in files], pa.string()),
        "size_bytes": pa.array([item.bytes for item in values], pa.int64()),
        "num_records": pa.array([item.rows for item in values], pa.int64()),
    }
    if any(item.vector is not None for item in values):
        texts = [None if item.vector is None else item.vector.to_json() for item in values]
        columns[VECTOR] = pa.array(texts, pa.string())
    for name in _partition_names(log_files):
        kind = log_files.field(f"partition.{name}").type
        columns[f"partition.{name}"] = pa.array(
            [_partition_value(item, schema.field(name)) for item in values], kind
        )
    return pa.table(columns)


def _partition_value(file: DatedFile, column: pa.Field) -> Any:
    """The value of a partition column, which a log writes as text; an empty text is none."""
    value = file.partition.get(name_in_files(column), file.partition.get(column.name))
    if value == "":
        return None
    if not isinstance(value, str) or pa.types.is_string(column.type):
        return value
    if pa.types.is_timestamp(column.type) and column.type.tz is not None and value[-6] not in "+-":
        return pc.assume_timezone(pa.scalar(value.removesuffix("Z")).cast(pa.timestamp("us")), "UTC").as_py()
    return pa.scalar(value).cast(column.type).as_py()


def input_file(file: LogicalFile, description: DatedFile, schema: pa.Schema) -> InputFile:
    """A file to be read whole; `schema` has the table's own columns."""
    partition = tuple(
        (column.name, _partition_value(description, column))
        for column in schema
        if {column.name, name_in_files(column)} & description.partition.keys()
    )
    return InputFile(
        path=file.path,
        partition=partition,
        rows=None,
        bytes=description.bytes,
        may_hold_unread=False,
        vector=description.vector,
    )
