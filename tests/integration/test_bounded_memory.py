"""A slice whose partial aggregates are more than a task may take: its ranges are merged in parts, leave the
same, and no task takes more than the setting allows. What tasks have written then, Spark, DuckDB and Arrow
read alike.

The rows are the benchmark's. Each run has a process of its own, so that the peak of its tasks is its own. One
of them has a single key group, which the ranges and their parts divide.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from slackwater.bench.cases import BenchmarkCase
from slackwater.bench.workloads import WORKLOADS
from tests.integration.command import environment
from tests.integration.stored import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.spark]

ROWS, CORES, LIMIT_MB = 1_500_000, 1, 24
RANGES = 2 * CORES + 1  # so many that tasks of Spark replay them, however small the slice is
IDLE_MB = 230  # of a Python process, as docs/guides/run.md says
RECEIVED_BYTES = (
    80  # of a partial on its way: key and key group, slice, two arrivals, three counts, two words of a sum
)
BOUND_MB = IDLE_MB + LIMIT_MB + ROWS * RECEIVED_BYTES // RANGES // 2**20

REPLAY = f"""
import json, sys
from slackwater.runs.lineage.catch_up import CatchUpRequest
from slackwater.runs.opened_pipeline import OpenedPipeline

warehouse, from_ms, to_ms, pipelines = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
request = CatchUpRequest("bench_b", to_ms, from_ms, engine="columnar", ranges={RANGES})
opened = OpenedPipeline("bench_b", warehouse, pipelines)
work = opened.catch_up(request, lambda line: None)
[row] = work.run()
[staged] = work.staged_slices
print(json.dumps([staged.memory_mb, [row.state_hash, row.output_hash], dict(row.files)]))
"""

PIPELINES = "slackwater.bench.pipelines"
ONE_GROUP = f"""
from dataclasses import replace
import {PIPELINES} as declared

bench_b = replace(declared.bench_b, max_parallelism=1)
"""


class Ran(NamedTuple):
    """One run: the most memory of a process of its tasks, hashes, and the files of each table."""

    memory_mb: int
    hashes: Sequence[str]
    files: Mapping[str, Sequence[str]]


def ran(case: BenchmarkCase, limit_mb: int, pipelines: str = PIPELINES) -> Ran:
    """All rows, on an empty lineage."""
    shutil.rmtree(case.folder / "bench_b", ignore_errors=True)
    bounds = (str(case.facts[name]) for name in ("from_ms", "to_ms"))
    command = [sys.executable, "-c", REPLAY, str(case.folder), *bounds, pipelines]
    settings = environment(SLACKWATER_STATE_MEMORY_MB=str(limit_mb), SLACKWATER_MASTER=f"local[{CORES}]")
    done = subprocess.run(
        command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return Ran(*json.loads(done.stdout.splitlines()[-1]))


def made_case(tmp_path_factory: pytest.TempPathFactory) -> BenchmarkCase:
    case = BenchmarkCase("b", WORKLOADS["b"], ROWS, tmp_path_factory.mktemp("bounded"))
    case.make()
    return case


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran, Ran]:
    """(the pipeline's folder after the second run, a run with room for everything, one without)."""
    case = made_case(tmp_path_factory)
    whole, bounded = ran(case, 1024), ran(case, LIMIT_MB)
    return case.folder / "bench_b", whole, bounded


def parts(files: Sequence[str]) -> set[str]:
    """Which ranges and parts of ranges have written files of a table."""
    names = (Path(file).name.split("-") for file in files)
    return {f"{number}-{part}" for kind, number, part, *_ in names if kind == "range"}


def test_ranges_that_exceed_the_setting_are_merged_in_parts_and_leave_the_same(
    runs: tuple[Path, Ran, Ran],
) -> None:
    _, whole, bounded = runs
    assert parts(whole.files["panes"]) == {f"{number:05d}-0" for number in range(RANGES)}
    assert len(parts(bounded.files["panes"])) > 4 * RANGES
    assert bounded.hashes == whole.hashes


def test_no_task_takes_more_than_the_setting_allows(runs: tuple[Path, Ran, Ran]) -> None:
    _, whole, bounded = runs
    assert bounded.memory_mb <= BOUND_MB < whole.memory_mb


def test_nor_does_a_task_that_has_a_part_of_the_only_key_group(
    runs: tuple[Path, Ran, Ran], tmp_path_factory: pytest.TempPathFactory
) -> None:
    case = made_case(tmp_path_factory)
    pipelines = case.folder / "one_group.py"
    pipelines.write_text(ONE_GROUP)
    divided = ran(case, LIMIT_MB, str(pipelines))
    assert divided.memory_mb <= BOUND_MB and len(parts(divided.files["panes"])) > 4 * RANGES
    folder, _, _ = runs
    columns = ["key", "window_start", "n", "total"]
    rows_of_one_group, rows_of_many_groups = (
        in_order(DeltaTable(str(uri)).to_pyarrow_dataset().to_table(columns))
        for uri in (case.folder / "bench_b" / "published", folder / "published")
    )
    assert rows_of_one_group.equals(rows_of_many_groups)


@pytest.mark.parametrize("table", ["panes", "window_state", "timers", "published"])
def test_every_reader_gives_the_rows_that_tasks_have_written(
    runs: tuple[Path, Ran, Ran], spark: "SparkSession", table: str
) -> None:
    folder, _, bounded = runs
    uri = str(folder / table)
    files = DeltaTable(uri).to_pyarrow_dataset()
    by_arrow = in_order(files.to_table())
    assert by_arrow.num_rows > 100_000 and (table == "published" or len(bounded.files[table]) > RANGES)
    assert in_order(spark.read.format("delta").load(uri).toArrow()).equals(by_arrow)
    with duckdb.connect() as connection:
        assert in_order(connection.from_arrow(files).to_arrow_table()).equals(by_arrow)
    paths = [str(path) for path in DeltaTable(uri).file_uris()]
    partitions = DeltaTable(uri).metadata().partition_columns
    with duckdb.connect() as connection:
        by_duckdb = in_order(connection.read_parquet(paths, hive_partitioning=False).to_arrow_table())
    assert by_duckdb.equals(
        by_arrow.select([name for name in by_arrow.column_names if name not in partitions])
    )


def in_order(rows: pa.Table) -> pa.Table:
    """Rows as they are whoever has read them: plain types, sorted by what tells them apart."""
    fields = [pa.field(field.name, _plain(field.type)) for field in rows.schema]
    rows = rows.cast(pa.schema(fields))
    identity = [name for name in ("key", "window_start", "firing", "purpose") if name in rows.column_names]
    return rows.sort_by([(name, "ascending") for name in identity]).combine_chunks()


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC")
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)
