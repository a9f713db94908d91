"""Where Airflow's provider for OpenLineage is installed, what a task starts learns of the task's run. The
provider's macros are stood in for, `slackwater` is a script that answers.
"""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from slackwater.airflow.settings import Settings
from slackwater.airflow.tasks.commands import parent_run_variables
from slackwater.airflow.tasks.publish import PublishOperator
from slackwater.args import write_manifest
from tests.airflow.commands import install
from tests.airflow.outcomes import STAGED_MANIFEST, job_operator

MACROS = "airflow.providers.openlineage.plugins.macros"
VARIABLES = {
    "OPENLINEAGE_PARENT_ID": "default/departures.replay/run of try 2",
    "OPENLINEAGE_ROOT_PARENT_ID": "default/departures/run of the DAG",
}
PRINT_VARIABLES = 'echo "$OPENLINEAGE_PARENT_ID, $OPENLINEAGE_ROOT_PARENT_ID"'
PRINTED_VARIABLES = ", ".join(VARIABLES.values()) + "\n"


@pytest.fixture
def context() -> dict[str, Any]:
    task_instance = SimpleNamespace(
        dag_id="departures",
        run_id="by hand",
        task_id="replay",
        try_number=2,
        xcom_push=lambda key, value: None,
        xcom_pull=lambda task_ids, key: None,
    )
    return {"ti": task_instance}


@pytest.fixture
def macros(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the provider's macros, with two functions of the same names and arguments."""
    module = ModuleType(MACROS)
    vars(module).update(
        lineage_parent_id=lambda ti: f"default/departures.{ti.task_id}/run of try {ti.try_number}",
        lineage_root_parent_id=lambda ti: "default/departures/run of the DAG",
    )
    folder = ModuleType(MACROS.rpartition(".")[0])
    vars(folder)["macros"] = module
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage", ModuleType("openlineage"))
    monkeypatch.setitem(sys.modules, folder.__name__, folder)
    monkeypatch.setitem(sys.modules, MACROS, module)
    return module


def test_without_the_provider_nothing_is_handed_on(
    context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage", None)  # as if it were not installed
    assert parent_run_variables(context) == {}


@pytest.mark.usefixtures("macros")
def test_a_process_of_the_task_learns_of_its_run(
    tmp_path: Path, settings: Settings, context: dict[str, Any]
) -> None:
    manifest, note = tmp_path / "run.json", tmp_path / "note"
    write_manifest(STAGED_MANIFEST, tmp_path / "left.json")
    install(settings, f"{PRINT_VARIABLES} >{note}; cp {tmp_path}/left.json {manifest}")
    assert job_operator(settings, manifest).execute(context)["run_id"] == "b2"
    assert note.read_text() == PRINTED_VARIABLES


@pytest.mark.usefixtures("macros")
def test_an_application_in_a_cluster_learns_of_its_run(
    tmp_path: Path, settings: Settings, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SLACKWATER_SPARK", "yarn://yarn?deploy-mode=cluster")
    variables: dict[str, str] = {}

    def submit(operator: SparkSubmitOperator, context: Any) -> None:
        variables.update(operator.env_vars or {})
        write_manifest(STAGED_MANIFEST, tmp_path / "run.json")

    monkeypatch.setattr(SparkSubmitOperator, "execute", submit)
    job_operator(settings, tmp_path / "run.json").execute(context)
    assert VARIABLES.items() <= variables.items()


@pytest.mark.usefixtures("macros")
def test_the_command_that_publishes_learns_of_its_run(
    tmp_path: Path, settings: Settings, context: dict[str, Any]
) -> None:
    note = tmp_path / "note"
    install(settings, f"{PRINT_VARIABLES} >{note}")
    PublishOperator(task_id="publish", pipeline="departures", run_id="b2", settings=settings).execute(context)
    assert note.read_text() == PRINTED_VARIABLES


def test_a_run_that_cannot_be_named_fails_no_task(
    context: dict[str, Any], macros: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def nameless(task_instance: object) -> str:
        raise RuntimeError("no DAG run")

    monkeypatch.setattr(macros, "lineage_root_parent_id", nameless)
    assert parent_run_variables(context) == {}
    assert "the command's run is told without its parent: no DAG run" in caplog.text
