"""The record of a Delta source: which files it had at each version that a run has read, and between which
arrivals their rows lie. It is a small Delta table of the pipeline.

    run of slice A    reads version 7      recorded: a, b of version 7
    run of slice B    reads version 9      recorded: version 9 has c, and a no more

The source's log says the same for as long as it has those versions. When it has lost them, the record tells
which files are new since a run; and where the log has no statistics of the arrival column, the record keeps
what was read of it in the files.
"""

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa

from slackwater.engine.source.changes import LogicalFile
from slackwater.engine.source.dated_files import Arrival
from slackwater.engine.source.deletion_vectors import VECTOR, DeletionVector
from slackwater.engine.source.row_tracking import TRACKING, RowTracking
from slackwater.pipelines.sources import COMMIT_TIME, COMMIT_VERSION
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.upkeep import TableUpkeep
from slackwater.tables.errors import CommitConflict

_SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("op", pa.string()),
        ("path", pa.string()),
        ("vector", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("partition", pa.string()),
        ("bounds", pa.string()),
    ]
)
# A row of `_READ` says that the version was recorded; others say what it has that the one before had not.
_READ, _ADD, _REMOVE = "read", "add", "remove"
_NO_FILE = {"path": "", "vector": None, "rows": 0, "bytes": 0, "partition": "{}", "bounds": "{}"}
_MANY_FILES = 32


GROUP = "rewritten into"
_NO_BOUNDS = frozenset({GROUP, TRACKING})


class RecordedBounds(NamedTuple):
    """The arrivals of a file's rows in µs, None for none; `is_complete`: every row has one."""

    least: int | None
    greatest: int | None
    is_complete: bool


class RecordedFile(NamedTuple):
    """One file of a version.

    Attributes:
        vector: its deletion vector, as `slackwater.engine.source.deletion_vectors` writes it.
        rows: how many it has, hidden rows included; None: not known.
        partition: JSON: partition column → value as text.
        bounds: JSON: column of arrivals → `RecordedBounds`; `GROUP` → the names of the files into which its
            rows were written again, where these are in the table in its place; `TRACKING` → which of its rows
            came with which commits.
    """

    path: str
    vector: str | None
    rows: int | None
    bytes: int
    partition: str
    bounds: str

    @property
    def partition_values(self) -> dict[str, str | None]:
        return dict(json.loads(self.partition))

    def with_group(self, members: Sequence[Sequence[str | None]]) -> "RecordedFile":
        return self._replace(bounds=json.dumps({**json.loads(self.bounds), GROUP: members}))

    def with_tracking(self, tracking: RowTracking) -> "RecordedFile":
        return self._replace(bounds=json.dumps({**json.loads(self.bounds), TRACKING: tracking}))

    @property
    def tracking(self) -> RowTracking | None:
        values = json.loads(self.bounds).get(TRACKING)
        return None if values is None else RowTracking.from_json(json.dumps(values))

    @property
    def group(self) -> tuple[LogicalFile, ...]:
        """See `GROUP`; none where the file is in the table itself."""
        return tuple(LogicalFile(*names) for names in json.loads(self.bounds).get(GROUP, ()))

    @property
    def commit(self) -> Arrival | None:
        """When it arrived with which commit; None where the pipeline reads arrivals from a column."""
        bounds, version = json.loads(self.bounds).get(COMMIT_TIME), self.partition_values.get(COMMIT_VERSION)
        if bounds is None or version is None:
            return None
        return Arrival(bounds[1], int(version), bounds[0], self.tracking)


@dataclass(frozen=True)
class FileRecord:
    """The record at `uri`; empty where there is none yet."""

    uri: str

    @cached_property
    def _folder(self) -> Folder:
        return Folder(self.uri, _SCHEMA)

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        rows = self._folder.read().to_pylist()
        return sorted(rows, key=lambda row: (row["version"], row["op"] == _ADD, row["path"]))

    @cached_property
    def versions(self) -> list[int]:
        return sorted({row["version"] for row in self._rows if row["op"] == _READ})

    def files_at(self, version: int) -> dict[str, RecordedFile] | None:
        if version not in self.versions:
            return None
        files: dict[str, RecordedFile] = {}
        for row in self._rows:
            if row["version"] > version:
                break
            if row["op"] == _REMOVE:
                files.pop(row["path"], None)
            elif row["op"] == _ADD:
                files[row["path"]] = RecordedFile(**{name: row[name] for name in RecordedFile._fields})
        return files

    def logical_files_between(self, first: int, last: int) -> dict[int, frozenset[LogicalFile]]:
        """Each recorded version between two others → its files, ascending."""
        files: dict[str, LogicalFile] = {}
        files_by_version = {}
        for version, rows in itertools.groupby(self._rows, key=lambda row: row["version"]):
            for row in rows:
                if row["op"] == _REMOVE:
                    files.pop(row["path"], None)
                elif row["op"] == _ADD:
                    text = row["vector"]
                    vector = None if text is None else DeletionVector.from_json(text).name
                    files[row["path"]] = LogicalFile(row["path"], vector)
            if first < version < last:
                files_by_version[version] = frozenset(files.values())
        return files_by_version

    def actions_at(self, version: int, schema: pa.Schema) -> pa.Table | None:
        """The files of a version in the form of `actions_of`; None where that is not recorded."""
        files = self.files_at(version)
        return None if files is None else _actions(list(files.values()), schema)

    @cached_property
    def _bounds_by_path(self) -> dict[str, dict[str, RecordedBounds]]:
        return {
            row["path"]: {
                name: RecordedBounds(*values)
                for name, values in json.loads(row["bounds"]).items()
                if name not in _NO_BOUNDS
            }
            for row in self._rows
            if row["op"] == _ADD
        }

    @cached_property
    def commits_by_path(self) -> dict[str, Arrival]:
        """Path → when the file arrived with which commit, of all files of which that was recorded."""
        files = (
            RecordedFile(**{name: row[name] for name in RecordedFile._fields})
            for row in self._rows
            if row["op"] == _ADD
        )
        return {file.path: commit for file in files if (commit := file.commit) is not None}

    def bounds_of(self, path: str, column: str) -> RecordedBounds | None:
        return self._bounds_by_path.get(path, {}).get(column)

    def add(self, version: int, files: Iterable[RecordedFile]) -> None:
        """Record a version's files, unless a newer version is recorded; keeps the table to a few files."""
        files_now = {file.path: file for file in files}
        newest = self.versions[-1] if self.versions else None
        files_before = {} if newest is None else self.files_at(newest) or {}
        if newest is not None and (newest > version or (newest == version and files_before == files_now)):
            return
        removals = [file for path, file in files_before.items() if path not in files_now]
        additions = [file for path, file in files_now.items() if files_before.get(path) != file]
        rows = [{"version": version, "op": _READ, **_NO_FILE}]
        rows += [{"version": version, "op": _REMOVE, **file._asdict()} for file in removals]
        rows += [{"version": version, "op": _ADD, **file._asdict()} for file in additions]
        table = self._folder.newest_known_or_made()
        is_crowded = table.actions.num_rows >= _MANY_FILES
        try:
            self._folder.append(pa.Table.from_pylist(rows, schema=_SCHEMA), expected_table=table)
        except CommitConflict:
            return
        if is_crowded:
            upkeep = TableUpkeep(self._folder)
            upkeep.compact()
            upkeep.checkpoint()
            upkeep.vacuum(is_dry=False)


def text_of_partition(values: Iterable[tuple[str, Any]]) -> str:
    return json.dumps({name: None if value is None else str(value) for name, value in values})


def _actions(files: list[RecordedFile], schema: pa.Schema) -> pa.Table:
    columns: dict[str, pa.Array] = {
        "path": pa.array([quote(file.path) for file in files], pa.string()),  # as in a log
        "size_bytes": pa.array([file.bytes for file in files], pa.int64()),
        "num_records": pa.array([file.rows for file in files], pa.int64()),
        VECTOR: pa.array([file.vector for file in files], pa.string()),
    }
    partitions = [json.loads(file.partition) for file in files]
    for name in partitions[0] if partitions else ():
        texts = pa.array([values[name] for values in partitions], pa.string())
        columns[f"partition.{name}"] = texts.cast(schema.field(name).type)
    trackings = [file.tracking for file in files]
    if any(trackings):
        texts = [None if tracking is None else tracking.to_json() for tracking in trackings]
        columns[TRACKING] = pa.array(texts, pa.string())
    bounds = [json.loads(file.bounds) for file in files]
    for name in sorted({name for bounds_by_name in bounds for name in bounds_by_name} - _NO_BOUNDS):
        each = [RecordedBounds(*bounds_by_name.get(name, (None, None, False))) for bounds_by_name in bounds]
        columns[f"min.{name}"] = _times([item.least for item in each])
        columns[f"max.{name}"] = _times([item.greatest for item in each])
        nulls = [
            0 if item.is_complete else (file.rows if item.least is None and name in bounds_by_name else None)
            for item, bounds_by_name, file in zip(each, bounds, files, strict=True)
        ]
        columns[f"null_count.{name}"] = pa.array(nulls, pa.int64())
    return pa.table(columns).sort_by("path")


def _times(values: list[int | None]) -> pa.Array:
    return pa.array(values, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
