"""A team with an Airflow of its own, in an environment without Spark and without this repository, and another
environment with Spark; the wheel is in both. There are a file of pipelines and a DAG file of one line. A day
goes through the real scheduler and a worker of Celery, which shares no folder with it but the warehouse, and
the tables hold what the model leaves.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from slackwater.examples import departures
from tests.integration.airflow.conftest import ROOT, Airflow, Task, await_, start
from tests.integration.facts import assert_as_model
from tests.integration.stored import StoredTables
from tests.sinks.servers import redis_server

TO = "2013-01-02"


@dataclass(frozen=True)
class Environments:
    """The bin folders of two environments: of Airflow without Spark, and of Slackwater with it."""

    airflow: Path
    spark: Path


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Environments:
    """Both have locked packages and our wheel, and nothing of the clone."""
    folder = tmp_path_factory.mktemp("package")
    clone = folder / "clone"
    ignore = shutil.ignore_patterns(".venv*", ".git", "var", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, clone, symlinks=True, ignore=ignore)
    subprocess.run([clone / "infra" / "setup.sh"], check=True)
    build = f"from hatchling.build import build_wheel; build_wheel({str(folder)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=clone, check=True)
    [wheel] = folder.glob("slackwater-*.whl")
    uv, spark, airflow = clone / ".venv" / "bin" / "uv", clone / ".venv" / "bin", folder / "airflow" / "bin"
    subprocess.run([uv, "venv", "--python", spark / "python", airflow.parent], check=True)
    (folder / "overrides").write_text('pyspark-client ; python_version < "0"\n')
    locked = ["-c", clone / "requirements.lock", "--override", folder / "overrides"]
    packages = [f"slackwater[airflow] @ {wheel.as_uri()}", "apache-airflow-providers-celery", "redis"]
    subprocess.run([uv, "pip", "install", "--python", airflow / "python", *locked, *packages], check=True)
    offline = ["--offline", "--no-deps", "--python", spark / "python", wheel]
    subprocess.run([uv, "pip", "install", *offline], check=True)
    for path in clone.iterdir():
        if path.name != ".venv":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return Environments(airflow, spark)


@pytest.fixture(scope="module")
def airflow(environments: Environments, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    folder = tmp_path_factory.mktemp("airflow")
    pipelines, warehouse = folder / "pipelines.py", folder / "warehouse"
    example = Path(str(departures.__file__))
    shutil.copy(example, pipelines)
    shutil.copy(example.with_suffix(".json"), folder)  # the suite that it names
    (folder / "dags").mkdir()
    (folder / "dags" / "mine.py").write_text(
        "from slackwater.airflow import dags\n"
        f"globals().update(dags(pipelines={str(pipelines)!r}, warehouse={str(warehouse)!r}))\n"
    )
    load = ["examples", "load", "departures", "--from", "2013-01-01", "--to", TO, "--warehouse", warehouse]
    subprocess.run([environments.spark / "slackwater", *load], cwd=folder, check=True)
    with redis_server(folder) as broker:
        yield from start(
            folder / "home",
            AIRFLOW__CORE__DAGS_FOLDER=str(folder / "dags"),
            AIRFLOW__CORE__EXECUTOR="CeleryExecutor",
            AIRFLOW__CELERY__BROKER_URL=broker,
            AIRFLOW__CELERY__RESULT_BACKEND=broker,
            SLACKWATER_AIRFLOW_BIN=str(environments.airflow),
            SLACKWATER_SPARK_BIN=str(environments.spark),
            SLACKWATER_POOL="default_pool",
            SLACKWATER_WAREHOUSE=str(warehouse),  # of the pages
            SLACKWATER_PIPELINES=str(pipelines),
        )


@pytest.fixture(scope="module")
def worker_home(airflow: Airflow, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a Celery worker, which is no folder of the other processes."""
    home = tmp_path_factory.mktemp("worker")
    command = [ROOT / "infra" / "airflow", "run", "airflow", "celery", "worker", "--concurrency", "2"]
    environment = {**airflow.environment, "AIRFLOW_HOME": str(home)}
    with (home / "worker.log").open("w") as log:
        worker = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        yield home
    finally:
        os.killpg(worker.pid, signal.SIGTERM)
        worker.wait(60)


def test_its_processes_run_what_the_wheel_holds_and_have_no_spark(
    airflow: Airflow, environments: Environments
) -> None:
    program = "import slackwater; print(slackwater.__file__)"
    of_airflow = Path(airflow.script("run", "python", "-c", program).stdout.strip())
    assert of_airflow.is_relative_to(environments.airflow.parent)
    spark = "import importlib.util; print(importlib.util.find_spec('pyspark') is not None)"
    assert airflow.script("run", "python", "-c", spark).stdout.strip() == "False"
    command = [environments.spark / "python", "-c", spark]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "True"


def test_a_day_goes_from_the_source_to_what_is_published(airflow: Airflow, worker_home: Path) -> None:
    await_(lambda: airflow.ask("dags/departures"), "the DAG")
    assert airflow.ask("importErrors")["import_errors"] == []
    airflow.ask("dags/departures", {"is_paused": False}, "PATCH")
    body = {"logical_date": None, "conf": {"to": f"{TO}T00:00:00Z"}}
    run = airflow.ask("dags/departures/dagRuns", body)["dag_run_id"]
    assert airflow.ended("departures", run) == "success", airflow.tasks("departures", run)
    tasks = airflow.tasks("departures", run)
    assert tasks == dict.fromkeys(
        ("replay", "validate", "publish", "announce", "conclude"), Task("success", 1)
    )
    assert not (airflow.home / "manifests").exists(), "nothing is left where the worker is not"
    assert list(worker_home.glob("logs/dag_id=departures/**/attempt=1.log")), "the worker has run the tasks"
    assert_as_model(StoredTables(Path(airflow.environment["SLACKWATER_WAREHOUSE"]), "departures"), TO)


def test_its_pages_stand_in_airflow(airflow: Airflow) -> None:
    links = airflow.ask("plugins")["plugins"]
    assert "slackwater" in {plugin["name"] for plugin in links}
