"""Of three slices the second is rejected: the first is published, `validate` fails with the reason, and a
person has the second published in spite of it, and the third with it. One story on one Airflow.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.examples import departures
from tests.integration.airflow.conftest import Airflow, Task, await_, start
from tests.integration.command import here
from tests.integration.facts import assert_as_model
from tests.integration.stored import StoredTables

BEFORE, TO = "2013-01-02", "2013-01-04"
# The longest delay of an hour of the first day is 144 minutes, of the second 853, of the third 379.
DECLARED, STRICT = '"max_dep_delay", -60, 1500', '"max_dep_delay", -60, 500'


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredTables:
    warehouse = tmp_path_factory.mktemp("warehouse")
    days = ("--from", "2013-01-01", "--to", TO)
    assert here("examples", "load", "departures", *days, "--warehouse", warehouse) == 0
    return StoredTables(warehouse, "departures")


@pytest.fixture(scope="module")
def airflow(stored: StoredTables, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    folder = tmp_path_factory.mktemp("airflow")
    example = Path(str(departures.__file__))
    text = example.read_text()
    assert DECLARED in text
    shutil.copy(example.with_suffix(".json"), folder)  # the suite that it names
    (folder / "pipelines.py").write_text(text.replace(DECLARED, STRICT))
    for airflow in start(
        folder / "home",
        SLACKWATER_WAREHOUSE=str(stored.warehouse),
        SLACKWATER_PIPELINES=str(folder / "pipelines.py"),
    ):
        await_(lambda airflow=airflow: airflow.ask("dags/departures"), "the DAG")
        airflow.ask("dags/departures", {"is_paused": False}, "PATCH")
        yield airflow


def run(airflow: Airflow, **conf: str) -> str:
    """Start a run by hand, without a logical date; gives its id."""
    body = {"logical_date": None, "conf": {"to": f"{TO}T00:00:00Z", **conf}}
    run_id: str = airflow.ask("dags/departures/dagRuns", body)["dag_run_id"]
    return run_id


def test_the_good_slice_is_published_and_the_run_fails_with_the_reason(
    airflow: Airflow, stored: StoredTables
) -> None:
    run_id = run(airflow)
    assert airflow.ended("departures", run_id) == "failed"
    success = dict.fromkeys(("replay", "publish", "announce"), Task("success", 1))
    tasks = airflow.tasks("departures", run_id)
    assert tasks.pop("conclude").state == "upstream_failed"
    assert tasks == {**success, "validate": Task("failed", 1)}
    log = airflow.log("departures", run_id, "validate")
    assert "e.g. origin JFK, 2013-01-02 13:00" in log and ": 853" in log
    assert f"--warehouse {stored.warehouse} --pipelines " in log
    assert_as_model(stored, BEFORE)


def test_a_person_has_the_rejected_slice_published_and_those_behind_it(
    airflow: Airflow, stored: StoredTables
) -> None:
    run_id = run(airflow, accept="a storm, not an error")
    assert airflow.ended("departures", run_id) == "success", airflow.log("departures", run_id, "replay")
    assert_as_model(stored, TO)
    verdicts = [row["verdict"] for row in stored.ledger()]
    assert verdicts[1:] == ["accepted: a storm, not an error", "passed"]


def test_what_a_task_returns_is_plain_json(airflow: Airflow) -> None:
    for run_id in airflow.runs("departures"):
        entry = f"dags/departures/dagRuns/{run_id}/taskInstances/replay/xcomEntries/return_value"
        assert "builtins.tuple" not in json.dumps(airflow.ask(f"{entry}?deserialize=false"))
