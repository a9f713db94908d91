"""The command line and the variables of spark-submit, on one machine and on a cluster; and spark-submit takes
the place of this process.
"""

import argparse
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from slackwater.runtime import spark_submit
from slackwater.runtime.jars import spark_home
from slackwater.runtime.packaging import SubmitSettings, submit_settings

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = SubmitSettings(
    jars="/jars/a.jar,/jars/b.jar",
    conf={"spark.ui.showConsoleProgress": "false"},
    env_vars={"PYSPARK_PYTHON": "/env/python"},
    spark_binary="/env/submit",
)
LOCAL = ["--master", "local[2]", "--conf", "spark.ui.showConsoleProgress=true", "job.py", "run"]
CLUSTER = ["--master", "spark://host:7077", "job.py", "run"]
IN_CLUSTER = ["--master", "yarn", "--deploy-mode", "cluster", "job.py", "run"]
TEST_CLUSTER = ["--master", "local-cluster[1,1,1024]", "job.py", "run"]


def test_the_callers_settings_come_after_ours() -> None:
    told = spark_submit.command(LOCAL, SETTINGS)
    assert told[:3] == ["/env/submit", "--jars", "/jars/a.jar,/jars/b.jar"]
    assert told.index("spark.ui.showConsoleProgress=false") < told.index("spark.ui.showConsoleProgress=true")
    assert told[-len(LOCAL) :] == LOCAL


@pytest.mark.parametrize(
    ("arguments", "bound"), [(LOCAL, True), (["job.py"], True), (CLUSTER, False), (TEST_CLUSTER, False)]
)
def test_only_a_job_on_this_machine_is_bound_to_loopback(arguments: list[str], bound: bool) -> None:
    assert ("spark.driver.bindAddress=127.0.0.1" in spark_submit.command(arguments, SETTINGS)) is bound
    assert ("SPARK_LOCAL_IP" in spark_submit.environment(arguments, SETTINGS, {})) is bound


@pytest.mark.parametrize(
    ("arguments", "cores"),
    [
        (CLUSTER, 1),
        (["--executor-cores", "4", *CLUSTER], 4),
        (["--conf", "spark.executor.cores=3", *CLUSTER], 3),
        (["--properties-file", "spark.conf", *CLUSTER], 2),
        (["--properties-file", "spark.conf", "--conf", "spark.executor.cores=3", *CLUSTER], 3),
    ],
)
def test_an_executor_gets_what_the_tasks_of_its_cores_take(
    arguments: list[str], cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLACKWATER_STATE_MEMORY_MB", "100")
    (tmp_path / "spark.conf").write_text("# spark.executor.cores 9\nspark.executor.cores   2\n")
    of_tasks = f"spark.executor.minMemoryOverhead={384 + cores * (230 + 100)}m"
    assert of_tasks in spark_submit.command(arguments, SETTINGS)
    assert not any("Overhead" in part for part in spark_submit.command(LOCAL, SETTINGS))


def test_a_master_in_a_properties_file_counts(tmp_path: Path) -> None:
    (tmp_path / "spark.conf").write_text("spark.master yarn\nspark.submit.deployMode cluster\n")
    arguments = ["--properties-file", str(tmp_path / "spark.conf"), "job.py"]
    assert "spark.driver.bindAddress=127.0.0.1" not in spark_submit.command(arguments, SETTINGS)
    assert "PYSPARK_PYTHON" not in spark_submit.environment(arguments, SETTINGS, {})
    assert "spark.driver.bindAddress=127.0.0.1" in spark_submit.command(
        ["--master", "local[2]", *arguments], SETTINGS
    )


def test_a_python_of_the_clusters_nodes_stays_on_a_cluster_alone() -> None:
    nodes = {"PYSPARK_PYTHON": "/nodes/python", "SPARK_HOME": "/another/spark"}
    assert spark_submit.environment(CLUSTER, SETTINGS, nodes) == {
        "PYSPARK_PYTHON": "/nodes/python",
        "SPARK_HOME": str(spark_home()),
    }
    assert spark_submit.environment(LOCAL, SETTINGS, nodes)["PYSPARK_PYTHON"] == "/env/python"


def test_a_driver_in_a_cluster_is_told_of_no_file_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACKWATER_JARS", "hdfs:///jars/a.jar, local:///opt/b.jar")
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--conf", action="append")
    for option in ("--jars", "--master", "--deploy-mode"):
        parser.add_argument(option)
    options = {}
    for arguments in (CLUSTER, IN_CLUSTER):
        submission, _ = parser.parse_known_args(spark_submit.command(arguments, submit_settings()))
        assert submission.jars == "hdfs:///jars/a.jar,local:///opt/b.jar"
        assert submission.master == arguments[1]
        conf = dict(line.split("=", 1) for line in submission.conf)
        assert conf["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
        options[submission.deploy_mode] = conf["spark.driver.extraJavaOptions"].split()
        files = [name for name, value in conf.items() if "file:" in value or value.startswith("/")]
        assert files == ([] if submission.deploy_mode else ["spark.driver.extraJavaOptions"])
    assert options["cluster"] == options[None][1:] == ["-XX:+ExitOnOutOfMemoryError"]


def test_a_driver_in_a_cluster_gets_the_python_that_the_caller_names_or_the_nodes_own() -> None:
    settings = replace(SETTINGS, env_vars={**SETTINGS.env_vars, "JAVA_HOME": "/env/java"})
    ours = {"JAVA_HOME": "/env/java", "SPARK_HOME": str(spark_home())}
    assert spark_submit.environment(IN_CLUSTER, settings, {}) == ours
    nodes = {"PYSPARK_PYTHON": "/nodes/python"}
    assert spark_submit.environment(IN_CLUSTER, settings, nodes) == {**nodes, **ours}


def test_the_script_finds_the_environment_that_is_named(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$@"; echo $$\n')
    python.chmod(0o755)
    script = subprocess.Popen(
        [ROOT / "slackwater" / "airflow" / "spark-submit", "--version"],
        env={"PATH": os.environ["PATH"], "SLACKWATER_SPARK_BIN": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    output, _ = script.communicate(timeout=30)
    assert output.splitlines() == ["-m slackwater.runtime.spark_submit --version", str(script.pid)], (
        "whoever kills the script must kill what it started"
    )


@pytest.mark.spark
def test_the_real_spark_submit_answers_from_this_environment() -> None:
    process = subprocess.run(
        [ROOT / "slackwater" / "airflow" / "spark-submit", "--version"],
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
