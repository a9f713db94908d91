"""The contender that is no system but a floor: what a run can't leave out, at the speed of libraries alone.

DuckDB reads and groups the source. Then all rows that the project's tables got in its own run, which comes
first, are written once more from memory, in the same Parquet form, and committed. Windows, lateness, state,
validation and the exchange of rows between tasks are left out.
"""

import os
import shutil
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from slackwater.bench.cases import BenchmarkCase
from slackwater.bench.contenders.duckdb_group_by import query
from slackwater.errors import UsageError
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.written_files import WrittenFile, columns_as_differences, write_file

NAME = "floor"


def tables_below(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Each table in `folder` that has rows: its name, and its Parquet files."""
    for table in sorted(folder.glob("*")):
        if DeltaTable.is_deltatable(str(table)) and (files := DeltaTable(str(table)).file_uris()):
            yield table.name, files


class Floor:
    """In this process, with as many threads as there are cores."""

    def start(self, case: BenchmarkCase) -> None:
        self._connection = duckdb.connect(config={"temp_directory": str(case.work / "duckdb")})

    def prepare(self, case: BenchmarkCase) -> None:
        shutil.rmtree(case.folder / NAME, ignore_errors=True)
        self._tables = [
            (name, pq.read_table(file, partitioning=None))
            for name, files in tables_below(case.folder / case.workload.pipeline)
            for file in files
        ]
        if not self._tables:
            raise UsageError("the contender `floor` writes what `slackwater` has written, which has not run.")

    def run(self, case: BenchmarkCase) -> dict[str, Any]:
        self._connection.sql(query(case.workload, f"read_parquet({case.files()!r})")).to_arrow_table()
        folders: dict[str, Folder] = {}
        for name, table in self._tables:
            if name not in folders:
                folders[name] = Folder(str(case.folder / NAME / name), table.schema)
                folders[name].ensure()

        def write(place: tuple[int, tuple[str, pa.Table]]) -> tuple[str, WrittenFile]:
            number, (name, table) = place
            as_differences = columns_as_differences(table)
            path = f"part-{number:05d}.parquet"
            return name, write_file(folders[name].uri, path, table, {}, as_differences=as_differences)

        files = defaultdict(list)
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            for name, file in threads.map(write, enumerate(self._tables)):
                files[name].append(file)
        for name, written in files.items():
            folders[name].commit_files(written)
        return {"rows": case.facts["rows"]}
