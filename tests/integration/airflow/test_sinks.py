"""Sinks behind the DAG of a pipeline on real Airflow processes: each has a task, which reads its connection
from Airflow.
"""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.integration.airflow.conftest import Airflow, Task, await_, start

FILE = """
from dataclasses import replace

from slackwater import ChangeFeedSink, SqlSink
from slackwater.examples.departures import departures

delivered = replace(
    departures,
    name="delivered",
    sinks=[
        SqlSink("report", url="airflow:reports", table="departures"),
        ChangeFeedSink("feed", uri="feeds/departures"),
    ],
)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a warehouse that has the flights of two days, and the user's file."""
    folder = tmp_path_factory.mktemp("delivered")
    (folder / "mine.py").write_text(FILE)
    days = ("--from", "2013-01-01", "--to", "2013-01-03", "--warehouse", str(folder / "warehouse"))
    command = [str(Path(sys.executable).with_name("slackwater")), "examples", "load", "departures", *days]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def airflow(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    yield from start(
        tmp_path_factory.mktemp("airflow") / "home",
        SLACKWATER_WAREHOUSE=str(folder / "warehouse"),
        SLACKWATER_PIPELINES=str(folder / "mine.py"),
        AIRFLOW_CONN_REPORTS=f"sqlite:///{folder}/reports.db",
    )


def test_a_day_reaches_every_sink_by_a_task_of_its_own(airflow: Airflow, folder: Path) -> None:
    await_(lambda: airflow.ask("dags/delivered"), "the DAG")
    airflow.script("run", "airflow", "dags", "unpause", "delivered")
    run = airflow.ask(
        "dags/delivered/dagRuns", {"logical_date": None, "conf": {"to": "2013-01-03T00:00:00Z"}}
    )["dag_run_id"]
    assert airflow.ended("delivered", run) == "success", airflow.log("delivered", run, "deliver_report")
    tasks = airflow.tasks("delivered", run)
    assert [tasks[name] for name in ("publish", "deliver_report", "deliver_feed")] == [Task("success", 1)] * 3
    published = DeltaTable(folder / "warehouse" / "delivered" / "published").to_pyarrow_table().to_pylist()
    with closing(sqlite3.connect(folder / "reports.db")) as connection:
        rows = connection.execute("SELECT origin, window_start, flights FROM departures").fetchall()
    assert sorted(rows) == sorted(
        (row["origin"], f"{row['window_start']:%Y-%m-%d %H:%M:%S.%f}", row["flights"]) for row in published
    )
    feed = DeltaTable(folder / "warehouse" / "feeds" / "departures").to_pyarrow_table()
    assert feed.num_rows >= len(published)
