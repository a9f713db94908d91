"""`infra/airflow` itself: PostgreSQL on request, one set of processes per home, and nothing left behind."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.airflow.conftest import POSTGRES, Airflow, await_, processes_of, start


@pytest.fixture(scope="module")
def airflow() -> Iterator[Airflow]:
    with tempfile.TemporaryDirectory(prefix="slackwater-airflow-") as folder:
        Path(folder).chmod(
            0o711
        )  # pytest's own folders keep out the user postgres, as whom root runs the server
        options = ["--postgres"] if POSTGRES else []
        yield from start(
            Path(folder) / "home", *options, SLACKWATER_WAREHOUSE=str(Path(folder) / "warehouse")
        )


@pytest.mark.skipif(not POSTGRES, reason="this machine has no PostgreSQL server")
def test_postgres_is_used_when_asked_for(airflow: Airflow) -> None:
    assert (
        airflow.script("run", "airflow", "config", "get-value", "database", "sql_alchemy_conn")
        .stdout.splitlines()[-1]
        .startswith("postgresql")
    )
    assert not (airflow.home / "airflow.db").exists()
    await_(lambda: airflow.ask("dags/departures"), "the DAG")


def test_it_says_what_runs_and_refuses_to_start_twice(airflow: Airflow) -> None:
    assert "healthy" in airflow.script("status").stdout
    again = airflow.script("up", check=False)
    assert again.returncode == 1
    assert "runs already" in again.stdout
    assert "healthy" in airflow.script("status").stdout


def test_the_environment_is_printed_without_its_secrets(airflow: Airflow) -> None:
    printed = airflow.script("env").stdout
    assert f"export AIRFLOW_HOME={airflow.home}" in printed.splitlines()
    assert "SECRET" not in printed.upper()
    own = {**airflow.environment, "AIRFLOW_CONN_SLACKWATER_SPARK": "spark://me:hush@host:7077"}
    assert "hush" not in replace(airflow, environment=own).script("env").stdout


def test_down_ends_everything_and_may_be_said_twice(airflow: Airflow) -> None:
    assert len(processes_of(airflow)) > 3
    airflow.script("down")
    assert processes_of(airflow) == []
    airflow.script("down")
    assert airflow.script("status", check=False).returncode == 1
