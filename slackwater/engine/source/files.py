"""The files of a pinned version, the bounds of their arrivals, and the fraction that a slice reads."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from slackwater.engine.source.changes import LogicalFile
from slackwater.engine.source.deletion_vectors import VECTOR, DeletionVector, vectors_at
from slackwater.engine.source.row_tracking import TRACKING, RowTracking
from slackwater.tables.delta.statistics import widen_bounds
from slackwater.tables.delta.stored_files import actions_of
from slackwater.windowing.times import LATEST_MS


@dataclass(frozen=True)
class InputFile:
    """One Parquet file of the pinned source version.

    Attributes:
        rows, bytes: its size; rows, without hidden ones, is None where the log doesn't say.
        may_hold_unread: whether it may hold rows that no run has read although they arrived before the slice,
            or without an arrival time.
        read_to_ms: a restatement has read its rows that arrived before then, and those without an arrival
            time; None: no restatement has.
        fraction: about how much of it is in the slice, by its least and greatest arrival.
        listed_at: a version that lists it, where the pinned one does not any more: its rows were written
            again into another file, together with rows that earlier runs have read. Then only its rows that
            arrived before the slice are meant, and those without an arrival.
        vector: hides rows of it; None: none.
        tracking: which of its rows came with which commits, where rows arrive with commits; None: all came
            with the one that `partition` has.
        share: (number, count): the part of its row groups that is meant, of `count` parts.
        source: the position of its source in the pipeline's list.
    """

    path: str
    partition: tuple[tuple[str, Any], ...]
    rows: int | None
    bytes: int
    may_hold_unread: bool
    read_to_ms: int | None = None
    fraction: float = 1.0
    share: tuple[int, int] = (0, 1)
    source: int = 0
    listed_at: int | None = None
    vector: DeletionVector | None = None
    tracking: RowTracking | None = None

    @property
    def stored_rows(self) -> int | None:
        """How many rows it has, hidden ones included; None where the log doesn't say."""
        return self.rows if self.rows is None or self.vector is None else self.rows + self.vector.rows

    @property
    def is_part(self) -> bool:
        return self.listed_at is not None

    @property
    def logical_file(self) -> LogicalFile:
        return LogicalFile(self.path, None if self.vector is None else self.vector.name)

    def shares(self, count: int) -> "list[InputFile]":
        return (
            [replace(self, fraction=self.fraction / count, share=(number, count)) for number in range(count)]
            if count > 1
            else [self]
        )


class ColumnStatistics(NamedTuple):
    """One column over a batch's row groups; `bounds` in the column's unit, None: not known."""

    is_complete: bool
    bounds: tuple[int, int] | None


Bounds = tuple[int, int]
NOWHERE: Bounds = (2**63 - 1, -(2**63))


FIRST_MS, LAST_MS = -(2**63), 2**63 - 1
_LATEST_US = LATEST_MS * 1000 + 999


def actions_with_vectors(table: DeltaTable, uri: str) -> pa.Table:
    """The files of a table in path order, with the column `VECTOR` where it may have deletion vectors. Raises
    FileNotFoundError where the log has lost what says so.
    """
    actions = actions_of(table).sort_by("path")
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return actions
    vectors = vectors_at(uri, table.version())
    texts = [
        None if path not in vectors else vectors[path].to_json() for path in as_list(actions.column("path"))
    ]
    return actions.append_column(VECTOR, pa.array(texts, pa.string()))


def files_with_bounds(actions: pa.Table, arrival: str) -> Iterator[tuple[InputFile, Bounds | None]]:
    """Every file with bounds of the arrivals that slices may hold, in microseconds, wide enough for what the
    log's writer may have cut; None: not in the log, NOWHERE: no row has such an arrival.
    """
    names = [
        name.removeprefix("partition.") for name in actions.column_names if name.startswith("partition.")
    ]
    values = (
        zip(*(as_list(actions.column(f"partition.{name}")) for name in names), strict=True)
        if names
        else [()] * actions.num_rows
    )
    rows = _numbers(actions, "num_records")
    trackings = trackings_of(actions)
    least, greatest, lacking = _arrivals_in_log(actions, arrival, rows, trackings)
    files = zip(
        map(unquote, as_list(actions.column("path"))),
        values,
        rows,
        _numbers(actions, "size_bytes"),
        lacking,
        vectors_of(actions),
        trackings,
        strict=True,
    )
    for (path, partition, count, size, nulls, vector, tracking), low, high in zip(
        files, least, greatest, strict=True
    ):
        file = InputFile(
            path=path,
            partition=tuple(zip(names, partition, strict=True)),
            rows=count if count is None or vector is None else count - vector.rows,
            bytes=size or 0,
            may_hold_unread=nulls is None or nulls > 0,
            vector=vector,
            tracking=tracking,
        )
        if nulls is not None and nulls == count:
            yield file, NOWHERE
        else:
            yield within_slices(file, None if low is None or high is None else (low, high))


def _arrivals_in_log(
    actions: pa.Table, arrival: str, rows: list[int | None], trackings: list[RowTracking | None]
) -> tuple[list[int | None], list[int | None], list[int | None]]:
    """(the least, the greatest arrival in each file, in microseconds; how many of its `rows` have none), None
    where the log does not say. A partition column has one arrival for all rows of a file; but where rows are
    tracked, those that came with older commits have arrived before.
    """
    partition_column = f"partition.{arrival}"
    if partition_column not in actions.column_names:
        least, greatest = _bounds(actions, f"min.{arrival}", f"max.{arrival}")
        return least, greatest, _numbers(actions, f"null_count.{arrival}")
    greatest = least = _numbers(actions, partition_column)
    if any(trackings):
        oldest = _numbers(actions, f"min.{arrival}")
        least = [
            low if tracking else high for tracking, low, high in zip(trackings, oldest, greatest, strict=True)
        ]
    lacking = [count if moment is None else 0 for count, moment in zip(rows, least, strict=True)]
    return least, greatest, lacking


def logical_files(actions: pa.Table) -> frozenset[LogicalFile]:
    paths = map(unquote, as_list(actions.column("path")))
    vectors = vectors_of(actions)
    return frozenset(
        LogicalFile(path, None if vector is None else vector.name)
        for path, vector in zip(paths, vectors, strict=True)
    )


def vectors_of(actions: pa.Table) -> list[DeletionVector | None]:
    if VECTOR not in actions.column_names:
        return [None] * actions.num_rows
    texts = as_list(actions.column(VECTOR))
    return [None if text is None else DeletionVector.from_json(text) for text in texts]


def trackings_of(actions: pa.Table) -> list[RowTracking | None]:
    if TRACKING not in actions.column_names:
        return [None] * actions.num_rows
    texts = as_list(actions.column(TRACKING))
    return [None if text is None else RowTracking.from_json(text) for text in texts]


def has_arrivals_before(from_ms: int, bounds: Bounds | None, read_ms: int | None) -> bool:
    """Whether rows within these bounds may have arrived before `from_ms`, and not before `read_ms`."""
    return bounds is None or (bounds[0] < from_ms * 1000 and (read_ms is None or bounds[1] >= read_ms * 1000))


def within_slices(file: InputFile, bounds: Bounds | None) -> tuple[InputFile, Bounds | None]:
    """A file with the bounds of those arrivals that slices may hold: rows that arrive after the year 9999 are
    read as rows without an arrival.
    """
    if bounds is None or bounds == NOWHERE or bounds[1] <= _LATEST_US:
        return file, bounds
    extent = NOWHERE if bounds[0] > _LATEST_US else (bounds[0], _LATEST_US)
    return replace(file, may_hold_unread=True), extent


def fraction_between(bounds: Bounds, low: int, high: int) -> float:
    first, last = bounds
    return max(0, min(high, last + 1) - max(low, first)) / (last + 1 - first)


def _numbers(actions: pa.Table, name: str) -> list[int | None]:
    """A column of the log as a list, times as microseconds; all None where the log lacks the column."""
    if name not in actions.column_names:
        return [None] * actions.num_rows
    return _as_numbers(actions.column(name))


def _bounds(actions: pa.Table, low: str, high: str) -> tuple[list[int | None], list[int | None]]:
    if not {low, high} <= set(actions.column_names):
        return _numbers(actions, low), _numbers(actions, high)
    least, greatest = widen_bounds(actions.column(low), actions.column(high))
    return _as_numbers(least), _as_numbers(greatest)


def _as_numbers(column: pa.ChunkedArray) -> list[int | None]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
    return as_list(column)


def as_list(column: pa.ChunkedArray) -> list[Any]:
    return list(column.to_pylist())
