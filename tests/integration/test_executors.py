"""A cluster whose executors have nothing of ours: no repository on their path, no editable install. What they
need is shipped.

Spark's own small cluster: a master, two workers and two executors in processes of their own.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.jobs.runtime.jars import spark_home
from tests.integration.command import environment, here, slackwater
from tests.integration.facts import assert_as_model, assert_corrections_make_published
from tests.integration.standalone import blind_python
from tests.integration.stored import StoredTables

pytestmark = [pytest.mark.slow, pytest.mark.spark]

CLUSTER = "local-cluster[2,1,1024]"
TO = "2013-01-03"
MINE = """
from settings_of_mine import LATENESS
from dataclasses import replace
from slackwater.jobs.examples.departures import departures

mine = replace(departures, name="mine", allowed_lateness=LATENESS)
"""


@pytest.fixture
def cluster(tmp_path: Path) -> dict[str, str]:
    """The environment of a driver of that cluster."""
    return environment(
        SLACKWATER_MASTER=CLUSTER, PYSPARK_PYTHON=str(blind_python(tmp_path)), SPARK_LOCAL_IP="127.0.0.1"
    )


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    warehouse = tmp_path / "warehouse"
    assert (
        here(
            "examples",
            "load",
            "departures",
            "--from",
            "2013-01-01",
            "--to",
            "2013-01-04",
            "--warehouse",
            warehouse,
        )
        == 0
    )
    return warehouse


@pytest.fixture(autouse=True)
def work_of_spark() -> Iterator[None]:
    yield
    shutil.rmtree(
        spark_home() / "work", ignore_errors=True
    )  # this kind of cluster can put its folders nowhere else


def test_the_executors_interpreter_finds_nothing_of_ours(cluster: dict[str, str], tmp_path: Path) -> None:
    """Else the other tests would prove nothing."""
    program = "import importlib.util as u; import pyspark, pyarrow; print(u.find_spec('slackwater'))"
    done = subprocess.run(
        [cluster["PYSPARK_PYTHON"], "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert (done.returncode, done.stdout.strip()) == (0, "None"), done.stderr


def test_departures_run_on_executors_that_have_nothing_of_ours(
    cluster: dict[str, str], warehouse: Path, tmp_path: Path
) -> None:
    done = slackwater(
        *("run", "departures", "--to", TO, "--partitions", "4", "--warehouse", warehouse),
        cwd=tmp_path,
        env=cluster,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    stored = StoredTables(warehouse, "departures")
    assert_as_model(stored, TO)
    assert_corrections_make_published(stored)


def test_a_pipelines_file_with_a_helper_beside_it_runs_there_too(
    cluster: dict[str, str], warehouse: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "settings_of_mine.py").write_text(
        "from datetime import timedelta\n\nLATENESS = timedelta(hours=4)\n"
    )
    (folder / "pipelines.py").write_text(MINE)
    command = (
        "run",
        "mine",
        "--to",
        TO,
        "--partitions",
        "2",
        "--warehouse",
        warehouse,
        "--pipelines",
        folder / "pipelines.py",
    )
    done = slackwater(*command, cwd=tmp_path, env=cluster, timeout=400)
    assert done.returncode == 0, done.stderr
    assert_as_model(StoredTables(warehouse, "mine"), TO)
