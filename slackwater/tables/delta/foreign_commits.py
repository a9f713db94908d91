"""Finds commits of others in the log of a table of ours that change its rows or its columns.

Each of our commits has a mark in its commitInfo. A commit without one is borne if it leaves rows and
columns as they are: OPTIMIZE and ZORDER (`dataChange` false), VACUUM, properties. Any other is named: a
DELETE, a RESTORE, an overwrite, a row or a column more. When `publish --rebuild` has taken a table back, its
commit says so, and commits before it no longer count.

Only the commits since a known version are read, which are few.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import dropwhile
from typing import Any, NamedTuple

from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError

from slackwater.tables.delta.concurrency import map_concurrently
from slackwater.tables.delta.log_files import (
    LINES,
    NO_VERSION,
    commit_path,
    content_of,
    last_checkpoint,
    newest_commit,
)
from slackwater.tables.errors import ForeignCommits
from slackwater.tables.stores import filesystem, is_local

# Marks a commit as ours, and identifies it.
TOKEN = "slackwaterCommit"
# The mark of a commit by which a table was taken back to what we have written.
TAKEN_BACK = "slackwaterTakenBack"
_FILE_ACTIONS = ("add", "remove", "cdc")


class ForeignCommit(NamedTuple):
    uri: str
    version: int
    operation: str
    engine: str

    def __str__(self) -> str:
        table = self.uri.rstrip("/").rsplit("/", 1)[-1]
        by = f" by {self.engine}" if self.engine else ""
        return f"{table} (version {self.version}: {self.operation}{by})"


class LoggedCommit(NamedTuple):
    version: int
    actions: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, version: int, content: bytes) -> "LoggedCommit":
        return cls(version, tuple(json.loads(line) for line in content.splitlines() if line.strip()))

    @property
    def info(self) -> dict[str, Any]:
        return next((action["commitInfo"] for action in self.actions if "commitInfo" in action), {})

    @property
    def is_ours(self) -> bool:
        return bool(self.info.keys() & {TOKEN, LINES})

    def without_files(self) -> "LoggedCommit":
        return self._replace(
            actions=tuple(action for action in self.actions if not action.keys() & set(_FILE_ACTIONS))
        )

    def transaction(self, application: str) -> int | None:
        """The version of an application's transaction; None without one."""
        transactions = (action["txn"] for action in self.actions if "txn" in action)
        return next((txn["version"] for txn in transactions if txn["appId"] == application), None)


def commits_between(
    uri: str, since: int, newest: int, contents: Mapping[int, bytes] | None = None
) -> list[LoggedCommit]:
    """The commits of the versions in (since, newest] that the log still has, from the last one on that took
    the table back. `contents` has files that were read already.
    """
    known_contents, folder = contents or {}, filesystem(uri)
    versions = range(since + 1, newest + 1)
    missing = [version for version in versions if version not in known_contents]
    read = partial(content_of, folder)
    paths = [commit_path(version) for version in missing]
    read_contents = map(read, paths) if is_local(uri) or len(paths) < 2 else map_concurrently(read, paths)
    by_version = {**known_contents, **dict(zip(missing, read_contents, strict=True))}
    commits: list[LoggedCommit] = []
    for version in versions:
        content = by_version[version]
        if content is None:
            continue
        commit = LoggedCommit.of(version, content)
        if TAKEN_BACK in commit.info:
            commits.clear()
        commits.append(commit)
    return commits


def commits_behind_ours(
    uri: str, newest: int, contents: Mapping[int, bytes] | None = None
) -> list[LoggedCommit]:
    """The commits from our first one since the last checkpoint up to `newest`; see `commits_between`."""
    since = max(last_checkpoint(filesystem(uri)).version - 1, NO_VERSION)
    commits = commits_between(uri, since, newest, contents)
    return list(dropwhile(lambda commit: not commit.is_ours, commits))


def foreign_among(uri: str, commits: Iterable[LoggedCommit]) -> list[ForeignCommit]:
    """The commits of others that change rows or columns, oldest first."""
    return [
        ForeignCommit(
            uri,
            commit.version,
            str(commit.info.get("operation", "a commit without a name")),
            str(commit.info.get("engineInfo") or commit.info.get("clientVersion") or ""),
        )
        for commit in commits
        if is_foreign(uri, commit)
    ]


def is_foreign(uri: str, commit: LoggedCommit) -> bool:
    if commit.is_ours:
        return False
    for action in commit.actions:
        if any(action[kind].get("dataChange", True) for kind in _FILE_ACTIONS if kind in action):
            return True
        if "metaData" in action and _changes_columns(uri, commit.version, action["metaData"]):
            return True
    return False


def is_changed_by_others(uri: str) -> bool:
    """Whether somebody else has changed protocol or metadata since one of our commits, which may be why
    delta-rs can't open the table.
    """
    return any(
        not commit.is_ours and any(action.keys() & {"protocol", "metaData"} for action in commit.actions)
        for commit in commits_behind_ours(uri, newest_commit(filesystem(uri)))
    )


def _changes_columns(uri: str, version: int, metadata: Mapping[str, Any]) -> bool:
    """Whether a commit's metadata has other columns, or another table id, than before."""
    with suppress(OSError, DeltaError):
        before = DeltaTable(uri, version=version - 1)
        schema, partition_columns = Schema.from_json(metadata["schemaString"]), metadata["partitionColumns"]
        return (schema, partition_columns, metadata["id"]) != (
            before.schema(),
            before.metadata().partition_columns,
            before.metadata().id,
        )
    return True


def refuse_foreign(commits: Iterable[ForeignCommit]) -> None:
    commit_list = list(commits)
    if not commit_list:
        return
    pipeline = commit_list[0].uri.rstrip("/").split("/")[-2]
    raise ForeignCommits(
        f"{commit_list[0].uri.rstrip('/').rsplit('/', 1)[0]}: somebody else has changed rows or columns of "
        f"{', '.join(map(str, commit_list))}. Nothing was changed now. `slackwater verify {pipeline} "
        f"--tables` says what differs; `slackwater publish {pipeline} --rebuild` takes the tables back to "
        "what runs have written; then run the same command again.",
        commits=[commit._asdict() for commit in commit_list],
    )
