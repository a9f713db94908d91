"""Delta tables without a column of arrivals, whose commits are made at given hours.

Not a test. delta-rs stamps commits with the wall clock; here the stamp is written over.
"""

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from slackwater.engine.source.batches import read_columns
from slackwater.engine.source.deletion_vectors import DeletionVector, hidden_rows
from slackwater.engine.source.files import InputFile
from slackwater.engine.source.pinned_source import DeltaPlace, PinnedSource
from slackwater.engine.source.pinning import pin
from slackwater.engine.source.row_groups import SourceFile
from slackwater.pipelines import COMMIT_TIME, DeltaSource
from slackwater.pipelines.sources import COMMIT_VERSION
from tests.runs.world import moment, ms

SOURCE = DeltaSource("t", event_time="e", arrival_time=COMMIT_TIME)
SCHEMA = pa.schema(
    [("e", pa.timestamp("us", tz="UTC")), ("row", pa.int64()), ("k", pa.string()), ("x", pa.int64())]
)


def rows_of(numbers: Iterable[int]) -> pa.Table:
    """Rows with these numbers, each with the event time of its number's hour."""
    values = [{"e": moment(number), "row": number, "k": "ab"[number % 2], "x": 1} for number in numbers]
    return pa.Table.from_pylist(values, schema=SCHEMA)


class CommitLog:
    """A Delta table at `uri`. Each method that commits takes the hour at which the commit was made."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.uri = str(self.folder / "t")

    def rows(self, hour: float | None, numbers: Iterable[int]) -> pa.Table:
        """The rows with these numbers, which are committed at `hour`."""
        return rows_of(numbers)

    def append(self, hour: float | None, numbers: Sequence[int], **options: Any) -> None:
        write_deltalake(self.uri, self.rows(hour, numbers), mode="append", **options)
        self.stamp(hour)

    def compact(self, hour: float) -> None:
        before = self.version
        DeltaTable(self.uri).optimize.compact()
        if self.version > before:
            self.stamp(hour)

    def vacuum(self, hour: float) -> None:
        before = self.version
        DeltaTable(self.uri).vacuum(0, enforce_retention_duration=False, dry_run=False)
        for version in range(before + 1, self.version + 1):
            self.stamp(hour, version)

    def delete(self, hour: float, number: int) -> None:
        """Write the files anew without the row."""
        before = self.version
        DeltaTable(self.uri).delete(f"row = {number}")
        if self.version > before:
            self.stamp(hour)

    def hide(self, hour: float, number: int) -> bool:
        """Delete a row by a deletion vector, as Spark does; returns whether it was there."""
        source = self.plain()
        for file, _ in source.files_with_bounds("e"):
            positions, hidden = [], set()
            whole_file = SourceFile(source.uri, _without_vector(file), source.schema)
            for batch in whole_file.batches(["row"], None):
                positions += batch.rows.column("row").to_pylist()
            if file.vector is not None:
                hidden = set(hidden_rows(source.uri, file.vector).tolist())
            positions_found = [at for at, row in enumerate(positions) if row == number and at not in hidden]
            if positions_found:
                self._hide(hour, file, sorted(hidden | {positions_found[0]}))
                return True
        return False

    def rewrite(self, hour: float, places: Sequence[int], into: int = 1) -> None:
        """OPTIMIZE, or REORG … APPLY (PURGE): put the rows of some files, by their places, into others."""
        source = self.plain()
        files = [file for file, _ in source.files_with_bounds("e")]
        chosen = [files[place] for place in sorted({place % len(files) for place in places})]
        columns = source.schema.names
        tables = [
            read_columns(source.uri, file, source.schema, columns).cast(source.schema) for file in chosen
        ]
        rows = pa.concat_tables(tables)
        size = -(-rows.num_rows // into) or 1
        actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": ms(hour), "operation": "OPTIMIZE"}}]
        for file in chosen:
            removed = {"path": file.path, "dataChange": False, "size": file.bytes, "partitionValues": {}}
            vector = {} if file.vector is None else {"deletionVector": _action_of(file.vector)}
            actions.append({"remove": {**removed, **vector}})
        for begin in range(0, rows.num_rows, size):
            part = rows.slice(begin, size)
            path = f"{uuid.uuid4()}.parquet"
            pq.write_table(part, Path(self.uri) / path)
            added = {"path": path, "dataChange": False, "partitionValues": {}, "modificationTime": ms(hour)}
            stats = {"stats": json.dumps({"numRecords": part.num_rows})}
            actions.append({"add": {**added, **stats, "size": (Path(self.uri) / path).stat().st_size}})
        self.write(self.version + 1, actions)

    def restore(self, hour: float, version: int) -> bool:
        """RESTORE TABLE … TO VERSION AS OF, as Spark does; False where a vacuum has deleted files."""
        adds, adds_then = self._adds_at(self.version), self._adds_at(version)
        if not all((Path(self.uri) / path).exists() for path in adds_then):
            return False
        info = {"operation": "RESTORE", "operationParameters": {"version": version}, "timestamp": ms(hour)}
        names = ("path", "partitionValues", "size", "deletionVector")
        actions: list[dict[str, Any]] = [{"commitInfo": info}]
        for add in _differing(adds, adds_then):
            removed = {name: add[name] for name in names if name in add}
            actions.append({"remove": {**removed, "dataChange": True, "deletionTimestamp": ms(hour)}})
        actions += [{"add": add} for add in _differing(adds_then, adds)]
        self.write(self.version + 1, actions)
        return True

    def _adds_at(self, version: int) -> dict[str, dict[str, Any]]:
        """Path → the action that has added a file of a version, as the checkpoint and the commits have it."""
        adds: dict[str, dict[str, Any]] = {}
        checkpoints = sorted((Path(self.uri) / "_delta_log").glob("*.checkpoint.parquet"))
        for checkpoint in checkpoints[-1:]:
            for row in pq.read_table(checkpoint, columns=["add"]).column("add").to_pylist():
                if row is not None:
                    adds[row["path"]] = _as_in_commits(row)
        first = max((int(path.name[:20]) + 1 for path in checkpoints), default=0)
        for number in range(first, version + 1):
            for action in self.actions(number):
                if "remove" in action:
                    adds.pop(action["remove"]["path"], None)
            for action in self.actions(number):
                if "add" in action:
                    adds[action["add"]["path"]] = {**action["add"], "dataChange": True}
        return adds

    def _hide(self, hour: float, file: InputFile, positions: list[int]) -> None:
        version, path = self.version, file.path
        add = self._adds_at(version)[path]
        vector = DeletionVector.hiding(positions)
        removed = {"path": path, "dataChange": True, "deletionTimestamp": 0, "size": add["size"]}
        removed |= {"partitionValues": add["partitionValues"], "extendedFileMetadata": True}
        if file.vector is not None:
            removed["deletionVector"] = _action_of(file.vector)
        added = {**add, "dataChange": True, "deletionVector": _action_of(vector)}
        info = {"commitInfo": {"timestamp": ms(hour), "operation": "DELETE"}}
        actions: list[dict[str, Any]] = [info, {"remove": removed}, {"add": added}]
        self.write(version + 1, actions)

    # --- the log

    @property
    def version(self) -> int:
        return DeltaTable(self.uri).version()

    def path(self, version: int) -> Path:
        return Path(self.uri) / "_delta_log" / f"{version:020d}.json"

    def actions(self, version: int) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path(version).read_text().splitlines()]

    def write(self, version: int, actions: Iterable[dict[str, Any]]) -> None:
        self.path(version).write_text("".join(json.dumps(action) + "\n" for action in actions))

    def stamp(
        self, hour: float | None, version: int | None = None, *, in_commit: float | None = None
    ) -> None:
        """Have a commit say that it was made at `hour`; None: have it say nothing."""
        version = self.version if version is None else version
        actions = self.actions(version)
        for action in actions:
            if "commitInfo" in action:
                action["commitInfo"].pop("timestamp", None)
                if hour is not None:
                    action["commitInfo"]["timestamp"] = ms(hour)
                if in_commit is not None:
                    action["commitInfo"]["inCommitTimestamp"] = ms(in_commit)
        self.write(version, actions)

    def with_vectors(self) -> None:
        """Let the table have deletion vectors."""
        actions = self.actions(0)
        for action in actions:
            if "protocol" in action:
                features = ["deletionVectors"]
                action["protocol"] = {
                    "minReaderVersion": 3,
                    "minWriterVersion": 7,
                    "readerFeatures": features,
                    "writerFeatures": features,
                }
        self.write(0, actions)

    def lose_log(self) -> None:
        table = DeltaTable(self.uri)
        table.create_checkpoint()
        for version in range(table.version()):
            self.path(version).unlink(missing_ok=True)

    # --- what a run finds

    def plain(self) -> PinnedSource:
        return pin(DeltaSource("t", event_time="e", arrival_time="e"), self.uri)

    def pin(self, version: int | None = None, *, may_be_empty: bool = True) -> PinnedSource:
        place = DeltaPlace(self.uri, str(self.folder / "record"))
        return pin(SOURCE, place, version, may_be_empty=may_be_empty)


def _action_of(vector: DeletionVector) -> dict[str, Any]:
    action = {
        "storageType": vector.storage,
        "pathOrInlineDv": vector.place,
        "sizeInBytes": vector.bytes,
        "cardinality": vector.rows,
    }
    return action if vector.offset is None else {**action, "offset": vector.offset}


def _differing(
    adds: dict[str, dict[str, Any]], other_adds: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """The files that others lack, or have with another deletion vector."""
    return [
        add
        for path, add in adds.items()
        if path not in other_adds or other_adds[path].get("deletionVector") != add.get("deletionVector")
    ]


def _as_in_commits(add: dict[str, Any]) -> dict[str, Any]:
    """An action of a checkpoint in the form in which commits have it."""
    vector = add["deletionVector"]
    values = {**add, "partitionValues": dict(add["partitionValues"]), "dataChange": True}
    if vector is not None:
        values["deletionVector"] = {name: value for name, value in vector.items() if value is not None}
    return {name: value for name, value in values.items() if value is not None}


def _without_vector(file: InputFile) -> InputFile:
    return replace(file, vector=None, rows=file.stored_rows)


def arrivals_of(source: PinnedSource) -> list[tuple[int, float, int]]:
    """(number, hour of its arrival, version that brought it) of each row of the source."""
    columns = ("row", COMMIT_TIME, COMMIT_VERSION)
    rows: list[tuple[int, float, int]] = []
    for file, _ in source.files_with_bounds(COMMIT_TIME):
        for batch in SourceFile(source.uri, file, source.schema).batches(columns, None):
            hours = (batch.rows.column(COMMIT_TIME).cast(pa.int64()).to_numpy() / 1000 - ms(0)) / 3_600_000
            numbers, versions = (batch.rows.column(name).to_pylist() for name in ("row", COMMIT_VERSION))
            rows += zip(numbers, np.round(hours, 6).tolist(), versions, strict=True)
    return sorted(rows)
