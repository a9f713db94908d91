"""One case of a benchmark: a workload with a number of rows, and the folder where its source stands for all
contenders.
"""

import json
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.jobs.bench.workloads import TICK_MS, Workload, parts_of
from slackwater.jobs.tables.delta.folder import Folder
from slackwater.jobs.tables.delta.written_files import write_file

FILES = 8


@dataclass(frozen=True)
class Case:
    """A workload with so many rows, below the work folder.

    Attributes:
        label: what stands in the results: the workload's name, or which growth is looked at.
        rows: how many are asked for.
    """

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
        """rows (that there really are), from_ms, to_ms (slice bounds), cuts_ms (of arrivals, between them:
        into eighths of the rows).
        """
        facts: dict[str, Any] = json.loads((self.folder / "facts.json").read_text())
        return facts

    def make(self) -> None:
        """Write the source, if it isn't there whole: a plain Delta table of eight files in order of
        arrival.
        """
        if (self.folder / "facts.json").exists():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        written, count, firsts, last = [], 0, [], 0
        for number, part in enumerate(parts_of(self.workload, self.rows, FILES)):
            folder = Folder(str(self.source), part.schema)
            folder.ensure()
            written.append(write_file(folder.uri, f"part-{number}.parquet", part, {}))
            arrivals = part.column("arrival_time").cast(pa.int64())
            first, last = (arrivals[position].as_py() // 1000 for position in (0, -1))
            firsts.append(first // TICK_MS * TICK_MS)
            count += part.num_rows
        folder.commit_files(written)
        facts = {
            "rows": count,
            "from_ms": self.workload.start_ms,
            "to_ms": (last // TICK_MS + 1) * TICK_MS,
            "cuts_ms": sorted(set(firsts[1:]) - {self.workload.start_ms}),
            "source_bytes": sum(file.stat().st_size for file in self.source.glob("*.parquet")),
        }
        (self.folder / "facts.json").write_text(json.dumps(facts))

    def read(self, columns: list[str]) -> pa.Table:
        """The source's rows in order of arrival."""
        return pa.concat_tables(
            pq.read_table(path, columns=columns, partitioning=None) for path in self.files()
        )

    def files(self) -> list[str]:
        """The source's Parquet files in order of arrival."""
        return sorted(map(str, self.source.glob("part-*.parquet")))

    def smaller(self, rows: int) -> "Case":
        """The same workload with fewer rows, to warm up with."""
        return Case(f"{self.label}-warm-up", self.workload, rows, self.work)

    def remove(self) -> None:
        """Delete the source and what contenders have written."""
        shutil.rmtree(self.folder, ignore_errors=True)
