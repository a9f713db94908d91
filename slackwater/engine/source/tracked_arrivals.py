"""The arrivals of files that were written again, in a table that tracks rows: each row keeps the commit that
brought it, whichever files hold it. See `slackwater.engine.source.row_tracking`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from slackwater.engine.source.changes import LogicalFile
from slackwater.engine.source.dated_files import Arrival
from slackwater.engine.source.row_tracking import RowTracking, RowVersions, TrackedCommit


@dataclass
class TrackedArrivals:
    """Plays the part of a log that tracks rows.

    Attributes:
        column: the materialized column.
        row_versions: path → what the file's materialized column holds, None where it lacks that; raises
            FileNotFoundError.
        default_versions: path → the commit version of the file's rows that have none in that column.
    """

    column: str
    row_versions: Callable[[str], RowVersions | None]
    default_versions: dict[str, int] = field(default_factory=dict)

    def play(self, actions: Iterable[dict[str, Any]]) -> None:
        """Play a commit. The action that removes a file repeats the version, also where the log has lost the
        one that has added it.
        """
        for action in actions:
            for file in (action.get("remove"), action.get("add")):
                if file is not None and file.get("defaultRowCommitVersion") is not None:
                    self.default_versions[unquote(file["path"])] = file["defaultRowCommitVersion"]

    def arrivals_of(
        self,
        files: Iterable[LogicalFile],
        origins: Mapping[LogicalFile, Arrival],
        own_arrival: Arrival | None = None,
    ) -> dict[LogicalFile, Arrival] | None:
        """The arrivals of files with rows that were in `origins`, or that came with the commit which arrives
        at `own_arrival`. None where nothing tells apart the rows of all these commits.
        """
        commits = self._commits_of(origins)
        if commits is None:
            return None
        arrivals = {}
        for file in files:
            default_version = self.default_versions.get(file.path)
            if own_arrival is not None and default_version is not None:
                own_commit = TrackedCommit(default_version, own_arrival.version, own_arrival.time_us)
                commits[default_version] = own_commit
            commits_of_file = self._commits_in(file, default_version, commits)
            if commits_of_file is None:
                return None
            newest = max(commits_of_file, key=lambda commit: commit.time_us)
            arrivals[file] = Arrival(
                time_us=newest.time_us,
                version=newest.version,
                least_us=min(commit.time_us for commit in commits_of_file),
                tracking=RowTracking(self.column, default_version, commits_of_file),
            )
        return arrivals

    def _commits_of(self, origins: Mapping[LogicalFile, Arrival]) -> dict[int, TrackedCommit] | None:
        """Commit version of rows → the commit that has brought them, in files whose rows are told apart. None
        where one version stands for several commits: the table has tracked rows only since then.
        """
        commits: dict[int, TrackedCommit] = {}
        for file, arrival in origins.items():
            if arrival.is_dated_as_a_whole:
                return None
            for commit in arrival.commits:
                if arrival.tracking is None:
                    row_version = self.default_versions.get(file.path, commit.version)
                    commit = commit._replace(row_version=row_version)
                if commits.setdefault(commit.row_version, commit) != commit:
                    return None
        return commits

    def _commits_in(
        self, file: LogicalFile, default_version: int | None, commits: Mapping[int, TrackedCommit]
    ) -> tuple[TrackedCommit, ...] | None:
        """Those of `commits` that may have brought rows of a file, ascending."""
        try:
            row_versions = self.row_versions(file.path)
        except FileNotFoundError:  # nobody reads it, but its rows may be in others
            return tuple(sorted(commits.values())) or None
        return None if row_versions is None else row_versions.commits_among(commits, default_version)
