"""The rows of a slice: which files of a pinned source version hold them, and how a task reads those files.

A task reads Parquet itself. Where that is impossible (deletion vectors, column mapping) Spark scans instead; `why_not_direct` says why.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from jobs.errors import UsageError
from jobs.pipelines import DeltaSource
from jobs.tables.delta import filesystem
from jobs.tables.errors import NotADeltaTable

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


class EmptySource(UsageError):
    """The source has no rows at all."""


class SourceColumnError(UsageError):
    """The source lacks a column, or it has a type that can't play its role."""


def to_datetime(ms: int) -> datetime:
    """Milliseconds of UTC as a datetime."""
    return EPOCH + ms * MILLISECOND


def to_ms(moment: datetime) -> int:
    """A datetime as whole milliseconds of UTC, floored."""
    return (moment - EPOCH) // MILLISECOND


@dataclass(frozen=True)
class InputFile:
    """One Parquet file of the pinned source version.

    Attributes:
        path: relative to the source's folder.
        partition: values of the partition columns, which the file itself lacks.
        rows, bytes: its size; rows is None where the log doesn't say.
        may_lack_arrival: whether rows without an arrival time may stand in it that no earlier run has seen.
    """

    path: str
    partition: tuple[tuple[str, Any], ...]
    rows: int | None
    bytes: int
    may_lack_arrival: bool


@dataclass(frozen=True)
class PinnedSource:
    """A source table at one version. Two runs that pin the same version read the same rows.

    Attributes:
        uri: where it stands.
        version: the Delta version.
        schema: all columns, partition columns included.
        why_not_direct: None when tasks may read the files themselves, else the reason.
    """

    uri: str
    version: int
    schema: pa.Schema
    why_not_direct: str | None

    def files(self, from_ms: int, to_ms: int, arrival: str, before: "PinnedSource | None") -> list[InputFile]:
        """Files that may hold rows of the slice, by partition values and statistics, in path order; and files that may hold rows without
        an arrival time and were not yet in the version `before` (the parent run's; None: none was)."""
        known = set() if before is None else {item.path for item in _all_files(before, arrival)}
        low, high = to_datetime(from_ms), to_datetime(to_ms)
        chosen = []
        for item, least, greatest in _with_bounds(self, arrival):
            in_slice = least is None or greatest is None or (least < high and greatest + MILLISECOND >= low)
            if item.path in known:
                item = replace(item, may_lack_arrival=False)
            if in_slice or item.may_lack_arrival:
                chosen.append(item)
        return chosen


def pin(source: DeltaSource, uri: str, version: int | None = None) -> PinnedSource:
    """The source at `version` (default: newest).

    Raises:
        NotADeltaTable, EmptySource: what is at `uri` can't be read as a source.
    """
    try:
        table = DeltaTable(uri, version=version)
    except (TableNotFoundError, DeltaError, OSError) as error:
        raise NotADeltaTable(
            f"source {source.table!r}: there is no Delta table at {uri} ({str(error).splitlines()[0]}). Load it first (for an example: "
            "`slackwater examples load NAME --from A --to B`), or mend DeltaSource(...).",
            uri=uri,
        ) from error
    features = set(table.protocol().reader_features or ())
    settings = table.metadata().configuration
    reasons = [
        reason
        for reason, present in (
            ("deletion vectors", "deletionVectors" in features),
            ("column mapping", settings.get("delta.columnMapping.mode", "none") != "none"),
        )
        if present
    ]
    pinned = PinnedSource(uri, table.version(), pa.schema(table.schema()), " and ".join(reasons) or None)
    if not table.get_add_actions().num_rows:
        raise EmptySource(f"source {source.table!r} at {uri} is empty (version {pinned.version}): there is nothing to replay yet.", uri=uri)
    return pinned


def check_roles(source: DeltaSource, schema: pa.Schema, others: Sequence[str]) -> None:
    """Refuse a source whose columns can't play their roles.

    Raises:
        SourceColumnError: a column is missing, or event or arrival time is not a timestamp.
    """
    for name in (*source.columns, *others):
        if name not in schema.names:
            raise SourceColumnError(
                f"source {source.table!r} has no column {name!r}; it has {', '.join(schema.names)}. Mend the pipeline or the source.", column=name
            )
    for role, name in (("event_time", source.event_time), ("arrival_time", source.arrival_time)):
        if not pa.types.is_timestamp(schema.field(name).type):
            raise SourceColumnError(
                f"source {source.table!r}: {role} is column {name!r} of type {schema.field(name).type}; it must be a timestamp.", column=name
            )


@dataclass(frozen=True)
class SourceBatch:
    """Rows of the source as a map task receives them.

    Attributes:
        rows: the wanted columns.
        path: the file they stand in; None where Spark scanned.
        may_lack_arrival: whether rows without an arrival time are this run's to quarantine; else they are an earlier run's.
    """

    rows: pa.Table
    path: str | None
    may_lack_arrival: bool


def read(uri: str, file: InputFile, schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    """`columns` of one file, in that order, partition columns filled in."""
    partition = dict(file.partition)
    with filesystem(uri).open_input_file(file.path) as data:
        table = pq.read_table(data, columns=[name for name in columns if name not in partition], use_threads=False)
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


def _with_bounds(source: PinnedSource, arrival: str) -> Iterator[tuple[InputFile, datetime | None, datetime | None]]:
    actions = pa.table(DeltaTable(source.uri, version=source.version).get_add_actions(flatten=True))
    partitions = [name.removeprefix("partition.") for name in actions.column_names if name.startswith("partition.")]
    for values in sorted(actions.to_pylist(), key=lambda row: row["path"]):
        partition = tuple((name, values[f"partition.{name}"]) for name in partitions)
        own = dict(partition).get(arrival)
        least, greatest = values.get(f"min.{arrival}", own), values.get(f"max.{arrival}", own)
        nulls = values.get(f"null_count.{arrival}")
        file = InputFile(values["path"], partition, values["num_records"], values["size_bytes"], nulls is None and own is None or bool(nulls))
        if nulls is not None and nulls == values["num_records"]:
            least, greatest = datetime.max.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC) - MILLISECOND
        yield file, least, greatest


def _all_files(source: PinnedSource, arrival: str) -> list[InputFile]:
    return [file for file, _, _ in _with_bounds(source, arrival)]
