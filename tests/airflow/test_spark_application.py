"""A driver that runs in a cluster: submitted once, awaited here or by Airflow's triggerer, ended with its
task. The cluster is a stand-in that speaks as YARN's resource manager does, and spark-submit a script.
"""

import asyncio
import gc
import json
import stat
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from airflow.triggers.base import BaseTrigger

from slackwater.airflow.settings import Settings
from slackwater.airflow.tasks.job import JobOperator
from slackwater.args import write_manifest
from tests.airflow.outcomes import STAGED_MANIFEST, job_operator
from tests.airflow.resource_manager import APPLICATION, ResourceManager

# Airflow's hook does not close what it has read of spark-submit.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[ResourceManager]:
    with ResourceManager().listening() as cluster:
        extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": cluster.address}
        connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SLACKWATER_SPARK", json.dumps(connection))
        yield cluster
    gc.collect()  # what the hook has left open is closed here, and not in the test of another file


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """Where the outcome will be."""
    return tmp_path / "run.json"


@pytest.fixture
def submissions(settings: Settings) -> Path:
    """A line of arguments per call of spark-submit, which also keeps a copy of its properties file."""
    python = settings.spark_bin / "python"
    python.parent.mkdir()
    lines = settings.spark_bin / "submissions"
    python.write_text(f"""#!/bin/bash
echo "$@" >>{lines}
while [ $# -gt 0 ]; do
    if [ "$1" = --properties-file ]; then cp -p "$2" {lines}.properties; echo "$2" >{lines}.file; fi
    shift
done
echo "INFO Client: Submitted application {APPLICATION}"
""")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return lines


def operator_of(settings: Settings, manifest: Path, *, deferrable: bool) -> JobOperator:
    operator = job_operator(settings, manifest)
    operator.deferrable = deferrable
    return operator


def context_of(store: dict[str, Any] | None = None) -> dict[str, Any]:
    """Of a task that has noted in Airflow what is in `store`."""
    noted = MagicMock()
    noted.get.side_effect = (store or {}).get
    return {"ti": MagicMock(dag_id="departures", run_id="by hand", stats_tags={}), "task_state_store": noted}


def deferral(operator: JobOperator, context: dict[str, Any]) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as deferral:
        operator.execute(context)
    return deferral.value


def in_triggerer(deferral: TaskDeferred, **arguments: Any) -> Any:
    """The trigger as Airflow makes it from what it has stored."""
    assert isinstance(deferral.trigger, BaseTrigger)
    path, kwargs = deferral.trigger.serialize()
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)(**{**kwargs, **arguments})


def event_of(trigger: Any) -> Any:
    async def first() -> Any:
        return (await anext(trigger.run())).payload

    return asyncio.run(first())


def test_an_application_is_submitted_and_awaited(
    settings: Settings, manifest: Path, cluster: ResourceManager, submissions: Path
) -> None:
    write_manifest(STAGED_MANIFEST, manifest.with_name("left.json"))

    def submit_and_end(_: Any) -> None:
        manifest.with_name("left.json").rename(manifest)

    operator = operator_of(settings, manifest, deferrable=False)
    cluster.end()
    context = context_of()
    context["task_state_store"].set.side_effect = lambda *_: submit_and_end(_)
    assert operator.execute(context)["run_id"] == "b2"
    context["task_state_store"].set.assert_called_once_with("spark_job_id", APPLICATION)
    (arguments,) = submissions.read_text().splitlines()
    assert "--master yarn" in arguments and "--deploy-mode cluster" in arguments
    assert arguments.endswith(f"jobs/replay.py departures --manifest {manifest} --warehouse w")


@pytest.mark.usefixtures("submissions")
def test_the_triggerer_waits_until_it_has_ended(
    settings: Settings, manifest: Path, cluster: ResourceManager
) -> None:
    operator = operator_of(settings, manifest, deferrable=True)
    waiting = deferral(operator, context_of())
    trigger = in_triggerer(waiting, poll_seconds=0.01)

    async def event_after_some_questions() -> Any:
        answer = asyncio.ensure_future(anext(trigger.run()))
        while len(cluster.questions) < 3:
            await asyncio.sleep(0.01)
        assert not answer.done(), "it runs still"
        write_manifest(STAGED_MANIFEST, manifest)
        cluster.end()
        return (await answer).payload

    event = asyncio.run(event_after_some_questions())
    assert event == {"status": "SUCCEEDED"}
    assert getattr(operator, waiting.method_name)(context_of(), event=event)["run_id"] == "b2"
    assert not manifest.exists()


@pytest.mark.usefixtures("submissions")
def test_an_application_that_fails_is_tried_again(
    settings: Settings, manifest: Path, cluster: ResourceManager
) -> None:
    operator = operator_of(settings, manifest, deferrable=True)
    waiting = deferral(operator, context_of())
    cluster.end("FAILED")
    event = event_of(in_triggerer(waiting))
    with pytest.raises(AirflowException, match="ended as FAILED") as error:
        getattr(operator, waiting.method_name)(context_of(), event=event)
    assert not isinstance(error.value, AirflowFailException)


@pytest.mark.usefixtures("submissions")
def test_a_cluster_that_does_not_answer_ends_no_application(
    settings: Settings, manifest: Path, cluster: ResourceManager
) -> None:
    operator = operator_of(settings, manifest, deferrable=True)
    waiting = deferral(operator, context_of())
    cluster.application = None
    event = event_of(in_triggerer(waiting, poll_seconds=0))
    with pytest.raises(AirflowException, match="must be tried again: the cluster does not say"):
        getattr(operator, waiting.method_name)(context_of(), event=event)
    write_manifest(STAGED_MANIFEST, manifest)
    assert getattr(operator, waiting.method_name)(context_of(), event=event)["run_id"] == "b2"


@pytest.mark.usefixtures("submissions")
def test_a_person_who_stops_the_task_stops_the_application(
    settings: Settings, manifest: Path, cluster: ResourceManager
) -> None:
    trigger = in_triggerer(deferral(operator_of(settings, manifest, deferrable=True), context_of()))
    asyncio.run(trigger.on_kill())
    assert cluster.application == ("KILLED", "KILLED")
    assert cluster.questions[-1].endswith(f"/apps/{APPLICATION}/state")


def test_a_try_after_a_crash_goes_on_with_the_application_that_runs(
    settings: Settings, manifest: Path, cluster: ResourceManager, submissions: Path
) -> None:
    next_try = context_of({"spark_job_id": APPLICATION})
    waiting = deferral(operator_of(settings, manifest, deferrable=True), next_try)
    assert in_triggerer(waiting).application_id == APPLICATION
    assert cluster.questions and not submissions.exists()


def test_a_cleared_task_is_submitted_anew(
    settings: Settings, manifest: Path, cluster: ResourceManager, submissions: Path
) -> None:
    cluster.end()  # of the run before, whose manifest was handed on
    deferral(operator_of(settings, manifest, deferrable=True), context_of({"spark_job_id": APPLICATION}))
    assert len(submissions.read_text().splitlines()) == 1


@pytest.mark.usefixtures("cluster")
def test_secrets_go_to_a_cluster_in_a_file_that_nobody_else_reads(
    settings: Settings, manifest: Path, submissions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = {"AWS_SECRET_ACCESS_KEY": "to\\ken of aws", "AWS_REGION": "eu-1"}
    extra = {"storage": storage, "spark_conf": {"spark.executor.memory": "4g"}, "master": "local[2]"}
    lake = {"conn_type": "slackwater", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(lake))
    connected = replace(settings, connection="lake")
    deferral(operator_of(connected, manifest, deferrable=True), context_of())
    arguments = submissions.read_text()
    assert "ken of" not in arguments and "--conf spark.executor.memory=4g" in arguments
    assert "--master yarn" in arguments
    properties = submissions.with_name("submissions.properties")
    assert stat.S_IMODE(properties.stat().st_mode) == 0o600
    lines = set(properties.read_text().splitlines())
    for process in ("spark.yarn.appMasterEnv", "spark.kubernetes.driverEnv", "spark.executorEnv"):
        assert {rf"{process}.AWS_SECRET_ACCESS_KEY=to\\ken\ of\ aws", f"{process}.AWS_REGION=eu-1"} <= lines
    assert len(lines) == 6
    assert not Path(submissions.with_name("submissions.file").read_text().strip()).exists()


def test_a_connection_without_what_following_needs_is_refused(
    settings: Settings, manifest: Path, submissions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SLACKWATER_SPARK", json.dumps(connection))
    with pytest.raises(AirflowFailException, match="yarn_resourcemanager_webapp_address"):
        job_operator(settings, manifest).execute(context_of())
    assert not submissions.exists()


def test_nothing_is_shared_with_a_driver_that_is_given_uris(
    settings: Settings, manifest: Path, cluster: ResourceManager, submissions: Path
) -> None:
    """The outcome comes back from a store, which `file:` stands for, and the pipelines are the driver's."""
    write_manifest(STAGED_MANIFEST, manifest)
    cluster.end()
    elsewhere = replace(
        settings, manifests=manifest.parent.as_uri(), driver_pipelines="s3://lake/pipelines/sales.py"
    )
    operator = operator_of(elsewhere, manifest, deferrable=False)
    operator.application_args = [
        *("departures", "--manifest", manifest.as_uri()),
        *("--warehouse", "s3://lake/warehouse", "--pipelines", "/etc/slackwater/sales.py"),
    ]
    assert operator.execute(context_of())["run_id"] == "b2"
    assert not submissions.exists() and not manifest.exists(), "an earlier try had left it"
    with pytest.raises(AirflowFailException, match="cannot be read"):
        operator.execute(context_of())
    (line,) = submissions.read_text().splitlines()
    assert line.endswith(
        f"replay.py departures --manifest {manifest.as_uri()} --warehouse s3://lake/warehouse "
        "--pipelines s3://lake/pipelines/sales.py"
    )
    operator.forget_manifest()
