"""One session for plain Python, pytest, spark-submit and a cluster; silent, and deaf to what a user's shell
has set.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater.runtime.jars import spark_home
from slackwater.runtime.java import java_home
from slackwater.runtime.packaging import submit_settings
from slackwater.runtime.session import session
from slackwater.runtime.settings import LOCAL_SETTINGS, SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUND_TRIP = """
import json, sys
from slackwater.runtime.session import session

def where(batches):
    import pyarrow
    from slackwater import tables, windowing
    for batch in batches:
        files = {"tables": [tables.__file__], "windowing": [windowing.__file__]}
        yield pyarrow.RecordBatch.from_pydict(files)

spark = session("round trip", *sys.argv[2:])
spark.range(0, 1000, 1, 2).write.format("delta").save(sys.argv[1])
rows = spark.read.format("delta").load(sys.argv[1]).count()
origins = spark.range(0, 1, 1, 1).mapInArrow(where, "tables string, windowing string").first()
print(json.dumps({"rows": rows, "master": spark.sparkContext.master, "tables": origins.tables,
                  "windowing": origins.windowing,
                  "partitions": spark.conf.get("spark.databricks.delta.snapshotPartitions"),
                  "zone": spark.conf.get("spark.sql.session.timeZone")}))
spark.stop()
"""

# A task is awaited while the driver's heap is exceeded.
OUT_OF_MEMORY = """
import sys, threading, time
from pathlib import Path
import pyarrow as pa
from slackwater.cli.command_line import finish
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.transport.on_spark import OnSpark
from slackwater.engine.source.scan import SliceScan
from slackwater.runtime.session import session

def task(batches):
    begun.touch()
    time.sleep(100)
    return []

def exceed():
    while not begun.exists():
        time.sleep(0.1)
    spark._jvm.java.nio.ByteBuffer.allocate(1 << 30)

begun = Path(sys.argv[1])
spark = session("out of memory", "local[1]", **{"spark.driver.memory": "512m"})
scan = SliceScan(PinnedSource("nowhere", 0, pa.schema([("a", pa.int64())]), None), (), ("a",), "a", 0, 1, 0)
threading.Thread(target=exceed, daemon=True).start()
finish(lambda: OnSpark(spark, here_bytes=-1).gather(scan, task))
"""

# A command in a process and a session of the user's.
BESIDE = """
import json, os, signal, sys
from pyspark.sql import SparkSession
from slackwater.cli.command_line import main
from slackwater.runtime.jars import jar_locations

def facts():
    names = ("spark.sql.session.timeZone", "spark.sql.shuffle.partitions", "spark.app.name",
             "spark.databricks.delta.snapshotPartitions", "spark.sql.execution.arrow.pyspark.enabled",
             "spark.sql.execution.arrow.pyspark.validateSchema.enabled")
    group = spark.sparkContext.getLocalProperty("spark.jobGroup.id")
    interrupt = str(signal.getsignal(signal.SIGINT))
    return [*(spark.conf.get(name) for name in names), group, interrupt, os.getpid()]

builder = SparkSession.builder.appName("mine").master("local[2]")
builder = builder.config("spark.jars", ",".join(jar_locations()))
for name, value in {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.shuffle.partitions": "7",
                    "spark.ui.enabled": "false", "spark.sql.execution.arrow.pyspark.enabled": "false",
                    "spark.databricks.delta.snapshotPartitions": "9",
                    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "false"}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
signal.signal(signal.SIGINT, signal.SIG_IGN)
before = facts()
day = ["--from", "2013-01-01", "--to", "2013-01-02", *sys.argv[1:]]
codes = [main(["examples", "load", "departures", *day]), main(["run", "departures", "--on", "spark", *day])]
print(json.dumps({"codes": codes, "before": before, "after": facts(), "rows": spark.range(3).count()}))
"""


def test_a_delta_table_is_written_and_read(spark: "SparkSession", tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    spark.range(10).coalesce(1).write.format("delta").save(path)
    assert len(spark.read.format("delta").load(path).collect()) == 10


def test_every_setting_is_in_force(spark: "SparkSession") -> None:
    expected = {**SETTINGS, **LOCAL_SETTINGS}
    assert {name: spark.sparkContext.getConf().get(name) for name in expected} == expected


def test_a_second_call_gives_the_same_session_with_what_it_asks_for(spark: "SparkSession") -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    second_session = session("tests", **{"spark.sql.shuffle.partitions": "3"})
    try:
        assert second_session is spark
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def test_executors_use_this_python_its_settings_and_the_source_that_the_driver_uses(
    spark: "SparkSession",
) -> None:
    def where(batches):
        import os
        import sys

        import pyarrow

        from slackwater import tables

        for _ in batches:
            heap = " ".join(os.environ.get(name, "") for name in ("MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"))
            pool = pyarrow.default_memory_pool().backend_name
            yield pyarrow.RecordBatch.from_pydict(
                {"python": [sys.executable], "tables": [tables.__file__], "heap": [heap], "pool": [pool]}
            )

    from slackwater import tables

    executor = (
        spark.range(0, 1, 1, 1)
        .mapInArrow(where, "python string, tables string, heap string, pool string")
        .first()
    )
    assert (executor.python, executor.tables) == (sys.executable, tables.__file__)
    assert executor.heap == " ".join(
        SETTINGS[f"spark.executorEnv.{name}"] for name in ("MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")
    )
    assert executor.pool == SETTINGS["spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL"]


def test_memory_that_one_thread_of_a_task_has_freed_serves_the_next(spark: "SparkSession") -> None:
    def grow(batches):
        import threading

        import pyarrow

        def resident_mb():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4 >> 10

        sizes = []

        def take_60_mb():
            blocks = [bytearray(b"1") * (1 << 20) for _ in range(60)]
            sizes.append(resident_mb())
            del blocks

        for _ in batches:
            # All are alive at once, as those that write and those that read are, and each takes in its turn.
            turns = [threading.Event() for _ in range(9)]

            def work(turn, turns=turns):
                turns[turn].wait()
                take_60_mb()
                turns[turn + 1].set()

            threads = [threading.Thread(target=work, args=(turn,)) for turn in range(8)]
            for thread in threads:
                thread.start()
            turns[0].set()
            for thread in threads:
                thread.join()
            yield pyarrow.RecordBatch.from_pydict({"first": [sizes[0]], "last": [sizes[-1]]})

    sizes = spark.range(0, 1, 1, 1).mapInArrow(grow, "first long, last long").first()
    assert sizes.last < sizes.first + 60


@pytest.mark.slow
@pytest.mark.spark
def test_a_shell_with_misleading_variables_gets_a_silent_session(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(ROUND_TRIP)
    process = subprocess.run(
        [sys.executable, script, tmp_path / "table", "local[2]"],
        env={
            "PATH": os.environ["PATH"],
            "HOME": os.environ["HOME"],
            "SPARK_HOME": "/nowhere",
            "PYSPARK_PYTHON": "/nowhere/python",
            "TZ": "Asia/Tokyo",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    facts = json.loads(process.stdout)
    assert (facts["rows"], facts["zone"], facts["master"]) == (1000, "UTC", "local[2]")
    assert process.stderr == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "job.py",
        "table",
    ]  # no spark-warehouse, no metastore


@pytest.mark.slow
@pytest.mark.spark
def test_what_spark_says_is_in_a_file_and_not_on_the_terminal(tmp_path: Path) -> None:
    script, log = tmp_path / "job.py", tmp_path / "logs" / "spark.log"
    failing_job = "session('failing').range(1).selectExpr('raise_error(\"no such bid\")').collect()"
    script.write_text(
        "import logging\n"
        "from slackwater.runtime.session import session\n"
        "logging.basicConfig(level=logging.INFO, format='%(name)s %(message)s')\n"
        "logging.getLogger('py4j').setLevel(logging.WARNING)\n"
        f"try:\n    {failing_job}\nexcept Exception:\n    pass\n"
    )
    process = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "SLACKWATER_SPARK_LOG_FILE": str(log), "SLACKWATER_MASTER": "local[1]"},
        capture_output=True,
        text=True,
        check=True,
    )
    start, runs = process.stderr.splitlines()
    assert start.startswith("slackwater.runtime.session a JVM starts for Spark")
    assert start.endswith(f"all that Spark says is in {log}")
    assert re.search(r" Spark runs on local\[1\]; its pages: http://127\.0\.0\.1:\d+$", runs)
    lines = log.read_text()
    assert "INFO SparkContext: Running Spark version" in lines
    assert "ERROR Executor: Exception in task" in lines and "no such bid" in lines


@pytest.mark.slow
@pytest.mark.spark
def test_a_driver_without_memory_ends_the_command_which_may_be_repeated(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(OUT_OF_MEMORY)
    process = subprocess.run(
        [sys.executable, script, tmp_path / "begun"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Terminating due to java.lang.OutOfMemoryError" in process.stdout + process.stderr
    assert "slackwater: the Java process of Spark's driver has gone" in process.stderr
    assert process.returncode == 3


@pytest.mark.slow
@pytest.mark.spark
def test_spark_submit_runs_the_same_job_and_its_own_settings_win(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(ROUND_TRIP)
    settings = submit_settings()
    told = {
        **settings.conf,
        "spark.databricks.delta.snapshotPartitions": "3",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
    }
    options = [option for name, value in told.items() for option in ("--conf", f"{name}={value}")]
    process = subprocess.run(
        [
            settings.spark_binary,
            "--master",
            "local[1]",
            "--jars",
            settings.jars,
            *options,
            script,
            tmp_path / "table",
            "local[2]",
        ],
        env={
            "PATH": os.environ["PATH"],
            "HOME": os.environ["HOME"],
            "SPARK_LOCAL_IP": "127.0.0.1",
            **settings.env_vars,
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    facts = json.loads(process.stdout.splitlines()[-1])
    assert (facts["rows"], facts["master"], facts["partitions"], facts["zone"]) == (
        1000,
        "local[1]",
        "3",
        "UTC",
    )


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("is_submitted", [False, True])
def test_executors_of_a_cluster_import_the_shipped_archive(tmp_path: Path, is_submitted: bool) -> None:
    """Spark's own small cluster: a driver, a master, a worker and an executor in a process and a folder of
    its own.
    """
    script = tmp_path / "job.py"
    script.write_text(ROUND_TRIP)
    cluster = "local-cluster[1,1,1024]"
    submit = [
        sys.executable,
        "-m",
        "slackwater.runtime.spark_submit",
        "--master",
        cluster,
        "--conf",
        f"spark.sql.warehouse.dir={tmp_path / 'warehouse'}",
    ]
    try:
        process = subprocess.run(
            [*submit, script, tmp_path / "table"]
            if is_submitted
            else [sys.executable, script, tmp_path / "table", cluster],
            env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        shutil.rmtree(
            spark_home() / "work", ignore_errors=True
        )  # this kind of cluster can put its folders nowhere else
    assert process.returncode == 0, process.stderr
    facts = json.loads(process.stdout.splitlines()[-1])
    assert (facts["rows"], facts["master"]) == (1000, cluster)
    assert ".zip/slackwater/tables/" in facts["tables"]
    assert ".zip/slackwater/windowing/" in facts["windowing"]


@pytest.mark.slow
@pytest.mark.spark
def test_a_run_in_the_users_session_leaves_it_and_the_process_as_they_were(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(BESIDE)
    process = subprocess.run(
        [sys.executable, script, "--warehouse", tmp_path / "warehouse"],
        cwd=tmp_path,
        env={**os.environ, "JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    facts = json.loads(process.stdout.splitlines()[-1])
    assert facts["codes"] == [0, 0], process.stderr
    assert facts["after"] == facts["before"]
    assert facts["before"][:4] == ["Asia/Tokyo", "7", "mine", "9"]
    assert facts["rows"] == 3
