"""A team with an Airflow of its own: the wheel in an environment without this repository, a file of pipelines
and a DAG file of one line. A day goes through the real scheduler, and the tables hold what the model leaves.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.jobs.examples import departures
from tests.integration.airflow.conftest import ROOT, Airflow, Task, await_, start
from tests.integration.facts import assert_as_model
from tests.integration.stored import StoredTables

TO = "2013-01-02"


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with the locked packages and our wheel, and nothing of the clone."""
    folder = tmp_path_factory.mktemp("package")
    clone = folder / "clone"
    ignore = shutil.ignore_patterns(".venv*", ".git", "var", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, clone, symlinks=True, ignore=ignore)
    subprocess.run([clone / "infra" / "setup.sh"], check=True)
    build = f"from hatchling.build import build_wheel; build_wheel({str(folder)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=clone, check=True)
    [wheel] = folder.glob("slackwater-*.whl")
    python = clone / ".venv" / "bin" / "python"
    install = [clone / ".venv" / "bin" / "uv", "pip", "install", "--offline", "--no-deps", "--python", python]
    subprocess.run([*install, wheel], check=True)
    for path in clone.iterdir():
        if path.name != ".venv":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return python.parent


@pytest.fixture(scope="module")
def airflow(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    folder = tmp_path_factory.mktemp("airflow")
    pipelines, warehouse = folder / "pipelines.py", folder / "warehouse"
    shutil.copy(str(departures.__file__), pipelines)
    (folder / "dags").mkdir()
    (folder / "dags" / "mine.py").write_text(
        "from slackwater.airflow import dags\n"
        f"globals().update(dags(pipelines={str(pipelines)!r}, warehouse={str(warehouse)!r}))\n"
    )
    load = ["examples", "load", "departures", "--from", "2013-01-01", "--to", TO, "--warehouse", warehouse]
    subprocess.run([binaries / "slackwater", *load], cwd=folder, check=True)
    yield from start(
        folder / "home",
        AIRFLOW__CORE__DAGS_FOLDER=str(folder / "dags"),
        SLACKWATER_AIRFLOW_BIN=str(binaries),
        SLACKWATER_SPARK_BIN="",
        SLACKWATER_POOL="default_pool",
        SLACKWATER_WAREHOUSE=str(warehouse),  # of the pages
        SLACKWATER_PIPELINES=str(pipelines),
    )


def test_its_processes_run_what_the_wheel_holds(airflow: Airflow, binaries: Path) -> None:
    done = airflow.script("run", "python", "-c", "import slackwater; print(slackwater.__file__)")
    assert Path(done.stdout.strip()).is_relative_to(binaries.parent)


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
