"""Spark's own small cluster loses its executors, and with them all shuffle files, when most ranges of a slice
have ended: map tasks run again, and since they send the same bytes Spark goes on with the job.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.jobs.runtime.jars import spark_home
from tests.integration.command import environment, here
from tests.integration.stored import StoredTables

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]

RANGES = 6
PLAIN = """
from dataclasses import replace
from slackwater.jobs.examples.departures import departures

plain = replace(departures, name="plain", expect=[])
"""
# The last range, at its first try, kills the executors, which are child processes of the driver's JVM. In the
# second run each map task sends, beside its tables, something that no two tries have in common.
DRIVER = """
import json, os, sys, time
from collections.abc import Iterator
from pathlib import Path
import psutil
from slackwater.jobs import command_line
from slackwater.jobs.engines.transport import on_spark
from slackwater.jobs.runtime.session import session

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
ranges, notes, *warehouses = int(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]

class Mapped:
    def __init__(self, task, notes, is_pure):
        self.task, self.notes, self.is_pure = task, notes, is_pure

    def __call__(self, batches):
        from pyspark import TaskContext
        context = TaskContext.get()
        (self.notes / f"map-{context.partitionId()}-{context.taskAttemptId()}").touch()
        for number, table in self.task(batches):
            mark = {} if self.is_pure else {b"cpu": os.urandom(8)}
            yield number, table.replace_schema_metadata({**(table.schema.metadata or {}), **mark})

class Reduced:
    def __init__(self, task, notes, last):
        self.task, self.notes, self.last = task, notes, last

    def __call__(self, number, tables):
        if number == self.last and not (self.notes / "killed").exists():
            (self.notes / "killed").touch()
            executor = next(one for one in psutil.Process().parents() if EXECUTOR in one.cmdline())
            for process in executor.parent().children():
                if EXECUTOR in process.cmdline():
                    process.kill()
            time.sleep(60)
        return self.task(number, tables)

spark = session("lost shuffle", "local-cluster[2,1,1024]")
shuffled, collected, report = on_spark.OnSpark._shuffle, on_spark._collect, []
for name, is_pure in zip(warehouses, (True, False)):
    of_run, jobs = notes / name, []
    of_run.mkdir()

    def shuffle(self, scan, task, count, reduce, way):
        mapped, reduced = Mapped(task, of_run, is_pure), Reduced(reduce, of_run, ranges - 1)
        on_spark._collect = collect
        try:
            return shuffled(self, scan, mapped, count, reduced, way)
        finally:
            on_spark._collect = collected

    def collect(make_frame):
        jobs.append("begun")
        return collected(make_frame)

    on_spark.OnSpark._shuffle = shuffle
    words = ["run", "plain", "--from", "2013-01-01", "--to", "2013-01-08", "--on", "spark"]
    words += ["--partitions", str(ranges), "--warehouse", str(notes.parent / name)]
    words += ["--pipelines", str(notes.parent / "plain.py")]
    code = command_line.run(
        lambda: command_line.slackwater.main(words, prog_name="slackwater", standalone_mode=False)
    )
    report.append({"code": code, "jobs": len(jobs), "files": sorted(path.name for path in of_run.iterdir())})
print(json.dumps(report))
spark.stop()
"""


def test_a_job_whose_executors_are_lost_goes_on_with_map_tasks_that_run_again(tmp_path: Path) -> None:
    """The second run shows what happens to map tasks that send other bytes: Spark gives the job up, and all
    of it is done once more.
    """
    names = ("here", "pure", "impure")
    period = ("--from", "2013-01-01", "--to", "2013-01-08")
    assert here("examples", "load", "departures", *period, "--warehouse", tmp_path / "here") == 0
    for name in names[1:]:
        shutil.copytree(tmp_path / "here", tmp_path / name)
    pipelines = tmp_path / "plain.py"
    pipelines.write_text(PLAIN)
    words = ("run", "plain", *period, "--on", "here", "--warehouse", tmp_path / "here")
    assert here(*words, "--pipelines", pipelines) == 0

    script, notes = tmp_path / "driver.py", tmp_path / "notes"
    script.write_text(DRIVER)
    notes.mkdir()
    try:
        process = subprocess.run(
            [sys.executable, script, str(RANGES), notes, *names[1:]],
            env=environment(SPARK_LOCAL_IP="127.0.0.1", SPARK_LOCAL_DIRS=str(tmp_path)),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
    finally:  # this kind of cluster can put its folders nowhere else
        shutil.rmtree(spark_home() / "work", ignore_errors=True)
    assert process.returncode == 0, process.stderr
    pure, impure = json.loads(process.stdout.splitlines()[-1])
    for run in (pure, impure):
        assert run["code"] == 0 and "killed" in run["files"], process.stderr
    map_tasks = [name.split("-")[1] for name in pure["files"] if name.startswith("map-")]
    assert len(map_tasks) > len(set(map_tasks)), "some have run again"
    assert (pure["jobs"], impure["jobs"]) == (1, 2)

    [expected], *others = (StoredTables(tmp_path / name, "plain").ledger() for name in names)
    for [row] in others:
        assert [row[name] for name in ("state_hash", "output_hash")] == [
            expected[name] for name in ("state_hash", "output_hash")
        ]
