"""The values in an account of commits: arrivals, files as the log describes them, groups of rewritten files.
See `slackwater.engine.source.commit_account`.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from slackwater.engine.source.changes import Files, LogicalFile
from slackwater.engine.source.deletion_vectors import DeletionVector


class Arrival(NamedTuple):
    """When the rows of a file arrived, in microseconds, and the version that brought them. Of a file with
    rows of several commits it is the newest, and `least_us` the oldest.
    """

    time_us: int
    version: int
    least_us: int


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
    ascending = sorted(arrivals)
    return ascending[-1]._replace(least_us=min(arrival.least_us for arrival in ascending))


def members_of(groups: Iterable[Group]) -> Files:
    return frozenset(file for group in groups for file in group.members)


def dated_files_of(groups: Iterable[Group]) -> Files:
    return frozenset(file for group in groups for file in group.dated_files)
