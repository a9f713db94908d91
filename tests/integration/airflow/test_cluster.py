"""Replays whose driver runs in a cluster, awaited by Airflow's triggerer: no slot is held, a scheduler and a
triggerer that die lose nothing, and a task that is stopped stops its application.

The cluster is a stand-in: applications are processes of this machine, spark-submit a script that starts one
and returns.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.airflow.resource_manager import APPLICATION, RUNNING, ResourceManager
from tests.integration.airflow.conftest import Airflow, await_, start
from tests.integration.airflow.orders import DAY, ORDERS, ORDERS_FILE, START, OrdersPipeline, load
from tests.integration.stored import StoredTables

# Of Slackwater's environment: `python -m slackwater.runtime.spark_submit …` starts an application and ends.
# It waits for as long as there is a file `hold`, as an application waits for executors.
PYTHON = """#!/bin/bash
if [ "$2" != slackwater.runtime.spark_submit ]; then exec {python} "$@"; fi
echo "$@" >>{folder}/submissions
while [[ "$1" != *jobs/replay.py ]]; do shift; done
shift
rm -f {folder}/process
setsid bash -c 'echo $$ >{folder}/process; while [ -e {folder}/hold ]; do sleep 0.2; done
    exec {python} -m slackwater run "$@"' application "$@" >>{folder}/application.log 2>&1 </dev/null &
while [ ! -s {folder}/process ]; do sleep 0.05; done
echo "INFO Client: Submitted application {application}"
"""


class Processes(ResourceManager):
    """The application is the process that the stand-in of spark-submit has started."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    @property
    def process(self) -> int:
        """Its process id, which leads a session."""
        return int((self.folder / "process").read_text())

    @property
    def application(self) -> tuple[str, str] | None:
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return ("FINISHED", "SUCCEEDED")
        return RUNNING

    @application.setter
    def application(self, state: tuple[str, str] | None) -> None:
        """It is what it is."""

    def kill(self) -> None:
        (self.folder / "killed").write_text(str(self.process))
        os.killpg(self.process, signal.SIGKILL)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "bin").mkdir()
    python = folder / "bin" / "python"
    python.write_text(PYTHON.format(python=sys.executable, folder=folder, application=APPLICATION))
    python.chmod(0o755)
    (folder / "bin" / "slackwater").symlink_to(Path(sys.executable).with_name("slackwater"))
    (folder / "orders.py").write_text(ORDERS_FILE)
    load(folder, "orders", ORDERS)
    cluster = Processes(folder)
    with cluster.listening():
        yield cluster
        (folder / "hold").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def airflow(cluster: Processes) -> Iterator[Airflow]:
    extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": cluster.address}
    yield from start(
        cluster.folder / "home",
        AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE="True",
        AIRFLOW_CONN_SLACKWATER_SPARK=json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra}),
        SLACKWATER_WAREHOUSE=str(cluster.folder / "warehouse"),
        SLACKWATER_PIPELINES=str(cluster.folder / "orders.py"),
        SLACKWATER_SPARK_BIN=str(cluster.folder / "bin"),
        SLACKWATER_RETRY_MINUTES="0",
    )


def trigger(airflow: Airflow, dag: str, day: int) -> str:
    """A run by hand up to the end of this day; gives its id."""
    conf = {"to": (START + day * DAY).isoformat()}
    run: str = airflow.ask(f"dags/{dag}/dagRuns", {"logical_date": None, "conf": conf})["dag_run_id"]
    return run


def await_replay(airflow: Airflow, dag: str, run: str, state: str) -> None:
    def is_so() -> bool | None:
        return airflow.tasks(dag, run)["replay"].state == state or None

    await_(is_so, f"replay of {dag} to be {state}")


def submissions(cluster: Processes) -> int:
    return len((cluster.folder / "submissions").read_text().splitlines())


def published_as_rows_say(cluster: Processes, pipeline: str, day: int) -> bool:
    stored = OrdersPipeline(StoredTables(cluster.folder / "warehouse", pipeline))
    end = START + day * DAY
    return stored.end == end and stored.published == stored.windows_of_rows(end)


def test_a_triggerer_waits_and_one_that_dies_loses_nothing(airflow: Airflow, cluster: Processes) -> None:
    await_(lambda: airflow.ask("dags/outage"), "the DAG")
    for dag in ("outage", "by_hand"):
        airflow.ask(f"dags/{dag}", {"is_paused": False}, "PATCH")
    hold = cluster.folder / "hold"
    hold.touch()
    run = trigger(airflow, "outage", 2)
    await_replay(airflow, "outage", run, "deferred")
    pool = airflow.ask("pools/slackwater")
    assert (pool["deferred_slots"], pool["running_slots"]) == (1, 0)
    triggerer = int((airflow.home / "run" / "triggerer.pid").read_text())
    os.killpg(triggerer, signal.SIGKILL)
    assert cluster.application == RUNNING
    airflow.script("down")
    airflow.script("up")
    airflow.leaders.update(int(file.read_text()) for file in (airflow.home / "run").glob("*.pid"))
    hold.unlink()
    assert airflow.ended("outage", run) == "success", airflow.log("outage", run, "replay")
    assert published_as_rows_say(cluster, "outage", 2)
    assert submissions(cluster) == 1 and not (cluster.folder / "killed").exists()


def test_a_cleared_replay_is_submitted_again(airflow: Airflow, cluster: Processes) -> None:
    (run,) = airflow.runs("outage")
    body = {"dag_run_id": run, "task_ids": ["replay"], "include_downstream": True}
    airflow.ask("dags/outage/clearTaskInstances", {**body, "dry_run": False, "only_failed": False})
    assert airflow.ended("outage", run) == "success", airflow.log("outage", run, "replay")
    assert submissions(cluster) == 2 and published_as_rows_say(cluster, "outage", 2)


def test_a_person_who_marks_the_waiting_task_ends_its_application(
    airflow: Airflow, cluster: Processes
) -> None:
    hold = cluster.folder / "hold"
    hold.touch()
    run = trigger(airflow, "by_hand", 1)
    await_replay(airflow, "by_hand", run, "deferred")
    process, questions = cluster.process, len(cluster.questions)
    await_(lambda: len(cluster.questions) > questions or None, "the triggerer to ask for the application")
    airflow.ask(f"dags/by_hand/dagRuns/{run}/taskInstances/replay", {"new_state": "failed"}, "PATCH")
    await_(lambda: (cluster.folder / "killed").exists() or None, "the application to be killed")
    assert int((cluster.folder / "killed").read_text()) == process
    hold.unlink()
    assert airflow.ended("by_hand", run) == "failed"
