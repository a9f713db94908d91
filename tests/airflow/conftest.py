"""Parses the DAG folder once, in an interpreter of its own: if Airflow were imported here, the imports of
parsing could not be seen.
"""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from slackwater.airflow.settings import Settings

ROOT = Path(__file__).resolve().parents[2]

# A user's own file, in which everything that a DAG takes from a pipeline differs from the example.
CAREFUL = """
from datetime import timedelta
from slackwater import ChangeFeedSink, DeltaSource, Pipeline, SqlSink, TumblingEventTimeWindows
from slackwater import WatermarkStrategy, agg

careful = Pipeline(
    name="careful",
    source=DeltaSource("sources/orders", event_time="ordered_at", arrival_time="seen_at", order_by="row"),
    watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(hours=1)), key_by="shop",
    window=TumblingEventTimeWindows.of(timedelta(hours=1)), select={"orders": agg.count()},
    start="2020-02-29T06:00:00+00:00", schedule="30 6 * * *", settle=timedelta(hours=2),
    approve_warnings=True,
)
unscheduled = Pipeline(
    name="unscheduled", source=careful.source, watermarks=careful.watermarks, key_by="shop",
    window=careful.window,
    select={"orders": agg.count()}, start="2020-01-01", schedule=None,
)
delivered = Pipeline(
    name="delivered", source=careful.source, watermarks=careful.watermarks, key_by="shop",
    window=careful.window, select={"orders": agg.count()}, start="2020-01-01",
    sinks=[
        SqlSink("report", url="airflow:reports", table="orders"),
        ChangeFeedSink("feed", uri="feeds/orders"),
    ],
)
"""


def parse(folder: Path, dags: Path = ROOT / "dags", **variables: str) -> Any:
    """What Airflow makes of a folder of DAG files, with these variables and none of this process."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "AIRFLOW_HOME": str(folder / "airflow"),
        "PYTHONPATH": str(ROOT),
        "SLACKWATER_WAREHOUSE": str(folder / "warehouse"),
    }
    process = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("parse.py")), str(dags)],
        env={**environment, **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def dag_folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("parse")
    (folder / "mine.py").write_text(CAREFUL)
    return parse(
        folder,
        SLACKWATER_EXAMPLES="true",
        SLACKWATER_PIPELINES="mine.py",  # relative to where Airflow was started
        SLACKWATER_WAREHOUSE="/data/warehouse",
        SLACKWATER_MANIFESTS="/data/manifests",
        SLACKWATER_SPARK_BIN="/opt/spark-environment/bin",
        SLACKWATER_SPARK_CONF='{"spark.executor.memory": "4g"}',
        SLACKWATER_POOL="spark",
        SLACKWATER_RETRIES="5",
    ) | {"folder": str(folder)}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        warehouse=str(tmp_path / "warehouse"),
        pipelines=None,
        examples=True,
        spark_bin=tmp_path / "bin",
        spark_connection="slackwater_spark",
        connection=None,
        spark_conf={},
        pool="default_pool",
        manifests=tmp_path,
        driver_pipelines=None,
        retries=3,
        retry_delay=timedelta(minutes=10),
        upkeep="slackwater",
        maintain_schedule="@weekly",
        health_schedule="@hourly",
    )
