"""What others have done to a table of ours: commits that change its rows or its columns, and features or
properties that our reads and writes can't bear.

Each of our commits has a mark in its commitInfo. A commit without one is borne if it leaves rows and
columns as they are: OPTIMIZE and ZORDER (`dataChange` false), VACUUM, properties. Any other is named: a
DELETE, a RESTORE, an overwrite, a row or a column more. When `publish --rebuild` has taken a table back, its
commit says so, and commits before it no longer count. Only the commits since a known version are read, which
are few.

Files are read as they are: a deletion vector would bring deleted rows back, a mapped column would be null.
Commits only add and remove files: row ids, commit timestamps and clustering would be missing. A feature that
is not known to be harmless is refused.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import dropwhile
from typing import Any, NamedTuple

from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError

from slackwater.tables.delta.log_files import (
    LINES,
    NO_VERSION,
    commit_path,
    content_of,
    last_checkpoint,
    newest_commit,
)
from slackwater.tables.errors import ForeignCommits, ForeignFeature
from slackwater.tables.stores import filesystem, is_local, map_concurrently

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

    @classmethod
    def without_files(cls, version: int, content: bytes) -> "LoggedCommit":
        """The commit without its files, which may be many, or damaged."""
        marks = (b'"txn"', b'"commitInfo"')
        lines = (line for line in content.splitlines() if any(mark in line for mark in marks))
        return cls.of(version, b"\n".join(lines))

    @property
    def info(self) -> dict[str, Any]:
        return next((action["commitInfo"] for action in self.actions if "commitInfo" in action), {})

    @property
    def is_ours(self) -> bool:
        return bool(self.info.keys() & {TOKEN, LINES})

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


# Features that a protocol may list; those that a property or a column makes active are looked for there.
_BEARABLE_FEATURES = frozenset(
    {"appendOnly", "changeDataFeed", "checkConstraints", "generatedColumns", "invariants", "timestampNtz"}
)
# The first reader and writer versions that imply a feature which can't be borne.
_MAPPING_READER, _MAPPING_WRITER, _IDENTITY_WRITER, _FEATURES_READER, _FEATURES_WRITER = 2, 5, 6, 3, 7
# Properties that can't be borne with this value, and the feature that each makes active.
_REFUSED_VALUES: Mapping[str, tuple[str, str]] = {
    "delta.appendOnly": ("true", "appendOnly"),
    "delta.columnMapping.mode": ("name", "columnMapping"),
    "delta.enableDeletionVectors": ("true", "deletionVectors"),
    "delta.enableInCommitTimestamps": ("true", "inCommitTimestamp"),
    "delta.enableRowTracking": ("true", "rowTracking"),
}
_CONSTRAINT = "delta.constraints."


class UnbearableFeature(NamedTuple):
    """A feature by Delta's name, and the end of the ALTER TABLE statement by which Spark takes it off."""

    name: str
    command: str


def refuse_unbearable(uri: str, table: DeltaTable) -> None:
    features = list(unbearable_features(table))
    if features:
        raise unbearable(uri, features)


def unbearable(uri: str, features: Sequence[UnbearableFeature]) -> ForeignFeature:
    names = ", ".join(dict.fromkeys(feature.name for feature in features))
    statements = "; ".join(f"ALTER TABLE delta.`{uri}` {feature.command}" for feature in features)
    pipeline = uri.rstrip("/").split("/")[-2]
    return ForeignFeature(
        f"{uri}: somebody has given this table what Slackwater can't read or write rightly: {names}. Nothing "
        f"was changed. `slackwater publish {pipeline} --rebuild` takes it off a table of the pipeline "
        f"{pipeline}; of another table Spark takes it off (`{statements}`).",
        uri=uri,
        features=[feature.name for feature in features],
    )


def unbearable_features(table: DeltaTable) -> Iterator[UnbearableFeature]:
    """Features of the protocol, and active ones by properties, that can't be borne."""
    protocol, properties = table.protocol(), table.metadata().configuration
    names = {*(protocol.reader_features or ()), *(protocol.writer_features or ())} - _BEARABLE_FEATURES
    if protocol.min_reader_version == _MAPPING_READER or protocol.min_writer_version == _MAPPING_WRITER:
        names.add("columnMapping")
    if protocol.min_writer_version == _IDENTITY_WRITER:
        names.add("identityColumns")
    for name in sorted(names):
        yield UnbearableFeature(name, f"DROP FEATURE {name}")
    if protocol.min_reader_version > _FEATURES_READER or protocol.min_writer_version > _FEATURES_WRITER:
        version = f"protocol {protocol.min_reader_version}/{protocol.min_writer_version}"
        yield UnbearableFeature(version, f"-- {version}")
    for key, value in properties.items():
        refused_value, feature = _REFUSED_VALUES.get(key, ("", ""))
        if key.startswith(_CONSTRAINT):
            yield UnbearableFeature("checkConstraints", f"DROP CONSTRAINT {key.removeprefix(_CONSTRAINT)}")
        elif feature and feature not in names and value.lower() == refused_value:
            yield UnbearableFeature(feature, f"UNSET TBLPROPERTIES ('{key}')")


def is_borne_property(key: str, value: str) -> bool:
    return not key.startswith(_CONSTRAINT) and _REFUSED_VALUES.get(key, ("", ""))[0] != value.lower()
