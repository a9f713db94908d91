"""Delta tables with row tracking, without a column of arrivals, whose commits are made at given hours: laid
out by hand as Spark does it, since delta-rs does not write such tables.

Not a test. `tests/integration/test_row_tracking.py` holds that Spark lays them out so.
"""

import json
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.engine.source.deletion_vectors import DeletionVector, hidden_rows
from tests.engine.source.commit_logs import CommitLog
from tests.runs.world import moment, ms

# The materialized column, in files that were written again.
COLUMN = "_row-commit-version-col-5be906"
CONFIGURATION = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowCommitVersionColumnName": COLUMN,
}


class TrackedLog(CommitLog):
    def append(self, hour: float | None, numbers: Sequence[int], **options: Any) -> None:
        if Path(self.uri).exists():
            assert hour is not None
            self._commit(hour, "WRITE", [], self.rows(hour, numbers), is_change=True)
        else:
            super().append(hour, numbers, **options)
            self.enable()

    def enable(self) -> None:
        """Let the table track rows from its first version on."""
        actions = self.actions(0)
        for action in actions:
            if "protocol" in action:
                features = ["rowTracking", "domainMetadata"]
                action["protocol"] = {
                    "minReaderVersion": 1,
                    "minWriterVersion": 7,
                    "writerFeatures": features,
                }
            if "metaData" in action:
                action["metaData"]["configuration"] |= CONFIGURATION
            if "add" in action:
                action["add"]["defaultRowCommitVersion"] = 0
        self.write(0, actions)

    def backfill(self, hour: float) -> None:
        """What enabling row tracking does with the files that are there."""
        version = self.version + 1
        info = {"timestamp": ms(hour), "operation": "ROW TRACKING BACKFILL"}
        adds = [{**add, "dataChange": False} for add in self._adds_at(version - 1).values()]
        actions = [{"add": {**add, "defaultRowCommitVersion": version}} for add in adds]
        self.write(version, [{"commitInfo": info}, *actions])

    def rewrite(self, hour: float, places: Sequence[int], into: int = 1) -> None:
        paths = sorted(self._adds_at(self.version))
        chosen_paths = sorted({paths[place % len(paths)] for place in places})
        rows = pa.concat_tables(map(self._tracked_rows, chosen_paths))
        self._commit(hour, "OPTIMIZE", chosen_paths, rows, is_change=False, into=into)

    def delete(self, hour: float, number: int) -> None:
        self._write_files_again(hour, "DELETE", number, lambda rows, is_row: rows.filter(pc.invert(is_row)))

    def update(self, hour: float, number: int, number_now: int) -> None:
        """Give a row another number; it then has the commit version of its file. `a` is its arrival."""

        def changed(rows: pa.Table, is_row: pa.ChunkedArray) -> pa.Table:
            columns = dict(zip(rows.column_names, rows.columns, strict=True))
            columns["row"] = pc.if_else(is_row, number_now, columns["row"])
            if "a" in columns:
                columns["a"] = pc.if_else(is_row, pa.scalar(moment(hour), columns["a"].type), columns["a"])
            columns[COLUMN] = pc.if_else(is_row, pa.scalar(None, pa.int64()), columns[COLUMN])
            return pa.table(columns)

        self._write_files_again(hour, "UPDATE", number, changed)

    def vacuum(self, hour: float) -> None:
        listed_paths = self._adds_at(self.version).keys()
        for path in Path(self.uri).glob("*.parquet"):
            if path.name not in listed_paths:
                path.unlink()

    def with_vectors(self) -> None:
        super().with_vectors()
        actions = self.actions(0)
        for action in actions:
            if "protocol" in action:
                action["protocol"]["writerFeatures"] = ["deletionVectors", "rowTracking", "domainMetadata"]
        self.write(0, actions)

    def _write_files_again(
        self,
        hour: float,
        operation: str,
        number: int,
        changed: Callable[[pa.Table, pa.ChunkedArray], pa.Table],
    ) -> None:
        for path in sorted(self._adds_at(self.version)):
            rows = self._tracked_rows(path)
            is_row = pc.equal(rows.column("row"), number)
            if pc.any(is_row).as_py():
                self._commit(hour, operation, [path], changed(rows, is_row), is_change=True)

    def _tracked_rows(self, path: str) -> pa.Table:
        """The rows of a file with the materialized column, which has all versions."""
        add = self._adds_at(self.version)[path]
        rows = pq.read_table(Path(self.uri) / path)
        versions = (
            rows.column(COLUMN)
            if COLUMN in rows.column_names
            else pa.chunked_array([pa.nulls(len(rows), pa.int64())])
        )
        versions = pc.fill_null(versions, add["defaultRowCommitVersion"])
        if COLUMN in rows.column_names:
            rows = rows.drop_columns([COLUMN])
        rows = rows.append_column(COLUMN, versions)
        vector = DeletionVector.from_action(add)
        hidden = set() if vector is None else set(hidden_rows(self.uri, vector).tolist())
        return rows.take(pa.array([at for at in range(len(rows)) if at not in hidden], pa.int64()))

    def _commit(
        self,
        hour: float,
        operation: str,
        removed_paths: Iterable[str],
        rows: pa.Table,
        *,
        is_change: bool,
        into: int = 1,
    ) -> None:
        version, adds = self.version + 1, self._adds_at(self.version)
        actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": ms(hour), "operation": operation}}]
        names = ("path", "partitionValues", "size", "deletionVector", "defaultRowCommitVersion")
        for path in removed_paths:
            removed = {name: adds[path][name] for name in names if name in adds[path]}
            actions.append({"remove": {**removed, "dataChange": is_change, "deletionTimestamp": ms(hour)}})
        size = -(-rows.num_rows // into) or 1
        for begin in range(0, rows.num_rows, size):
            part, path = rows.slice(begin, size), f"{uuid.uuid4()}.parquet"
            pq.write_table(part, Path(self.uri) / path)
            added = {
                "path": path,
                "dataChange": is_change,
                "partitionValues": {},
                "modificationTime": ms(hour),
            }
            added |= {"stats": json.dumps({"numRecords": part.num_rows}), "defaultRowCommitVersion": version}
            actions.append({"add": {**added, "size": (Path(self.uri) / path).stat().st_size}})
        self.write(version, actions)
