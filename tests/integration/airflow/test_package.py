"""A team with an Airflow of its own, in an environment without Spark and without this repository, and another
environment with Spark; the wheel is in both. There are a file of pipelines and a DAG file of one line. A day
goes through the real scheduler, and the tables hold what the model leaves.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from slackwater.jobs.examples import departures
from tests.integration.airflow.conftest import ROOT, Airflow, Task, await_, start
from tests.integration.facts import assert_as_model
from tests.integration.stored import StoredTables

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
    package = f"slackwater[airflow] @ {wheel.as_uri()}"
    subprocess.run([uv, "pip", "install", "--python", airflow / "python", *locked, package], check=True)
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
    shutil.copy(str(departures.__file__), pipelines)
    (folder / "dags").mkdir()
    (folder / "dags" / "mine.py").write_text(
        "from slackwater.airflow import dags\n"
        f"globals().update(dags(pipelines={str(pipelines)!r}, warehouse={str(warehouse)!r}))\n"
    )
    load = ["examples", "load", "departures", "--from", "2013-01-01", "--to", TO, "--warehouse", warehouse]
    subprocess.run([environments.spark / "slackwater", *load], cwd=folder, check=True)
    yield from start(
        folder / "home",
        AIRFLOW__CORE__DAGS_FOLDER=str(folder / "dags"),
        SLACKWATER_AIRFLOW_BIN=str(environments.airflow),
        SLACKWATER_SPARK_BIN=str(environments.spark),
        SLACKWATER_POOL="default_pool",
        SLACKWATER_WAREHOUSE=str(warehouse),  # of the pages
        SLACKWATER_PIPELINES=str(pipelines),
    )


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


def test_a_day_goes_from_the_source_to_what_is_published(airflow: Airflow) -> None:
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
    assert_as_model(StoredTables(Path(airflow.environment["SLACKWATER_WAREHOUSE"]), "departures"), TO)


def test_its_pages_stand_in_airflow(airflow: Airflow) -> None:
    links = airflow.ask("plugins")["plugins"]
    assert "slackwater" in {plugin["name"] for plugin in links}
