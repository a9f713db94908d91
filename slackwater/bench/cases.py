"""One case of a benchmark: a workload with a number of rows, and the source that all contenders read."""

import json
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.bench.workloads import TICK_MS, Workload, parts_of
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.written_files import write_file

FILES = 8


@dataclass(frozen=True)
class BenchmarkCase:
    """A workload with about `rows` rows, in a folder of its own below the work folder."""

    label: str
    workload: Workload
    rows: int
    work: Path

    @property
    def folder(self) -> Path:
        """The warehouse of this case; contenders write below it too."""
        return self.work / f"{self.label}-{self.rows}"

    @property
    def source(self) -> Path:
        return self.folder / self.workload.source

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What `make` wrote: rows, bounds of the slice (from_ms, to_ms), cuts_ms (arrival times that cut it
        into eighths of the rows), source_bytes.
        """
        facts: dict[str, Any] = json.loads((self.folder / "facts.json").read_text())
        return facts

    def make(self) -> None:
        """Write the source, unless it is there: a plain Delta table of eight files for each repeat of the
        workload, in order of arrival.
        """
        if (self.folder / "facts.json").exists():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        files, count, first_ticks, last = [], 0, [], 0
        for number, part in enumerate(parts_of(self.workload, self.rows, FILES)):
            folder = Folder(str(self.source), part.schema)
            folder.ensure()
            files.append(write_file(folder.uri, f"part-{number:05d}.parquet", part, {}))
            arrivals = part.column("arrival_time").cast(pa.int64())
            first, newest = (arrivals[position].as_py() // 1000 for position in (0, -1))
            first_ticks.append(first // TICK_MS * TICK_MS)
            last = max(last, newest)
            count += part.num_rows
        folder.commit_files(files)
        facts = {
            "rows": count,
            "from_ms": self.workload.start_ms,
            "to_ms": (last // TICK_MS + 1) * TICK_MS,
            "cuts_ms": sorted(set(first_ticks[1:]) - {self.workload.start_ms}),
            "source_bytes": sum(file.stat().st_size for file in self.source.glob("*.parquet")),
        }
        (self.folder / "facts.json").write_text(json.dumps(facts))

    def read(self, columns: list[str]) -> pa.Table:
        return pa.concat_tables(
            pq.read_table(path, columns=columns, partitioning=None) for path in self.files()
        )

    def files(self) -> list[str]:
        return sorted(map(str, self.source.glob("part-*.parquet")))

    def smaller(self, rows: int) -> "BenchmarkCase":
        return BenchmarkCase(f"{self.label}-warm-up", self.workload, rows, self.work)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
