"""A real cluster, a master and two workers, whose executors have nothing of ours: no repository on their
path, no editable install. What they need is shipped; the driver runs in a folder and an environment of its
own. It leaves the tables that a run on this machine leaves, also where executors and a worker are killed.
"""

import json
import shutil
import subprocess
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

from slackwater.bench.cases import BenchmarkCase
from slackwater.bench.workloads import WORKLOADS
from tests.integration.command import SCRIPT, environment, here, slackwater
from tests.integration.facts import assert_as_model, assert_corrections_make_published
from tests.integration.standalone import Cluster, cluster
from tests.integration.stored import StoredTables

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1200)]

ON_SPARK = ("--partitions", "6")  # by threads of the driver it would be done otherwise
TO = "2013-02-01"
# The tables that runs leave; the columns that say which run it was, or when, are no content.
TABLES = (
    *("panes", "published", "corrections", "late_events", "quarantine"),
    *("window_state", "timers", "keyed_state", "source_progress"),
)
HASHED = """
SELECT count(*), sum(hash(rows)::HUGEINT)
FROM (SELECT COLUMNS(lambda name: name NOT IN ('run_id', 'at')) FROM stored) AS rows
"""
OF_LEDGER = (
    "slice_start",
    "slice_end",
    "rows_read",
    "rows_late",
    "windows_open",
    "state_hash",
    "output_hash",
)


@dataclass(frozen=True)
class Workload:
    """A pipeline, a warehouse with its source, and the arguments of the run that is compared."""

    pipeline: str
    warehouse: Path
    arguments: tuple[str, ...]

    def command(self, warehouse: Path, *options: str) -> tuple[str, ...]:
        return ("run", self.pipeline, *self.arguments, "--warehouse", str(warehouse), *options)

    def stored(self, warehouse: Path) -> StoredTables:
        return StoredTables(warehouse, self.pipeline)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    warehouse = tmp_path_factory.mktemp("flights") / "warehouse"
    period = ("--from", "2013-01-01", "--to", TO, "--warehouse", warehouse)
    assert here("examples", "load", "departures", *period) == 0
    return warehouse


@pytest.fixture(scope="module")
def half_of_b(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    """The workload (b) of the benchmark, of which a run on this machine has replayed the first half."""
    case = BenchmarkCase("b", WORKLOADS["b"], 600_000, tmp_path_factory.mktemp("b"))
    case.make()
    cut, end = (_iso(ms) for ms in (case.facts["cuts_ms"][3], case.facts["to_ms"]))
    own = ("--pipelines", "slackwater.bench.pipelines")
    assert here("run", "bench_b", "--to", cut, "--warehouse", case.folder, *own) == 0
    return Workload("bench_b", case.folder, ("--to", end, *own))


@pytest.fixture(scope="module")
def b_here(half_of_b: Workload, tmp_path_factory: pytest.TempPathFactory) -> StoredTables:
    """The same after the second half, replayed on this machine."""
    warehouse = shutil.copytree(half_of_b.warehouse, tmp_path_factory.mktemp("here") / "warehouse")
    assert here(*half_of_b.command(warehouse)) == 0
    return half_of_b.stored(warehouse)


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def hashes(stored: StoredTables) -> dict[str, object]:
    """Of each table the number of its rows and a hash over them, by DuckDB; and what the ledger has of each
    run.
    """
    by_table: dict[str, object] = {
        "runs": [[row[name] for name in OF_LEDGER] for row in stored.ledger()],
    }
    with duckdb.connect() as connection:
        for table in TABLES:
            connection.register("stored", DeltaTable(stored.uri(table)).to_pyarrow_dataset())
            by_table[table] = connection.execute(HASHED).fetchall()
    return by_table


def test_the_executors_interpreter_finds_nothing_of_ours(running: Cluster, tmp_path: Path) -> None:
    """Else the other tests would prove nothing."""
    program = "import importlib.util as u; import pyspark, pyarrow; print(u.find_spec('slackwater'))"
    done = subprocess.run(
        [running.driver["PYSPARK_PYTHON"], "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert (done.returncode, done.stdout.strip()) == (0, "None"), done.stderr


@pytest.mark.parametrize("pipeline", ["departures", "turnarounds"])
def test_a_month_of_flights_leaves_there_what_it_leaves_here(
    running: Cluster, flights: Path, tmp_path: Path, pipeline: str
) -> None:
    work = Workload(pipeline, flights, ("--from", "2013-01-01", "--to", TO))
    there, local = (shutil.copytree(flights, tmp_path / name) for name in ("there", "local"))
    driver = tmp_path / "driver"
    driver.mkdir()
    done = slackwater(*work.command(there, *ON_SPARK), cwd=driver, env=running.driver, timeout=400)
    assert done.returncode == 0, done.stderr
    assert "finished with state" in running.log("worker-1"), "executors have worked"
    assert here(*work.command(local)) == 0
    assert hashes(work.stored(there)) == hashes(work.stored(local))
    if pipeline == "departures":
        assert_corrections_make_published(work.stored(there))
        assert_as_model(work.stored(there), TO)


def test_an_executor_and_a_worker_that_are_killed_change_nothing(
    half_of_b: Workload, b_here: StoredTables, tmp_path: Path
) -> None:
    """Many keys, of which windows of the first half are parked."""
    warehouse = shutil.copytree(half_of_b.warehouse, tmp_path / "warehouse")
    home = tmp_path / "cluster"
    home.mkdir()
    with cluster(home) as running:
        process = subprocess.Popen(
            [SCRIPT, *half_of_b.command(warehouse, "--partitions", "40")],
            cwd=tmp_path,
            env=running.driver,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        running.kill_executor("worker-1")
        running.kill_worker("worker-2")
        assert process.poll() is None, "both were killed before the run had ended"
        output, _ = process.communicate(timeout=400)
        assert process.returncode == 0, output
        log = running.log("worker-1")
    assert "exitStatus 137" in log and log.count("Asked to launch executor") == 2, log
    assert hashes(half_of_b.stored(warehouse)) == hashes(b_here)


def test_a_node_with_another_environment_is_named_before_the_run_with_what_to_install(
    running: Cluster, flights: Path, tmp_path: Path
) -> None:
    """The second worker's Python is a virtual environment of its own, with another numpy and no pyarrow."""
    venv.create(tmp_path / "other")
    other = tmp_path / "other" / "bin" / "python"
    packages = subprocess.run(
        [other, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    for name, number in (("numpy", "1.26.4"), ("deltalake", version("deltalake"))):
        folder = Path(packages) / f"{name}-{number}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\ncase $PWD in */worker-2/*) exec {other} "$@" ;; esac\n'
        f'exec {running.driver["PYSPARK_PYTHON"]} "$@"\n'
    )
    python.chmod(0o755)
    driver = {**running.driver, "PYSPARK_PYTHON": str(python)}
    fault = (
        f"{other} has no pyarrow, numpy 1.26.4 where the driver has {version('numpy')}, no rocksdict. "
        f"Install there: {other} -m pip install pyarrow=={version('pyarrow')} numpy=={version('numpy')} "
        f"rocksdict=={version('rocksdict')}"
    )

    doctor = slackwater("doctor", "--cluster", "--output", "json", cwd=tmp_path, env=driver, timeout=300)
    assert doctor.returncode == 1, doctor.stderr
    executors = {
        (row["ok"], row["found"])
        for row in json.loads(doctor.stdout)
        if row["check"].startswith("executors on")
    }
    answer = next(text for is_right, text in executors if is_right)
    assert executors == {(True, answer), (False, fault)}
    assert f"pyarrow {version('pyarrow')}" in answer

    work = Workload("departures", flights, ("--from", "2013-01-01", "--to", "2013-01-03"))
    warehouse = shutil.copytree(flights, tmp_path / "warehouse")
    run = slackwater(*work.command(warehouse, *ON_SPARK), cwd=tmp_path, env=driver, timeout=300)
    assert run.returncode == 1
    assert f" {fault}" in run.stderr
    assert "Traceback" not in run.stderr
    assert work.stored(warehouse).ledger() == []
