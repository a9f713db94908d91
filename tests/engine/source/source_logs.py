"""A source that is nothing but a Delta log, written by hand: what deletion vectors, compactions and restores
leave in one, without Spark.

Not a test. Rows are numbers, of which each arrives so many hours after START; no data file stands behind
them.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.source.pinning import pin
from slackwater.pipelines import DeltaSource
from slackwater.windowing.times import to_ms

START = datetime(2013, 1, 1, tzinfo=UTC)
SOURCE = DeltaSource("t", event_time="a", arrival_time="a")
_COLUMN = {"name": "a", "type": "timestamp", "nullable": True, "metadata": {}}
_FEATURES = ["deletionVectors"]

File = tuple[str, str | None]
Rows = frozenset[int]


def hour(number: float) -> int:
    """So many hours after START, in milliseconds."""
    return to_ms(START + timedelta(hours=number))


@dataclass
class Log:
    """A table, its versions, and the rows of each logical file (path, name of its deletion vector).

    Attributes:
        versions: the files of each version.
        written: of each path the rows that were written into it, which its statistics go on to tell under any
            deletion vector.
        period: a row arrives as many hours after START as is left of its number when it is divided by this.
        has_statistics: whether the log says between which arrivals a file's rows lie.
    """

    folder: Path
    period: int = 1 << 20
    has_statistics: bool = True
    versions: list[dict[File, Rows]] = field(default_factory=list)
    written: dict[str, Rows] = field(default_factory=dict)
    counter: int = 0

    def __post_init__(self) -> None:
        (self.folder / "_delta_log").mkdir(parents=True)
        schema = json.dumps({"type": "struct", "fields": [_COLUMN]})
        metadata = {
            "id": "t",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": [],
        }
        protocol = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": _FEATURES,
            "writerFeatures": _FEATURES,
        }
        self._write({}, [{"protocol": protocol}, {"metaData": {**metadata, "configuration": {}}}])

    @property
    def files(self) -> dict[File, Rows]:
        return self.versions[-1]

    @property
    def version(self) -> int:
        return len(self.versions) - 1

    def rows(self, version: int) -> set[int]:
        return {row for rows in self.versions[version].values() for row in rows}

    def pin(self, version: int | None = None) -> PinnedSource:
        return pin(SOURCE, str(self.folder), version)

    def arrival(self, row: int) -> int:
        """The arrival of a row, in hours."""
        return row % self.period

    # --- commits

    def append(self, *rows: int) -> File:
        file = self._new_file()
        self.commit({file: frozenset(rows)}, [])
        return file

    def copy_without(self, file: File, *rows: int, updated: Rows = frozenset()) -> None:
        """DELETE or UPDATE as it is done without deletion vectors."""
        remaining_rows = self.files[file] - set(rows) | updated
        self.commit({self._new_file(): remaining_rows} if remaining_rows else {}, [file])

    def hide(self, file: File, *rows: int, updated: Rows = frozenset()) -> File:
        """DELETE with a deletion vector; with `updated` an UPDATE, which writes them to another file in the
        same commit.
        """
        self.counter += 1
        hidden = (file[0], f"vector-{self.counter:014d}")
        added = {hidden: self.files[file] - set(rows)}
        if updated:
            added[self._new_file()] = updated
        self.commit(added, [file])
        return hidden

    def compact(self, *files: File, into: int = 1) -> list[File]:
        """OPTIMIZE, or REORG … APPLY (PURGE) of files with deletion vectors."""
        rows = sorted((row for file in files for row in self.files[file]), key=self.arrival)
        new_files = [self._new_file() for _ in range(into)]
        size = -(-len(rows) // into) or 1
        parts = {
            file: frozenset(rows[place * size : place * size + size]) for place, file in enumerate(new_files)
        }
        self.commit({file: part for file, part in parts.items() if part}, list(files), data_change=False)
        return [file for file in new_files if file in self.files]

    def restore(self, version: int) -> None:
        """RESTORE TABLE … TO VERSION AS OF."""
        files_wanted, files_there = self.versions[version], self.files
        self.commit(
            {file: rows for file, rows in files_wanted.items() if file not in files_there},
            [file for file in files_there if file not in files_wanted],
        )

    def commit(self, added: dict[File, Rows], removed: list[File], data_change: bool = True) -> None:
        files = {file: rows for file, rows in self.files.items() if file not in removed} | added
        actions: list[dict[str, Any]] = [{"remove": self._action(file, data_change)} for file in removed]
        for file, rows in added.items():
            self.written.setdefault(file[0], rows)
            actions.append(
                {
                    "add": self._action(file, data_change)
                    | {"modificationTime": 0, "stats": self._statistics(file)}
                }
            )
        self._write(files, actions)

    def _new_file(self) -> File:
        self.counter += 1
        return (f"part-{self.counter}.parquet", None)

    def _action(self, file: File, data_change: bool) -> dict[str, Any]:
        path, vector = file
        action: dict[str, Any] = {"path": path, "partitionValues": {}, "size": 100, "dataChange": data_change}
        if vector is not None:
            commit_info = {
                "storageType": "u",
                "pathOrInlineDv": vector,
                "offset": 1,
                "sizeInBytes": 34,
                "cardinality": 1,
            }
            action["deletionVector"] = commit_info
        return action

    def _statistics(self, file: File) -> str:
        arrivals = sorted(map(self.arrival, self.written[file[0]]))
        if not self.has_statistics:
            return json.dumps({"numRecords": len(arrivals)})
        least, greatest = (
            (START + timedelta(hours=at)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
            for at in (arrivals[0], arrivals[-1])
        )
        commit_info = {
            "numRecords": len(arrivals),
            "minValues": {"a": least},
            "maxValues": {"a": greatest},
            "nullCount": {"a": 0},
        }
        return json.dumps({**commit_info, "tightBounds": file[1] is None})

    def _write(self, files: dict[File, Rows], actions: list[dict[str, Any]]) -> None:
        path = self.folder / "_delta_log" / f"{len(self.versions):020d}.json"
        path.write_text(
            "".join(json.dumps(action) + "\n" for action in [{"commitInfo": {"timestamp": 0}}, *actions])
        )
        self.versions.append(files)
