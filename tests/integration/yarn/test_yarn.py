"""A driver in a real YARN: Airflow's task submits it, follows it by the resource manager's REST interface,
and reads its outcome. All that it is told of comes by URI; no folder of the worker is named.
"""

import gc
import json
import sys
import warnings
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from tests.integration.command import here
from tests.integration.facts import assert_as_model, assert_corrections_make_published
from tests.integration.stored import ROOT, StoredTables
from tests.integration.yarn.cluster import Yarn, YarnUnavailable, yarn

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.airflow,
    pytest.mark.timeout(1200),
]

TO = "2013-01-03"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    try:
        with yarn(tmp_path_factory.mktemp("yarn")) as running:
            yield running
    except YarnUnavailable as error:
        pytest.skip(f"no YARN to run on: {error}")


@pytest.fixture(autouse=True)
def output_of_spark_submit() -> Iterator[None]:
    """Airflow's hook does not close what it has read of spark-submit."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    warehouse = tmp_path / "warehouse"
    period = ("--from", "2013-01-01", "--to", "2013-01-04")
    assert here("examples", "load", "departures", *period, "--warehouse", warehouse) == 0
    return warehouse


def test_a_task_of_airflow_runs_its_driver_there_and_shares_no_folder_with_it(
    running: Yarn, warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slackwater.airflow.settings import read
    from slackwater.airflow.tasks.job import JobOperator
    from slackwater.pipelines.registry import load

    monkeypatch.delenv("PYTHONPATH", raising=False)
    extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": running.address}
    connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SLACKWATER_SPARK", json.dumps(connection))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(running.conf))
    file = ROOT / "tests" / "integration" / "hourly.py"
    stage = tmp_path / "store"
    stage.mkdir()
    (stage / "hourly.py").write_text(file.read_text())
    settings = read(
        {},
        warehouse=warehouse.as_uri(),
        pipelines=[str(file)],
        driver_pipelines=(stage / "hourly.py").as_uri(),
        manifests=(tmp_path / "outcomes").as_uri(),
        spark_bin=Path(sys.executable).parent,
        retry_delay=timedelta(0),
        spark_conf=conf(tmp_path),
    )
    manifest = f"{settings.manifests}/hourly/by hand.json"
    arguments = [
        *("run", "hourly", "--to", TO, "--partitions", "4", "--manifest", manifest),
        *("--warehouse", settings.warehouse, "--pipelines", str(settings.pipelines)),
    ]
    operator = JobOperator(
        task_id="replay",
        pipeline=load(str(file))["hourly"],
        arguments=arguments,
        settings=settings,
        deferrable=False,
    )
    store = MagicMock()
    store.get.side_effect = {}.get
    context = {
        "ti": MagicMock(dag_id="hourly", run_id="by hand", stats_tags={}),
        "task_state_store": store,
    }
    outcome = operator.execute(context)
    (application,) = running.applications()
    assert (application["state"], application["finalStatus"]) == ("FINISHED", "SUCCEEDED"), running.all_logs()
    assert (outcome["outcome"], outcome["verdict"], len(outcome["run_ids"])) == ("staged", "passed", 2)
    stored = StoredTables(warehouse, "hourly")
    assert_as_model(stored, TO)
    assert_corrections_make_published(stored)


def conf(folder: Path) -> dict[str, str]:
    """A small driver and one small executor on this machine's loopback, with this environment's Python."""
    variables = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return {
        **{f"spark.yarn.appMasterEnv.{name}": value for name, value in variables.items()},
        **{f"spark.executorEnv.{name}": value for name, value in variables.items()},
        "spark.yarn.appMasterEnv.SLACKWATER_CACHE": str(folder / "cache"),
        "spark.yarn.stagingDir": (folder / "staging").as_uri(),
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.instances": "1",
        "spark.yarn.maxAppAttempts": "1",
    }
