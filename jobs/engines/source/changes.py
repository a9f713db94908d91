"""What the commits of a source's log have done to its rows: which files brought new ones, which only hold old
ones in other files, and which rows are gone.

A commit says of each file that it adds or removes whether that changes the data. It does not say where the
rows of a rewritten file came from, so the log is played: a compaction hands on what its files held, a
deletion vector makes another file of the same path, and a file that a RESTORE brings back is the one that it
was. Knows nothing of arrival times or runs.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import unquote

from slackwater.jobs.tables.delta.log_files import commit_path, empty_commit
from slackwater.jobs.tables.delta.written_files import filesystem
from slackwater.jobs.tables.storage_errors import reads

# Newer than any version: nobody has read a file of which the log does not say when its rows came.
UNKNOWN = 2**63 - 1


class LogicalFile(NamedTuple):
    """A Parquet file without the rows that its deletion vector hides: the two together are what a commit adds
    or removes.
    """

    path: str
    vector: str | None = None


Files = frozenset[LogicalFile]

# How many rows a MERGE has inserted and updated, in Spark's words and in delta-rs's.
_MERGED = (
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "num_target_rows_inserted",
    "num_target_rows_updated",
)


@dataclass(frozen=True)
class Commit:
    """The files that one version has added and removed, and those that it has rewritten without a change of
    the data; and whether it says that it has deleted rows and done nothing else."""

    version: int
    added: Files
    removed: Files
    rewritten: Files
    rewrites: Files
    only_deletes: bool = False

    def as_rewrite(self) -> "Commit":
        """The commit as if the rows that it has deleted had never been there: it only hands on the others in
        other files.
        """
        return replace(
            self,
            added=frozenset(),
            removed=frozenset(),
            rewritten=self.rewritten | self.removed,
            rewrites=self.rewrites | self.added,
        )


@dataclass(frozen=True)
class Loss:
    """Rows that a commit has taken out of the table.

    Attributes:
        path: of the file that held them.
        brought: the versions that brought those that are still gone; None among them: the table had them
            before the first commit.
        listed: the newest version that lists the file; None: the one before the first commit does.
        removed: the version that took them out.
        restored: a version by which the others are back, as they were; None: there are none.
    """

    path: str
    brought: frozenset[int | None]
    listed: int | None
    removed: int
    restored: int | None = None


@dataclass(frozen=True)
class Changes:
    """What a sequence of commits has come to.

    Attributes:
        losses: in the order of the commits.
        brought: path → the versions that brought rows of a file which stands in the table now and holds new
            ones; None among them: it holds old rows, too.
    """

    losses: tuple[Loss, ...]
    brought: dict[str, frozenset[int | None]]

    def new_files(self, read_at: Iterable[int]) -> dict[str, int]:
        """Paths of files with new rows, and the version that brought them: UNKNOWN for a file of which some
        rows may have been read and others not, where runs have read at the versions `read_at`."""
        versions = sorted(set(read_at))
        return {path: _as_one(brought, versions) for path, brought in self.brought.items()}


def _as_one(brought: frozenset[int | None], read_at: Sequence[int]) -> int:
    versions = [version for version in brought if version is not None]
    least, greatest = min(versions), max(versions)
    is_mixed = len(versions) < len(brought) or any(least <= version < greatest for version in read_at)
    return UNKNOWN if is_mixed else greatest


def commits(uri: str, first: int, last: int) -> list[Commit] | None:
    """The commits of the versions first … last of the table at `uri`; None where one of them is gone.

    Raises:
        LogDamaged: one of them is empty.
    """
    log, commits_found = filesystem(uri), []
    for version in range(first, last + 1):
        path = commit_path(version)
        try:
            with reads(uri), log.open_input_stream(path) as stream:
                actions = [json.loads(line) for line in stream.read().splitlines() if line.strip()]
        except FileNotFoundError:
            return None
        if not actions:
            raise empty_commit(uri, path)
        commits_found.append(_commit(version, actions))
    return commits_found


def _commit(version: int, actions: Sequence[dict[str, Any]]) -> Commit:
    files: dict[tuple[str, bool], set[LogicalFile]] = {
        (kind, data): set() for kind in ("add", "remove") for data in (True, False)
    }
    for action in actions:
        for kind in ("add", "remove"):
            if kind in action:
                files[kind, action[kind].get("dataChange", True)].add(_file(action[kind]))
    added, removed, rewrites, rewritten = (
        frozenset(files[kind])
        for kind in (("add", True), ("remove", True), ("add", False), ("remove", False))
    )
    commit_info: dict[str, Any] = next(
        (action["commitInfo"] for action in actions if "commitInfo" in action), {}
    )
    return Commit(
        version,
        added - removed,
        removed - added,
        rewritten - rewrites,
        rewrites - rewritten,
        _only_deletes(commit_info),
    )


def _only_deletes(commit_info: dict[str, Any]) -> bool:
    """Whether a commit's own information, of Spark or of delta-rs, says that it is a DELETE, or a MERGE of
    which only deletes came.
    """
    if commit_info.get("operation") != "MERGE":
        return commit_info.get("operation") == "DELETE"
    metrics = commit_info.get("operationMetrics") or {}
    counts = [metrics.get(name) for name in _MERGED]
    return all(value is None or int(value) == 0 for value in counts) and any(
        value is not None for value in counts
    )


def _file(action: dict[str, Any]) -> LogicalFile:
    vector = action.get("deletionVector")
    name = (
        None
        if vector is None
        else f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}"
    )
    return LogicalFile(unquote(action["path"]), name)


def changes_of(history: Iterable[Commit], erasing: frozenset[int] = frozenset()) -> Changes:
    """What the commits `history`, oldest first, have come to. Rows that one of the versions `erasing` has
    deleted count as never there.
    """
    replay = _Replay()
    for commit in (item.as_rewrite() if item.version in erasing else item for item in history):
        replay.rewrite(commit)
        replay.change(commit)
    return replay.result()


@dataclass
class _Replay:
    """The files of a table, as far as commits have named them.

    Attributes:
        version_of: of each file that a commit has added with a change of the data, which did. A file that is
            not among them stood in the table before the first commit.
        origins: of each file that was written without a change of the data, the files that had brought its
            rows.
        rewrites: (files before, files after) of each commit without a change of the data.
        left: the files that are not in the table any more.
        removed: (file, version) of each that was removed with a change of the data.
        restored: the newest version that has brought a file back.
    """

    version_of: dict[LogicalFile, int] = field(default_factory=dict)
    origins: dict[LogicalFile, Files] = field(default_factory=dict)
    rewrites: list[tuple[Files, Files]] = field(default_factory=list)
    left: set[LogicalFile] = field(default_factory=set)
    removed: list[tuple[LogicalFile, int]] = field(default_factory=list)
    restored: int | None = None

    def rewrite(self, commit: Commit) -> None:
        """Take in what a commit does without a change of the data. One that removes nothing only says more of
        files that are there.
        """
        if commit.rewritten:
            origins = frozenset(origin for file in commit.rewritten for origin in self._origins(file))
            self.origins |= dict.fromkeys(commit.rewrites, origins)
            self.rewrites.append((commit.rewritten, commit.rewrites))
            self.left |= commit.rewritten
            self.left -= commit.rewrites

    def change(self, commit: Commit) -> None:
        """Take in what a commit does to the data. A file that comes back is the one that it was."""
        self.removed += [(file, commit.version) for file in sorted(commit.removed, key=repr)]
        for file in commit.added:
            if file in self.left:
                self.restored = commit.version
            else:
                self.version_of[file] = commit.version
        self.left |= commit.removed
        self.left -= commit.added

    def _origins(self, file: LogicalFile) -> Files:
        return self.origins.get(file, frozenset((file,)))

    def _is_known(self, file: LogicalFile) -> bool:
        return file in self.version_of or file in self.origins

    def result(self) -> Changes:
        """The losses, and the files that stand in the table now and hold new rows."""
        standing = {file for file in self.version_of.keys() | self.origins.keys() if file not in self.left}
        brought = {file.path: frozenset(map(self.version_of.get, self._origins(file))) for file in standing}
        losses = tuple(self._loss(file, version) for file, version in self.removed)
        return Changes(losses, {path: versions for path, versions in brought.items() if versions != {None}})

    def _loss(self, file: LogicalFile, version: int) -> Loss:
        vanished = self._origins(file) & self._gone
        restored = self.restored if vanished != self._origins(file) else None
        return Loss(
            file.path,
            frozenset(map(self.version_of.get, vanished)),
            version - 1 if self._is_known(file) else None,
            version,
            restored,
        )

    @cached_property
    def _gone(self) -> set[LogicalFile]:
        """The files whose rows are not all in the table: neither do they stand in it, nor does all that they
        were rewritten to.
        """
        vanished = set(self.left)
        for before, after in reversed(self.rewrites):
            if after and not after & vanished:
                vanished -= before
        return vanished
