"""A folder of Parquet files as a source. What a run finds in the folder is recorded in a small Delta table of
the pipeline, so that files which come, go or change afterwards are noticed, as a Delta source's own log says:

    look 0      a.parquet, b.parquet          version 0: add a, b
    look 1      nothing has changed           still version 0
    look 2      a has changed, c has come     version 1: remove a as it was; add a as it is, c

Only runs record; whoever merely looks has the next version in memory.

Where rows arrive with their files, a file arrives when it was last modified before the first look that found
it, but after all files that earlier looks found: a copy that keeps its old time does not arrive in the past.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote

import pyarrow as pa

from slackwater.engine.source.changes import Commit, LogicalFile
from slackwater.engine.source.dated_file_list import COMMIT_COLUMNS, with_commits
from slackwater.engine.source.dated_files import Arrival
from slackwater.engine.source.file_list import (
    FileUnfinished,
    ListedFile,
    columns_of,
    digest_of,
    list_files,
)
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.source.wider_types import wider_type
from slackwater.pipelines.sources import COMMIT_TIME
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.open_table import OpenTable
from slackwater.tables.errors import CommitConflict
from slackwater.tables.storage_errors import reads
from slackwater.tables.stores import filesystem

_SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("op", pa.string()),
        ("path", pa.string()),
        ("digest", pa.string()),
        ("bytes", pa.int64()),
        ("modified_ns", pa.int64()),
        ("rows", pa.int64()),
        ("bounds", pa.string()),
        ("schema", pa.string()),
    ]
)
_ADD, _REMOVE, _TOUCH = "add", "remove", "touch"
NO_RECORD_YET = "not recorded yet"


class _FolderColumns(NamedTuple):
    """The columns of a folder's files, and those that are none of its schema: name → reason."""

    schema: pa.Schema
    conflicts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class FolderPlace:
    """The place of a folder of Parquet files, and of the pipeline's record of it."""

    uri: str
    record_uri: str


@dataclass(frozen=True)
class FileChange:
    """A file that came into the folder or left it at a version; a changed file does both. One that was
    written again with the same bytes is touched.
    """

    version: int
    op: str
    file: ListedFile


@dataclass(frozen=True)
class PinnedFolder(PinnedSource):
    """A folder of Parquet files at one version, whose changes are recorded at `record_uri`.

    Attributes:
        arrives_by_commit: whether the rows of a file arrive with it; the schema has the columns for that.
    """

    record_uri: str = ""
    changes: tuple[FileChange, ...] = ()
    arrives_by_commit: bool = False

    keeps_removed_files: ClassVar[bool] = False

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "changes": ()}  # tasks know their files

    @property
    def place(self) -> FolderPlace:
        return FolderPlace(self.uri, self.record_uri)

    @cached_property
    def actions(self) -> pa.Table:
        files = files_at(self.changes, self.version)
        actions = _actions(files.values(), self.schema)
        if not self.arrives_by_commit:
            return actions
        additions = _first_seen(self.changes, self.version)
        return with_commits(actions, [additions[path] for path in files])

    def commits_since(self, version: int) -> list[Commit]:
        by_version: dict[int, dict[str, set[LogicalFile]]] = {}
        for change in self.changes:
            if change.op != _TOUCH and version < change.version <= self.version:
                sides = by_version.setdefault(change.version, {_ADD: set(), _REMOVE: set()})
                sides[change.op].add(LogicalFile(change.file.path, change.file.digest))
        return [
            Commit(
                version=number,
                added_files=frozenset(sides[_ADD]),
                removed_files=frozenset(sides[_REMOVE]),
                rewritten_files=frozenset(),
                rewrites=frozenset(),
            )
            for number, sides in sorted(by_version.items())
        ]

    def history_since(self, before: PinnedSource) -> list[Commit]:
        return self.commits_since(before.version)

    def changed_files(self, paths: Iterable[str]) -> dict[str, str]:
        listed_files, folder = files_at(self.changes, self.version), filesystem(self.uri)
        facts: dict[str, str] = {}
        for path in paths:
            try:
                with reads(f"{self.uri}/{path}"):
                    if digest_of(folder, path) != listed_files[path].digest:
                        facts[path] = "was changed"
            except FileNotFoundError:
                facts[path] = "is missing"
        return facts

    def refuse_files_written_meanwhile(self, paths: Iterable[str]) -> None:
        listed_files = files_at(self.changes, self.version)
        files = [listed_files[path] for path in paths]
        if not files:
            return
        with reads(self.uri):
            infos = filesystem(self.uri).get_file_info([file.path for file in files])
        for file, info in zip(files, infos, strict=True):
            if (info.size, info.mtime_ns) != (file.bytes, file.modified_ns):
                raise FileUnfinished(
                    f"{self.uri}: the file {file.path} was written or removed while it was read. Nothing was "
                    "changed; repeat the command, and write files under names of their own.",
                    uri=self.uri,
                    path=file.path,
                )


def look_at_folder(place: FolderPlace, *, records: bool, arrives_by_commit: bool = False) -> PinnedFolder:
    """The folder as it is now; a new version is recorded if `records`. Raises as `list_files`."""
    while True:
        folder = Folder(place.record_uri, _SCHEMA)
        table = folder.ensure() if records else folder.find()
        changes = _recorded_changes(folder, table)
        version = changes[-1].version if changes else -1
        listed_files = files_at(changes, version)
        new_changes = _differences(version + 1, listed_files, list_files(place.uri, listed_files))
        newest_version = version + 1 if new_changes else max(version, 0)
        all_changes = (*changes, *new_changes)
        source = _folder_source(place, table, all_changes, newest_version, arrives_by_commit)
        if not records or not new_changes:
            return source
        try:
            folder.append(_rows_of(new_changes), expected_table=table)
        except CommitConflict:
            continue
        return source


def folder_at(place: FolderPlace, version: int, *, arrives_by_commit: bool = False) -> PinnedFolder | None:
    folder = Folder(place.record_uri, _SCHEMA)
    table = folder.find()
    changes = _recorded_changes(folder, table)
    if table is None or not changes or version > changes[-1].version:
        return None
    return _folder_source(place, table, changes, version, arrives_by_commit)


def files_at(changes: Iterable[FileChange], version: int) -> dict[str, ListedFile]:
    files: dict[str, ListedFile] = {}
    for change in changes:
        if change.version > version:
            break
        if change.op == _REMOVE:
            files.pop(change.file.path, None)
        else:
            files[change.file.path] = change.file
    return dict(sorted(files.items()))


def _first_seen(changes: Iterable[FileChange], version: int) -> dict[str, Arrival]:
    """Path → when the newest file of this path arrived, with which version of the list."""
    arrivals: dict[str, Arrival] = {}
    newest_us = newest_before_us = -(2**63)
    look = -1
    for change in changes:
        if change.version > version:
            break
        if change.version > look:
            look, newest_before_us = change.version, newest_us
        if change.op == _ADD:
            time_us = max(change.file.modified_ns // 1000, newest_before_us + 1)
            newest_us = max(newest_us, time_us)
            arrivals[change.file.path] = Arrival(time_us, change.version, time_us)
    return arrivals


def _recorded_changes(folder: Folder, table: OpenTable | None) -> tuple[FileChange, ...]:
    if table is None:
        return ()
    rows = folder.read_at(table).to_pylist()
    changes = (FileChange(row.pop("version"), row.pop("op"), ListedFile(**row)) for row in rows)
    return tuple(sorted(changes, key=lambda change: (change.version, change.op == _ADD, change.file.path)))


def _differences(
    version: int, before: Mapping[str, ListedFile], after: Mapping[str, ListedFile]
) -> tuple[FileChange, ...]:
    """The changes between two lists; a file with the same bytes has only been touched."""
    removals = [
        FileChange(version, _REMOVE, file)
        for path, file in before.items()
        if path not in after or after[path].digest != file.digest
    ]
    additions = [
        FileChange(version, _ADD, file)
        for path, file in after.items()
        if path not in before or before[path].digest != file.digest
    ]
    rewrites = [
        FileChange(version, _TOUCH, file)
        for path, file in after.items()
        if path in before and before[path].digest == file.digest and before[path] != file
    ]
    return (*removals, *additions, *rewrites)


def _rows_of(changes: Iterable[FileChange]) -> pa.Table:
    rows = [{"version": item.version, "op": item.op, **item.file._asdict()} for item in changes]
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def _folder_source(
    place: FolderPlace,
    table: OpenTable | None,
    changes: tuple[FileChange, ...],
    version: int,
    arrives_by_commit: bool,
) -> PinnedFolder:
    files = files_at(changes, version)
    added_at = {change.file.path: change.version for change in changes if change.version <= version}
    columns = _columns_of_files(files, sorted(files, key=lambda path: (added_at[path], path)))
    arrives_by_commit = arrives_by_commit and COMMIT_TIME not in columns.schema.names
    return PinnedFolder(
        uri=place.uri,
        version=version,
        schema=pa.schema([*columns.schema, *COMMIT_COLUMNS]) if arrives_by_commit else columns.schema,
        why_not_direct=None,
        conflicts=columns.conflicts,
        table_id=NO_RECORD_YET if table is None else table.table_id,
        record_uri=place.record_uri,
        changes=changes,
        arrives_by_commit=arrives_by_commit,
    )


def _columns_of_files(files: Mapping[str, ListedFile], first_paths: Sequence[str]) -> _FolderColumns:
    """The columns of all files; names that differ in case alone are one, spelled as in `first_paths`."""
    types: dict[str, tuple[str, pa.DataType]] = {}
    conflicts: dict[str, str] = {}
    schemas = {file.schema: path for path, file in reversed(list(files.items()))}
    for schema, path in sorted(schemas.items(), key=lambda item: item[1]):
        columns = columns_of(schema)
        spellings = Counter(name.lower() for name in columns.names)
        for column in columns:
            name = column.name.lower()
            first, kind = types.setdefault(name, (path, column.type))
            common = wider_type(kind, column.type)
            if spellings[name] > 1:
                conflicts[name] = f"{path} has several columns of this name, which differ in case"
            elif common is None:
                conflicts[name] = f"it is {kind} in {first} and {column.type} in {path}; no type holds both"
            types[name] = (first, common or kind)
    names: dict[str, str] = {}
    for path in first_paths:
        for name in columns_of(files[path].schema).names:
            names.setdefault(name.lower(), name)
    return _FolderColumns(
        pa.schema([(names[name], kind) for name, (_, kind) in types.items() if name not in conflicts]),
        tuple((names[name], reason) for name, reason in conflicts.items()),
    )


def _actions(files: Iterable[ListedFile], schema: pa.Schema) -> pa.Table:
    """The files in the form in which `actions_of` has the files of a Delta table."""
    listed_files = list(files)
    bounds_of_files = [
        {name.lower(): values for name, values in json.loads(file.bounds).items()} for file in listed_files
    ]
    names_of_files = [{name.lower() for name in columns_of(file.schema).names} for file in listed_files]
    columns: dict[str, pa.Array] = {
        "path": pa.array([quote(file.path) for file in listed_files], pa.string()),  # as in a log
        "size_bytes": pa.array([file.bytes for file in listed_files], pa.int64()),
        "num_records": pa.array([file.rows for file in listed_files], pa.int64()),
    }
    for column in schema:
        name = column.name.lower()
        if not any(name in bounds for bounds in bounds_of_files):
            continue
        # A file without the column has nulls; of one whose footer has no bounds nothing is known.
        values = [
            bounds.get(name, (None, None, None if name in names else file.rows))
            for bounds, names, file in zip(bounds_of_files, names_of_files, listed_files, strict=True)
        ]
        for side, numbers in zip(("min", "max", "null_count"), zip(*values, strict=True), strict=True):
            array = pa.array(numbers, pa.int64())
            is_moment = pa.types.is_timestamp(column.type) and side != "null_count"
            columns[f"{side}.{column.name}"] = array.cast(column.type) if is_moment else array
    return pa.table(columns)
