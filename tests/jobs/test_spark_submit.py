"""The command line and the variables of spark-submit, on one machine and on a cluster; and spark-submit takes
the place of this process.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.jobs import spark_submit
from slackwater.jobs.runtime.jars import spark_home
from slackwater.jobs.runtime.packaging import SubmitSettings

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = SubmitSettings(
    jars="/jars/a.jar,/jars/b.jar",
    conf={"spark.ui.enabled": "false"},
    env_vars={"PYSPARK_PYTHON": "/env/python"},
    spark_binary="/env/submit",
)
LOCAL = ["--master", "local[2]", "--conf", "spark.ui.enabled=true", "job.py", "run"]
CLUSTER = ["--master", "spark://host:7077", "job.py", "run"]
TEST_CLUSTER = ["--master", "local-cluster[1,1,1024]", "job.py", "run"]


def test_the_callers_settings_come_after_ours() -> None:
    told = spark_submit.command(LOCAL, SETTINGS)
    assert told[:3] == ["/env/submit", "--jars", "/jars/a.jar,/jars/b.jar"]
    assert told.index("spark.ui.enabled=false") < told.index("spark.ui.enabled=true")
    assert told[-len(LOCAL) :] == LOCAL


@pytest.mark.parametrize(
    ("arguments", "bound"), [(LOCAL, True), (["job.py"], True), (CLUSTER, False), (TEST_CLUSTER, False)]
)
def test_only_a_job_on_this_machine_is_bound_to_loopback(arguments: list[str], bound: bool) -> None:
    assert ("spark.driver.bindAddress=127.0.0.1" in spark_submit.command(arguments, SETTINGS)) is bound
    assert ("SPARK_LOCAL_IP" in spark_submit.environment(arguments, SETTINGS, {})) is bound


def test_a_python_of_the_clusters_nodes_stays_on_a_cluster_alone() -> None:
    nodes = {"PYSPARK_PYTHON": "/nodes/python", "SPARK_HOME": "/another/spark"}
    assert spark_submit.environment(CLUSTER, SETTINGS, nodes) == {
        "PYSPARK_PYTHON": "/nodes/python",
        "SPARK_HOME": str(spark_home()),
    }
    assert spark_submit.environment(LOCAL, SETTINGS, nodes)["PYSPARK_PYTHON"] == "/env/python"


def test_the_script_finds_the_environment_that_is_named(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$@"; echo $$\n')
    python.chmod(0o755)
    script = subprocess.Popen(
        [ROOT / "dags" / "spark-submit", "--version"],
        env={"PATH": os.environ["PATH"], "SLACKWATER_SPARK_BIN": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    output, _ = script.communicate(timeout=30)
    assert output.splitlines() == ["-m slackwater.jobs.spark_submit --version", str(script.pid)], (
        "whoever kills the script must kill what it started"
    )


@pytest.mark.spark
def test_the_real_spark_submit_answers_from_this_environment() -> None:
    process = subprocess.run(
        [ROOT / "dags" / "spark-submit", "--version"],
        env={
            "PATH": os.environ["PATH"],
            "HOME": os.environ["HOME"],
            "SLACKWATER_SPARK_BIN": str(Path(sys.executable).parent),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert "version 4.2.0" in process.stderr
