"""A Delta table without a column of arrivals, at one version: each file has the time and the version of the
commit that brought its rows as two partition columns more. A file that was put together from several commits
is listed as the files that it came from; see `slackwater.engine.source.commit_account`.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
from deltalake.exceptions import DeltaError

from slackwater.engine.source.batches import name_in_files
from slackwater.engine.source.changes import Changes, Commit, Files, LogicalFile, lost_commits
from slackwater.engine.source.commit_account import TableFolder, account_of
from slackwater.engine.source.computed_columns import stored_names
from slackwater.engine.source.coverage import ReadRange, version_read
from slackwater.engine.source.dated_files import Arrival, CommitAccount, DatedFile, Group, KnownFiles
from slackwater.engine.source.deletion_vectors import VECTOR, DeletionVector
from slackwater.engine.source.files import (
    FIRST_MS,
    LAST_MS,
    Bounds,
    InputFile,
    as_list,
    files_with_bounds,
    logical_files,
    vectors_of,
)
from slackwater.engine.source.lost_rows import lost_positions, vector_with
from slackwater.engine.source.pinned_source import PinnedSource, rewritten
from slackwater.engine.source.stored_arrivals import recorded_files
from slackwater.pipelines.sources import COMMIT_TIME, COMMIT_VERSION
from slackwater.tables.storage_errors import reads
from slackwater.tables.stores import filesystem

_TIME = pa.timestamp("us", tz="UTC")
_COMMIT_NAMES = (COMMIT_TIME, COMMIT_VERSION)
COMMIT_COLUMNS = (pa.field(COMMIT_TIME, _TIME), pa.field(COMMIT_VERSION, pa.int64()))


class FileChanges(NamedTuple):
    """Files that may hold changed rows, with the bounds of their arrivals in microseconds.

    Attributes:
        version: the earlier version of the source, with which a newer one is compared.
        removed_files: hold the rows of the earlier version that the newer one may lack.
        added_files: hold the rows of the newer version that the earlier one may lack, though the commits that
            have brought them are not newer.
    """

    version: int
    removed_files: Sequence[tuple[InputFile, Bounds]]
    added_files: Sequence[tuple[InputFile, Bounds]]


@dataclass(frozen=True)
class CommitDatedSource(PinnedSource):
    """See above; the schema has the two columns, too."""

    caches_of_version: ClassVar[tuple[str, ...]] = (
        *PinnedSource.caches_of_version,
        *("newest", "log_files", "_accounts"),
    )

    @cached_property
    def newest(self) -> "CommitDatedSource":
        """The same source at the newest version that this process has opened; its log tells of all others."""
        return self

    @cached_property
    def _accounts(self) -> list[CommitAccount]:
        return []

    @cached_property
    def log_files(self) -> pa.Table:
        return super().listed_actions()

    def at_version(self, version: int) -> "PinnedSource":
        other = super().at_version(version)
        if version <= self.newest.version:
            vars(other)["newest"] = self.newest
        return other

    def __getstate__(self) -> dict[str, Any]:
        names = ("newest", "log_files", "_accounts")
        return {name: value for name, value in super().__getstate__().items() if name not in names}

    def listed_actions(self) -> pa.Table:
        account, log_files = self._account_since(self.version), self.newest.log_files
        if account.first > self.version:
            raise DeltaError(f"the log of {self.uri} has lost version {self.version}")
        files = account.files_at(self.version)
        places = {file: place for place, file in enumerate(_logical_files(log_files))}
        in_table = [file for file in files if file in places]
        others = [file for file in files if file not in places]
        descriptions = {file: account.descriptions[file] for file in others}
        actions = pa.concat_tables(
            [
                log_files.take(pa.array([places[file] for file in in_table], pa.int64())),
                _actions_of(descriptions, log_files.schema, self.schema),
            ],
            promote_options="default",
        )
        arrivals = [account.arrivals[file] for file in (*in_table, *others)]
        return with_commits(actions, arrivals).sort_by("path")

    def commits_since(self, version: int) -> list[Commit] | None:
        account = self._account_since(version)
        return account.commits_between(version, self.version) if account.first <= version else None

    def history_since(self, before: PinnedSource) -> list[Commit]:
        account = self._account_since(before.version)
        commits = account.commits_between(before.version, self.version)
        if account.first <= before.version:
            return commits
        states = {before.version: logical_files(before.actions)}
        if self.record is not None:
            states |= self.record.logical_files_between(before.version, account.first)
        states[account.first] = account.first_files
        return [*itertools.starmap(lost_commits, pairwise(states.items())), *commits]

    def check_kept(
        self, before: PinnedSource, from_ms: int, arrival: str, newer_reads: Sequence[ReadRange] = ()
    ) -> None:
        reads = [ReadRange(FIRST_MS, from_ms, before.version), *newer_reads]
        try:
            changes = self.file_changes(reads)
        except DeltaError as error:
            raise rewritten(self, before, str(error)) from error
        files = {
            file.path: bounds[0] // 1000
            for change in changes
            for file, bounds in (*change.removed_files, *change.added_files)
        }
        if files:
            raise rewritten(self, before, f"{len(files)} files, e.g. {min(files)}", min(files.values()))

    def file_changes(self, reads: Sequence[ReadRange]) -> list[FileChanges]:
        """The files that may hold changed rows of what live runs have read: each version that they have read
        is compared with this one, for the rows that they have last read there. Raises DeltaError where the
        files of such a version are not known any more.
        """
        account, changes = self._account_since(min(item.version for item in reads)), []
        for version in sorted({item.version for item in reads if item.version < self.version}):
            state_before, files_before, files_now = self._difference(account, version)
            removed_files, added_files = (
                self._files_of(
                    state, [file for file in files if _is_read(reads, state.arrivals[file], version)]
                )
                for state, files in ((state_before, files_before), (account, files_now))
            )
            if removed_files or added_files:
                changes.append(FileChanges(version, removed_files, added_files))
        return changes

    def _difference(
        self, account: CommitAccount, version: int
    ) -> tuple[CommitAccount | KnownFiles, Files, Files]:
        """What is known of the files of an earlier version; those of them that may hold other rows than the
        files of this version do, and the other way round.
        """
        if account.first <= version:
            return account, *account.difference(version, self.version, self.erasing)
        state = self._recorded_at(version)
        if state is None:
            raise DeltaError(f"the log of {self.uri} has lost version {version}, and no run has recorded it")
        files_before, files_now = frozenset(state.arrivals), account.files_at(self.version)
        return state, files_before - files_now, files_now - files_before

    def has_lost_files_since(self, before: PinnedSource) -> bool:
        try:
            return bool(self.file_changes([ReadRange(FIRST_MS, LAST_MS, before.version)]))
        except DeltaError:
            return False

    def _changes_since(self, before: PinnedSource) -> Changes:
        """New rows are those of newer commits; of rows that are gone or come back `file_changes` tells."""
        if before.version not in self._changes_by_version:
            account = self._account_since(before.version)
            added_at: dict[str, frozenset[int | None]] = {
                file.path: frozenset([account.arrivals[file].version])
                for file in account.files_at(self.version) - self._files_written_again_since(before)
                if account.arrivals[file].version > before.version
            }
            self._changes_by_version[before.version] = Changes((), added_at, {})
        return self._changes_by_version[before.version]

    def _files_written_again_since(self, before: PinnedSource) -> Files:
        """The files of commits that the log has lost and that count as mere rewrites."""
        commits = self.lost_commits_since(before) if self.rewriting else ()
        return frozenset(
            file for commit in commits if commit.version in self.rewriting for file in commit.added_files
        )

    def record_files(self, arrival: str) -> None:
        if self.record is not None:
            account = self._account_since(self.version)
            group_of = {
                file: sorted(map(list, group.members), key=repr)
                for group in (account.groups if account.version == self.version else ())
                for file in group.dated_files
            }
            files = _files_with_commits(self.actions)
            recorded_groups = [group_of.get(file.logical_file) for file, _ in files]
            self.record.add(
                self.version,
                [
                    item if group is None else item.with_group(group)
                    for item, group in zip(recorded_files(files, arrival), recorded_groups, strict=True)
                ],
            )

    def files_dated_as_a_whole(self) -> list[tuple[InputFile, Bounds]]:
        return [(file, bounds) for file, bounds in _files_with_commits(self.actions) if bounds[0] < bounds[1]]

    def _files_of(
        self, state: CommitAccount | KnownFiles, files: Sequence[LogicalFile]
    ) -> list[tuple[InputFile, Bounds]]:
        """Some files, with the times of the oldest and the newest commit that brought rows of each."""
        descriptions = {file: state.descriptions[file] for file in files}
        actions = _actions_of(descriptions, self.newest.log_files.schema, self.schema)
        return _files_with_commits(with_commits(actions, [state.arrivals[file] for file in files]))

    def _account_since(self, version: int) -> CommitAccount:
        """The account of its commits since `version` or before, else since the oldest that the log has."""
        newest = self.newest
        if newest is not self:
            return newest._account_since(version)
        for account in self._accounts:
            if account.first <= version:
                return account
        account = account_of(
            self.uri,
            self.version,
            _descriptions(self.log_files),
            TableFolder(self._missing_files, self._vectors_of_lost_rows),
            since=version,
            recorded_arrivals={} if self.record is None else self.record.commits_by_path,
            recorded_at=self._recorded_at,
            newest_recorded=self._newest_recorded,
        )
        self._accounts.append(account)
        return account

    def _newest_recorded(self, version: int) -> KnownFiles | None:
        versions = [] if self.record is None else [one for one in self.record.versions if one <= version]
        return self._recorded_at(versions[-1]) if versions else None

    def _recorded_at(self, version: int) -> KnownFiles | None:
        files = None if self.record is None else self.record.files_at(version)
        if files is None:
            return None
        arrivals, descriptions = {}, {}
        dated_files_by_members: dict[Files, set[LogicalFile]] = {}
        for path, file in files.items():
            vector = None if file.vector is None else DeletionVector.from_json(file.vector)
            arrival = file.commit
            if arrival is None:
                return None
            dated_file = LogicalFile(path, None if vector is None else vector.name)
            arrivals[dated_file] = arrival
            descriptions[dated_file] = DatedFile(file.rows, file.bytes, file.partition_values, vector)
            if file.group:
                dated_files_by_members.setdefault(frozenset(file.group), set()).add(dated_file)
        groups = tuple(
            Group(members, frozenset(dated_files)) for members, dated_files in dated_files_by_members.items()
        )
        return KnownFiles(version, arrivals, descriptions, groups)

    def _missing_files(self, paths: Sequence[str]) -> set[str]:
        if not paths:
            return set()
        with reads(self.uri):
            infos = filesystem(self.uri).get_file_info(list(paths))
        is_missing = (info.type is pafs.FileType.NotFound for info in infos)
        return set(itertools.compress(paths, is_missing))

    def _vectors_of_lost_rows(
        self, before: Mapping[LogicalFile, DatedFile], after: Mapping[LogicalFile, DatedFile]
    ) -> dict[LogicalFile, DeletionVector] | None:
        names = stored_names(self.schema, self.schema.names)
        schema = pa.schema([self.schema.field(name) for name in names if name not in _COMMIT_NAMES])
        files_before, files_after = (
            [_input_file(file, description, schema) for file, description in files.items()]
            for files in (before, after)
        )
        try:
            positions_by_file = lost_positions(self.uri, schema, files_before, files_after)
        except FileNotFoundError:
            return None
        if positions_by_file is None:
            return None
        return {
            file: vector_with(self.uri, input_file, positions)
            for file, input_file, positions in zip(before, files_before, positions_by_file, strict=True)
            if len(positions)
        }


def _files_with_commits(actions: pa.Table) -> list[tuple[InputFile, Bounds]]:
    """Files, with the times of the oldest and the newest commit that brought rows of each."""
    if not actions.num_rows:
        return []
    oldest = as_list(actions.column(f"min.{COMMIT_TIME}").cast(pa.int64()))
    return [
        (file, (oldest_us, bounds[1]))
        for (file, bounds), oldest_us in zip(files_with_bounds(actions, COMMIT_TIME), oldest, strict=True)
        if bounds is not None
    ]


def _is_read(reads: Sequence[ReadRange], arrival: Arrival, version: int) -> bool:
    """Whether runs have last read rows that arrived so at that version."""
    return version_read(reads, arrival.time_us // 1000, arrival.version) == version


def with_commits(actions: pa.Table, arrivals: Sequence[Arrival]) -> pa.Table:
    """A list of files, with the arrival of each one's rows as values of partition columns."""
    for name, values, kind in (
        (f"partition.{COMMIT_TIME}", [item.time_us for item in arrivals], _TIME),
        (f"partition.{COMMIT_VERSION}", [item.version for item in arrivals], pa.int64()),
        (f"min.{COMMIT_TIME}", [item.least_us for item in arrivals], _TIME),
    ):
        actions = actions.append_column(name, pa.array(values, pa.int64()).cast(kind))
    return actions


def _logical_files(log_files: pa.Table) -> list[LogicalFile]:
    paths = map(unquote, as_list(log_files.column("path")))
    return [
        LogicalFile(path, None if vector is None else vector.name)
        for path, vector in zip(paths, vectors_of(log_files), strict=True)
    ]


def _partition_names(log_files: pa.Schema) -> list[str]:
    return [name.removeprefix("partition.") for name in log_files.names if name.startswith("partition.")]


def _descriptions(log_files: pa.Table) -> dict[LogicalFile, DatedFile]:
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
            _logical_files(log_files), vectors_of(log_files), values, strict=True
        )
    }


def _actions_of(
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


def _input_file(file: LogicalFile, description: DatedFile, schema: pa.Schema) -> InputFile:
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
