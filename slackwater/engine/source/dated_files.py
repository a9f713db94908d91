"""The values in an account of commits: arrivals, files as the log describes them, groups of rewritten files.
See `slackwater.engine.source.commit_account`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from slackwater.engine.source.changes import Commit, Files, LogicalFile
from slackwater.engine.source.deletion_vectors import DeletionVector
from slackwater.engine.source.row_tracking import RowTracking, TrackedCommit


class Arrival(NamedTuple):
    """When the rows of a file arrived, in microseconds, and the version that brought them. Of a file with
    rows of several commits it is the newest, and `least_us` the oldest; `tracking` tells which rows came with
    which, None: nothing does.
    """

    time_us: int
    version: int
    least_us: int
    tracking: RowTracking | None = None

    @property
    def commits(self) -> tuple[TrackedCommit, ...]:
        """The commits of its rows; of rows that nothing tells apart only the newest, with which all count."""
        if self.tracking is not None:
            return self.tracking.commits
        return (TrackedCommit(self.version, self.version, self.time_us),)

    @property
    def is_dated_as_a_whole(self) -> bool:
        """Whether it is that of rows of several commits which nothing tells apart."""
        return self.least_us < self.time_us and self.tracking is None


class DatedFile(NamedTuple):
    """A file as the log describes it.

    Attributes:
        rows: how many it has, hidden ones included; None: the log does not say.
        partition: partition column, as in files → value as text.
        modified_us: when it was written; None: not known.
    """

    rows: int | None
    bytes: int
    partition: Mapping[str, str | None]
    vector: DeletionVector | None = None
    modified_us: int | None = None

    @classmethod
    def from_action(cls, action: dict[str, Any]) -> "DatedFile":
        statistics = action.get("stats")
        rows = json.loads(statistics).get("numRecords") if statistics else None
        modified_ms = action.get("modificationTime")
        return cls(
            rows=rows,
            bytes=action.get("size") or 0,
            partition=action.get("partitionValues") or {},
            vector=DeletionVector.from_action(action),
            modified_us=None if modified_ms is None else modified_ms * 1000,
        )


class Group(NamedTuple):
    """Rewritten files that are in the table, and the dated files that hold exactly their rows."""

    members: Files
    dated_files: Files


class KnownFiles(NamedTuple):
    """The dated files of a version, as they are known without the commits before it."""

    version: int
    arrivals: Mapping[LogicalFile, Arrival]
    descriptions: Mapping[LogicalFile, DatedFile]
    groups: tuple[Group, ...] = ()

    @property
    def files_in_table(self) -> Files:
        return frozenset(self.arrivals).difference(dated_files_of(self.groups)) | members_of(self.groups)


def arrival_of_all(arrivals: Iterable[Arrival]) -> Arrival:
    """The arrival of files that are dated as a whole."""
    ascending = sorted(arrivals, key=lambda arrival: (arrival.time_us, arrival.version))
    least_us = min(arrival.least_us for arrival in ascending)
    return ascending[-1]._replace(least_us=least_us, tracking=None)


def members_of(groups: Iterable[Group]) -> Files:
    return frozenset(file for group in groups for file in group.members)


def dated_files_of(groups: Iterable[Group]) -> Files:
    return frozenset(file for group in groups for file in group.dated_files)


@dataclass(frozen=True)
class CommitAccount:
    """The dated files of each version from `first` to `version`.

    Attributes:
        arrivals, descriptions: of all files that were dated in between.
        groups: of the newest version.
        commits: of each version after the first one, what it has done to the dated files.
    """

    first: int
    version: int
    first_files: Files
    arrivals: Mapping[LogicalFile, Arrival]
    descriptions: Mapping[LogicalFile, DatedFile]
    groups: tuple[Group, ...]
    commits: tuple[Commit, ...]

    def files_at(self, version: int) -> Files:
        files = set(self.first_files)
        for commit in self.commits:
            if commit.version > version:
                break
            files -= commit.rewritten_files
            files |= commit.rewrites
            files -= commit.removed_files
            files |= commit.added_files
        return frozenset(files)

    def difference(
        self, version: int, version_now: int, erasing: frozenset[int] = frozenset()
    ) -> tuple[Files, Files]:
        """(files of a version, files of a later one) that hold all rows which the other version may lack.
        Files that commits have only written again are the same rows. Rows deleted by a version in `erasing`
        count as never there.
        """
        rewrites = list(self._rewrites(erasing))
        listed_before, listed_now = self.files_at(version), self.files_at(version_now)
        before, now = listed_before, listed_now
        for _, origins, copies in reversed(rewrites):
            before, now = (
                (files - copies) | origins if copies <= files else files for files in (before, now)
            )
        before, now = before - now, now - before
        # Files that a version does not list may be gone, where those that they were rewritten into are there.
        for number, origins, copies in rewrites:
            if number <= version and origins <= before and not origins <= listed_before:
                before = (before - origins) | copies
            if number <= version_now and origins <= now and not origins <= listed_now:
                now = (now - origins) | copies
        return before, now

    def _rewrites(self, erasing: frozenset[int]) -> Iterator[tuple[int, Files, Files]]:
        """(version, files before, files after) of each commit that has only written rows again."""
        for commit in self.commits:
            if commit.rewritten_files:
                yield commit.version, commit.rewritten_files, commit.rewrites
            if commit.version in erasing:
                yield commit.version, commit.removed_files, commit.added_files

    def commits_between(self, before: int, version: int) -> list[Commit]:
        return [commit for commit in self.commits if before < commit.version <= version]
