"""The rows of a slice: which files of a pinned source version hold them, and how a task reads those files.

A task reads Parquet itself. Where that is impossible (deletion vectors, column mapping) Spark scans instead;
`why_not_direct` says why.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from slackwater.jobs.engines.coverage import Stretch, had_readers, read_to, rests_on
from slackwater.jobs.engines.source_changes import UNKNOWN, Changes, Loss, changes_of, commits
from slackwater.jobs.errors import PermanentError, UsageError
from slackwater.jobs.pipelines import DeltaSource
from slackwater.jobs.tables.delta import filesystem
from slackwater.jobs.tables.errors import LogDamaged, NotADeltaTable
from slackwater.jobs.tables.log_files import check_commits, damage
from slackwater.jobs.tables.parquet import opened
from slackwater.jobs.tables.reading import actions_of
from slackwater.jobs.tables.storage_errors import not_readable, reads, reason

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class EmptySource(UsageError):
    """The source has no rows at all."""


class VersionGone(PermanentError):
    """A version of the source that a run was pinned to has been cleaned up."""


class SourceRewritten(UsageError):
    """Rows that runs have already read were changed or removed in the source."""


class SourceReplaced(UsageError):
    """Another table stands where the one stood that runs have read. Facts: uri, table_id, read_id."""


def to_datetime(ms: int) -> datetime:
    """Milliseconds of UTC as a datetime."""
    return EPOCH + ms * MILLISECOND


def to_ms(moment: datetime) -> int:
    """A datetime as whole milliseconds of UTC, floored."""
    return (moment - EPOCH) // MILLISECOND


def floored(time: int, unit: str) -> int:
    """A time in one of Arrow's units as whole milliseconds."""
    return time * 1000 // PER_SECOND[unit]


@dataclass(frozen=True)
class InputFile:
    """One Parquet file of the pinned source version.

    Attributes:
        path: relative to the source's folder.
        partition: values of the partition columns, which the file itself lacks.
        rows, bytes: its size; rows is None where the log doesn't say.
        may_hold_unread: whether rows may stand in it that arrived before the slice, or without an arrival
            time, and that no run has read.
        read_to_ms: a restatement has read its rows that arrived before then, and those without an arrival
            time; None: none has.
        fraction: about how much of it is of the slice, by its least and greatest arrival.
        share: (number, count): which of so many shares of its row groups is meant.
    """

    path: str
    partition: tuple[tuple[str, Any], ...]
    rows: int | None
    bytes: int
    may_hold_unread: bool
    read_to_ms: int | None = None
    fraction: float = 1.0
    share: tuple[int, int] = (0, 1)

    def shares(self, count: int) -> "list[InputFile]":
        """The file as so many shares of about equal size; one at least."""
        return (
            [replace(self, fraction=self.fraction / count, share=(number, count)) for number in range(count)]
            if count > 1
            else [self]
        )


@dataclass(frozen=True)
class PinnedSource:
    """A source table at one version. Two runs that pin the same version read the same rows.

    Attributes:
        uri: where it stands.
        version: the Delta version.
        schema: all columns, partition columns included.
        why_not_direct: None when tasks may read the files themselves, else the reason.
        table_id: the table's own; another one that is made in its place has another.
        erasing: versions that have deleted rows which count as never written; see
            `slackwater.jobs.tables.ledger.ERASE`.
    """

    uri: str
    version: int
    schema: pa.Schema
    why_not_direct: str | None
    table_id: str = ""
    erasing: frozenset[int] = frozenset()

    def without(self, erasing: frozenset[int]) -> "PinnedSource":
        """The source whose rows that the versions `erasing` have deleted count as never written."""
        if erasing == self.erasing:
            return self
        other = replace(self, erasing=erasing)
        vars(other).update({name: value for name, value in vars(self).items() if name == "actions"})
        return other

    @cached_property
    def actions(self) -> pa.Table:
        """Its files as of `slackwater.jobs.tables.reading.actions_of`, in path order. Tasks, which know their
        files, are not sent them.
        """
        return actions_of(DeltaTable(self.uri, version=self.version)).sort_by("path")

    @cached_property
    def _changes_by_version(self) -> "dict[int, Changes | None]":
        """What `_changes_since` has found out; by the version that it was asked for."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in vars(self).items()
            if name not in ("actions", "_changes_by_version")
        }

    def files(
        self,
        from_ms: int,
        to_ms: int,
        arrival: str,
        before: "PinnedSource | None",
        restated: Sequence[Stretch] = (),
        also: Sequence[int] = (),
    ) -> list[InputFile]:
        """Files that may hold rows of the slice, by partition values and statistics, in path order; and files
        that the parent run's version
        `before` lacks (None: it lacks all) and that may hold rows which arrived before the slice, or without
        an arrival time. `restated` is what live runs have read at versions newer than `before`; rows that
        arrived in one of the milliseconds `also` are wanted too."""
        new = None if before is None else self._new_since(before, restated)
        low, high = from_ms * 1000, to_ms * 1000
        chosen = []
        for file, bounds in _with_bounds(self.actions, self._name_in_log(arrival)):
            read_ms = None if new is None else read_to(restated, new.get(file.path, UNKNOWN))
            has_left = bounds is None or (
                bounds[0] < low and (read_ms is None or bounds[1] + 999 >= read_ms * 1000)
            )
            is_earlier = before is not None and has_left  # a lineage reads nothing from before its start
            unread = (new is None or file.path in new) and (
                is_earlier or (file.may_hold_unread and read_ms is None)
            )
            # The log may cut a time to milliseconds, so the greatest may be up to 999 µs more than it says.
            in_slice = bounds is None or (bounds[0] < high and bounds[1] + 999 >= low)
            in_slice = in_slice or (
                bounds is not None
                and any(bounds[0] // 1000 <= ms <= (bounds[1] + 999) // 1000 for ms in also)
            )
            if in_slice or unread:
                fraction = 1.0 if unread or bounds is None else _fraction(bounds, low, high)
                chosen.append(
                    replace(
                        file,
                        may_hold_unread=unread,
                        read_to_ms=read_ms if unread else None,
                        fraction=fraction,
                    )
                )
        return chosen

    def check_kept(
        self, before: "PinnedSource", from_ms: int, arrival: str, restated: Sequence[Stretch] = ()
    ) -> None:
        """Refuse a source that has lost or changed rows which runs before `from_ms` have read and none has
        read again since. Mere rewrites (compaction) are no change.

        Raises:
            SourceRewritten: it has.
        """
        changes = self._changes_since(before)
        if changes is None:
            lost = self._vanished(before, from_ms, arrival)
        else:
            lost = self._lost(changes.losses, before, from_ms, arrival, restated)
        if lost:
            least = None if None in lost.values() else min(low for low in lost.values() if low is not None)
            raise rewritten(self, before, f"{len(lost)} files, e.g. {min(lost)}", least)

    def _lost(
        self,
        losses: Iterable[Loss],
        before: "PinnedSource",
        from_ms: int,
        arrival: str,
        restated: Sequence[Stretch],
    ) -> dict[str, int | None]:
        """Paths of files with rows that live runs have read and that are gone, and the earliest arrival in
        each; None: not known.
        """
        lost: dict[str, int | None] = {}
        listed: dict[int, dict[str, tuple[InputFile, Bounds | None]]] = {}
        for loss in losses:
            if not had_readers(restated, loss):
                continue
            version = before.version if loss.listed is None else loss.listed
            if version not in listed:
                actions = (before if version == before.version else replace(self, version=version)).actions
                listed[version] = {
                    file.path: (file, bounds)
                    for file, bounds in _with_bounds(actions, self._name_in_log(arrival))
                }
            file, bounds = listed[version][loss.path]
            low, high = (
                (_FIRST_MS, from_ms - 1) if bounds is None else (bounds[0] // 1000, (bounds[1] + 999) // 1000)
            )
            if file.may_hold_unread or rests_on(restated, low, high, loss, from_ms):
                lost[loss.path] = low if bounds is not None and bounds != _NOWHERE else None
        return lost

    def _vanished(self, before: "PinnedSource", from_ms: int, arrival: str) -> dict[str, int | None]:
        """As `_lost` where the log is gone: files that are not there any more. Their rows can only stand in
        files that have come since; if one of those may hold rows that arrived before the slice, none are
        given: Spark then compares the rows."""
        column, paths = self._name_in_log(arrival), _paths(before)
        for file, bounds in _with_bounds(self.actions, column):
            if file.path not in paths and (
                file.may_hold_unread or bounds is None or bounds[0] < from_ms * 1000
            ):
                return {}
        vanished = paths - _paths(self)
        lost: dict[str, int | None] = {}
        for file, bounds in _with_bounds(before.actions, column):
            if file.path in vanished and (
                file.may_hold_unread or bounds is None or bounds[0] < from_ms * 1000
            ):
                lost[file.path] = None if bounds is None or bounds == _NOWHERE else bounds[0] // 1000
        return lost

    def _name_in_log(self, column: str) -> str:
        """The name under which the list of files has a column's bounds: where columns are mapped, not the one
        that users see, unless they are partitioned by it."""
        is_mapped = column in self.schema.names and f"partition.{column}" not in self.actions.column_names
        return name_in_files(self.schema.field(column)) if is_mapped else column

    def has_log_since(self, before: "PinnedSource") -> bool:
        """Whether the log still says which rows are gone since `before`."""
        return self._changes_since(before) is not None

    def is_certain_since(self, before: "PinnedSource", restated: Sequence[Stretch] = ()) -> bool:
        """Whether the log still says of each file whether its rows are new since `before` or old, to runs
        that have read as `restated`.
        """
        changes = self._changes_since(before)
        return (
            changes is not None
            and UNKNOWN not in changes.new_files(item.version for item in restated).values()
        )

    def added_since(self, before: "PinnedSource", read_at: Iterable[int] = ()) -> dict[str, int] | None:
        """Paths of files that brought new rows since `before`, and the version that did; None where the log
        does not say it any more, or not for each of the versions `read_at` whether it had the rows."""
        changes = self._changes_since(before)
        added = None if changes is None else changes.new_files(read_at)
        return None if added is None or UNKNOWN in added.values() else added

    def names_at(self, version: int) -> dict[str, str | None]:
        """The columns, and what each was called at another version; None where it was not there."""
        names = {
            name_in_files(column): column.name
            for column in pa.schema(DeltaTable(self.uri, version=version).schema())
        }
        return {column.name: names.get(name_in_files(column)) for column in self.schema}

    def _new_since(self, before: "PinnedSource", restated: Sequence[Stretch] = ()) -> dict[str, int]:
        """Paths of files that may hold rows which `before` lacks, and the version that brought each; where
        the log is gone, all that `before` did not have."""
        changes = self._changes_since(before)
        if changes is not None:
            return changes.new_files(item.version for item in restated)
        return dict.fromkeys(_paths(self) - _paths(before), UNKNOWN)

    def _changes_since(self, before: "PinnedSource") -> Changes | None:
        """What the commits after `before` have done to the rows; None where the log can't say it any more."""
        known = self._changes_by_version
        if before.version not in known:
            history = commits(self.uri, before.version + 1, self.version)
            known[before.version] = None if history is None else changes_of(history, self.erasing)
        return known[before.version]


def rewritten(
    source: PinnedSource, before: PinnedSource, seen_by: str, least_ms: int | None = None
) -> SourceRewritten:
    """The error for a source whose covered rows have changed between two versions; `least_ms` is the earliest
    arrival among them, None where that is not known."""
    earliest = "" if least_ms is None else f", arrivals from {to_datetime(least_ms):%Y-%m-%dT%H:%M:%S}Z on"
    return SourceRewritten(
        f"source {source.uri}: rows that runs have already read were changed or removed between version "
        f"{before.version}, which the run "
        f"before was pinned to, and version {source.version} ({seen_by}{earliest}).",
        uri=source.uri,
        before=before.version,
        version=source.version,
        least_ms=least_ms,
    )


def pin(
    source: DeltaSource, uri: str, version: int | None = None, table_id: str | None = None
) -> PinnedSource:
    """The source at `version` (default: newest), which must be a version of the table `table_id` (None: of
    any).

    Raises:
        NotADeltaTable, EmptySource, LogDamaged: what is at `uri` can't be read as a source.
        VersionGone: it has no such version any more.
        SourceReplaced: another table stands there.
    """
    table = _opened(source, uri)
    if version is not None:
        newest_id = str(table.metadata().id)
        try:
            table = _moved_to(source, uri, table, version)
        except VersionGone:
            _refuse_other(source, uri, newest_id, table_id)
            raise
    _refuse_other(source, uri, str(table.metadata().id), table_id)
    return _pinned(source, uri, table)


def pin_both(
    source: DeltaSource, uri: str, version: int, table_id: str | None = None
) -> tuple[PinnedSource, PinnedSource]:
    """(the source at its newest version, the source at `version`), both versions of the table `table_id`;
    raising as `pin`.
    """
    table = _opened(source, uri, since=version)
    _refuse_other(source, uri, str(table.metadata().id), table_id)
    newest = _pinned(source, uri, table)
    return newest, newest if version == newest.version else _pinned(
        source, uri, _moved_to(source, uri, table, version)
    )


def _refuse_other(source: DeltaSource, uri: str, there: str, wanted: str | None) -> None:
    if wanted is not None and there != wanted:
        raise SourceReplaced(
            f"source {source.table!r}: the table at {uri} is not the one that runs have read. It was dropped "
            "and made again, or replaced: "
            f"its id is {there}, theirs was {wanted}.",
            uri=uri,
            table_id=there,
            read_id=wanted,
        )


def _opened(source: DeltaSource, uri: str, since: int | None = None) -> DeltaTable:
    """The source as of now. `since`: a version up to which its log was looked through before."""
    try:
        table = DeltaTable(uri)
    except (DeltaError, OSError) as error:
        if (failure := not_readable(uri, error) or _lost_file(uri, error)) is not None:
            raise failure from error
        raise NotADeltaTable(
            f"source {source.table!r}: there is no Delta table at {uri} ({reason(error)}). Load it first "
            "(for an example: "
            "`slackwater examples load NAME --from A --to B`), or mend DeltaSource(...).",
            uri=uri,
        ) from error
    with reads(uri):
        check_commits(filesystem(uri), uri, table.version(), since)
    return table


def _lost_file(uri: str, error: Exception) -> LogDamaged | None:
    with reads(uri):
        return None if isinstance(error, TableNotFoundError) else damage(filesystem(uri), uri)


def _moved_to(source: DeltaSource, uri: str, table: DeltaTable, version: int) -> DeltaTable:
    try:
        table.load_as_version(version)
    except (DeltaError, OSError) as error:
        if (failure := not_readable(uri, error)) is not None:
            raise failure from error
        raise VersionGone(
            f"source {source.table!r}: version {version} can't be read any more ({reason(error)}). A run "
            "that was pinned to it can't "
            "be repeated; keep the source's log for longer (delta.logRetentionDuration).",
            uri=uri,
            version=version,
        ) from error
    return table


def _pinned(source: DeltaSource, uri: str, table: DeltaTable) -> PinnedSource:
    features, metadata = set(table.protocol().reader_features or ()), table.metadata()
    mapping = metadata.configuration.get("delta.columnMapping.mode", "none")
    actions = actions_of(table)
    if not actions.num_rows:
        raise EmptySource(
            f"source {source.table!r} at {uri} is empty (version {table.version()}): there is nothing to "
            "replay yet.",
            uri=uri,
        )
    reasons = (
        ("deletion vectors", "deletionVectors" in features),
        ("column mapping", mapping != "none"),
        (
            "files of another table",
            pc.any(pc.match_substring_regex(actions.column("path"), "^([a-z0-9]+:|/)")).as_py(),
        ),
    )
    why_not_direct = " and ".join(reason for reason, present in reasons if present) or None
    pinned = PinnedSource(uri, table.version(), pa.schema(table.schema()), why_not_direct, str(metadata.id))
    vars(pinned)["actions"] = actions.sort_by("path")  # else the table would be opened again for them
    return pinned


class ColumnStatistics(NamedTuple):
    """What a file says of a column of a batch.

    Attributes:
        is_complete: it holds no null.
        bounds: no value is less than the first or greater than the second; times as integers of the column's
            unit. None: not known.
    """

    is_complete: bool
    bounds: tuple[int, int] | None


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
    whole_rows: Callable[[npt.NDArray[np.int64]], pa.Table] | None = None
    statistics: Callable[[str], ColumnStatistics] | None = None

    def whole(self, positions: npt.NDArray[np.int64]) -> pa.Table:
        """All wanted columns of the rows at ascending `positions`."""
        return self.rows.take(pa.array(positions)) if self.whole_rows is None else self.whole_rows(positions)

    def is_complete(self, name: str) -> bool:
        """Whether the column holds no null."""
        if name in self.rows.column_names or self.statistics is None:
            return bool(self.rows.column(name).null_count == 0)
        return self.statistics(name).is_complete

    def bounds(self, time: str) -> tuple[int, int]:
        """Two times, in the column's unit, that all of a column without nulls lie between; of a batch that
        has rows.
        """
        known = None if self.statistics is None else self.statistics(time).bounds
        if known is not None:
            return known
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
    data = opened(uri, filesystem(uri), file.path, metadata, coerce_int96_timestamp_unit="us")
    with reads(f"{uri}/{file.path}"), data as parquet:
        there = set(parquet.schema_arrow.names)
        stored = [name for name in columns if name in there and name not in partition]
        wanted = range(parquet.num_row_groups) if row_groups is None else row_groups
        table = parquet.read_row_groups(wanted, stored, use_threads=False)
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


def _paths(source: PinnedSource) -> set[str]:
    return set(map(unquote, _list(source.actions.column("path"))))


Bounds = tuple[int, int]
_NOWHERE: Bounds = (2**63 - 1, -(2**63))
_FIRST_MS = -(2**63)


def _with_bounds(actions: pa.Table, arrival: str) -> Iterator[tuple[InputFile, Bounds | None]]:
    """Every file with the least and greatest arrival in it, in microseconds; None where the log doesn't say."""
    names = [
        name.removeprefix("partition.") for name in actions.column_names if name.startswith("partition.")
    ]
    values = (
        zip(*(_list(actions.column(f"partition.{name}")) for name in names), strict=True)
        if names
        else [()] * actions.num_rows
    )
    rows = _numbers(actions, "num_records")
    if arrival in names:
        least = greatest = _numbers(actions, f"partition.{arrival}")
        lacking: list[int | None] = [
            rows[number] if moment is None else 0 for number, moment in enumerate(least)
        ]
    else:
        least, greatest = _numbers(actions, f"min.{arrival}"), _numbers(actions, f"max.{arrival}")
        lacking = _numbers(actions, f"null_count.{arrival}")
    files = zip(
        map(unquote, _list(actions.column("path"))),
        values,
        rows,
        _numbers(actions, "size_bytes"),
        lacking,
        strict=True,
    )
    for (path, partition, count, size, nulls), low, high in zip(files, least, greatest, strict=True):
        file = InputFile(
            path, tuple(zip(names, partition, strict=True)), count, size or 0, nulls is None or nulls > 0
        )
        if nulls is not None and nulls == count:
            yield file, _NOWHERE
        else:
            yield file, None if low is None or high is None else (low, high)


def _fraction(bounds: Bounds, low: int, high: int) -> float:
    """How much of the time between two bounds lies in [low, high)."""
    first, last = bounds
    return max(0, min(high, last + 1) - max(low, first)) / (last + 1 - first)


def _numbers(actions: pa.Table, name: str) -> list[int | None]:
    """A column of the log, times as microseconds; all None where the log has none."""
    if name not in actions.column_names:
        return [None] * actions.num_rows
    column = actions.column(name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
    return _list(column)


def _list(column: pa.ChunkedArray) -> list[Any]:
    return list(column.to_pylist())
