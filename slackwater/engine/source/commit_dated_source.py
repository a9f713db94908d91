"""A Delta table without a column of arrivals, at one version: each file has the time and the version of the
commit that brought its rows as two partition columns more. A file that was put together from several commits
is listed as the files that it came from; see `slackwater.engine.source.commit_account`.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs
from deltalake.exceptions import DeltaError

from slackwater.engine.source.changes import Changes, Commit, Files, LogicalFile, lost_commits
from slackwater.engine.source.commit_account import TableFolder, account_of
from slackwater.engine.source.computed_columns import stored_names
from slackwater.engine.source.coverage import ReadRange, version_read
from slackwater.engine.source.dated_file_list import (
    actions_of_files,
    descriptions_of,
    files_with_commits,
    input_file,
    listed_logical_files,
    versions_of,
    with_commits,
)
from slackwater.engine.source.dated_files import Arrival, CommitAccount, DatedFile, Group, KnownFiles
from slackwater.engine.source.deletion_vectors import DeletionVector
from slackwater.engine.source.file_record import RecordedFile
from slackwater.engine.source.files import (
    FIRST_MS,
    LAST_MS,
    Bounds,
    InputFile,
    logical_files,
)
from slackwater.engine.source.lost_rows import lost_positions, vector_with
from slackwater.engine.source.pinned_source import PinnedSource, rewritten
from slackwater.engine.source.row_tracking import row_versions
from slackwater.engine.source.stored_arrivals import recorded_files
from slackwater.engine.source.tracked_arrivals import TrackedArrivals
from slackwater.pipelines.sources import COMMIT_TIME, COMMIT_VERSION
from slackwater.tables.storage_errors import reads
from slackwater.tables.stores import filesystem

_COMMIT_NAMES = (COMMIT_TIME, COMMIT_VERSION)


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
    """See above; the schema has the two columns, too.

    Attributes:
        tracking_column: the column of files that has the commit versions of rows which were written again;
            None: the table does not track rows.
    """

    tracking_column: str | None = None

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
        places = {file: place for place, file in enumerate(listed_logical_files(log_files))}
        in_table = [file for file in files if file in places]
        others = [file for file in files if file not in places]
        descriptions = {file: account.descriptions[file] for file in others}
        actions = pa.concat_tables(
            [
                log_files.take(pa.array([places[file] for file in in_table], pa.int64())),
                actions_of_files(descriptions, log_files.schema, self.schema),
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
            other_files = self._files_written_again_since(before)
            versions = {
                file.path: versions_of(file)
                for file, _ in files_with_commits(self.actions)
                if file.logical_file not in other_files
            }
            # Of a file with old and new rows, the row tells which it is.
            added_at: dict[str, frozenset[int | None]] = {
                path: frozenset(versions_of_file)
                for path, versions_of_file in versions.items()
                if min(versions_of_file) > before.version
            }
            self._changes_by_version[before.version] = Changes((), added_at, {})
        return self._changes_by_version[before.version]

    def _files_written_again_since(self, before: PinnedSource) -> Files:
        """The files of commits that the log has lost and that count as mere rewrites."""
        commits = self.lost_commits_since(before) if self.rewriting else ()
        return frozenset(
            file for commit in commits if commit.version in self.rewriting for file in commit.added_files
        )

    def as_recorded(self) -> "CommitDatedSource":
        """The source with the files that a run has recorded of the version, also if a vacuum has taken them
        since; the source itself where none has.
        """
        actions = None if self.record is None else self.record.actions_at(self.version, self.schema)
        if actions is None:
            return self
        recorded_source = replace(self)
        vars(recorded_source).update({"newest": self.newest, "record": self.record, "actions": actions})
        return recorded_source

    def record_files(self, arrival: str) -> None:
        """Record its files, unless a run has done so before: they may have been read as they were then."""
        if self.record is not None and self._recorded_at(self.version) is None:
            account = self._account_since(self.version)
            group_of = {
                file: sorted(map(list, group.members), key=repr)
                for group in (account.groups if account.version == self.version else ())
                for file in group.dated_files
            }
            files = files_with_commits(self.actions)
            recorded_groups = [group_of.get(file.logical_file) for file, _ in files]
            self.record.add(
                self.version,
                [
                    _with_group(item if file.tracking is None else item.with_tracking(file.tracking), group)
                    for (file, _), item, group in zip(
                        files, recorded_files(files, arrival), recorded_groups, strict=True
                    )
                ],
            )

    def files_dated_as_a_whole(self) -> list[tuple[InputFile, Bounds]]:
        return [
            (file, bounds)
            for file, bounds in files_with_commits(self.actions)
            if bounds[0] < bounds[1] and file.tracking is None
        ]

    def _files_of(
        self, state: CommitAccount | KnownFiles, files: Sequence[LogicalFile]
    ) -> list[tuple[InputFile, Bounds]]:
        """Some files, with the times of the oldest and the newest commit that brought rows of each."""
        descriptions = {file: state.descriptions[file] for file in files}
        actions = actions_of_files(descriptions, self.newest.log_files.schema, self.schema)
        return files_with_commits(with_commits(actions, [state.arrivals[file] for file in files]))

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
            descriptions_of(self.log_files),
            TableFolder(self._missing_files, self._tracked_arrivals(), self._vectors_of_lost_rows),
            since=version,
            recorded_arrivals={} if self.record is None else self.record.commits_by_path,
            recorded_at=self._recorded_at,
            newest_recorded=self._newest_recorded,
        )
        self._accounts.append(account)
        return account

    def _tracked_arrivals(self) -> TrackedArrivals | None:
        column = self.tracking_column
        if column is None:
            return None
        return TrackedArrivals(column, lambda path: row_versions(self.uri, path, column))

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
            [input_file(file, description, schema) for file, description in files.items()]
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


def _is_read(reads: Sequence[ReadRange], arrival: Arrival, version: int) -> bool:
    """Whether runs have last read rows that arrived so at that version."""
    return any(
        version_read(reads, commit.time_us // 1000, commit.version) == version for commit in arrival.commits
    )


def _with_group(file: RecordedFile, group: Sequence[Sequence[str | None]] | None) -> RecordedFile:
    return file if group is None else file.with_group(group)
