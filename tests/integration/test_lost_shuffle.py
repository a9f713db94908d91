"""Spark loses its shuffle files when most ranges of a slice have ended: map tasks run again, and since they
send the same bytes Spark goes on with the job.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.command import environment, here
from tests.integration.stored import StoredTables

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(400)]

RANGES = 6
PLAIN = """
from dataclasses import replace
from slackwater.examples.departures import departures

plain = replace(departures, name="plain", expect=[])
"""
# On one core a range is done after the other. The last but one, at its first try, deletes what map tasks have
# written, as a node does that goes with its executors. In the second run each map task sends, beside its
# tables, something that no two tries have in common.
DRIVER = """
import json, os, sys
from pathlib import Path
from slackwater.cli import command_line
from slackwater.engine.transport import on_spark
from slackwater.runtime.session import session

ranges, home, *warehouses = int(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]

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
    def __init__(self, task, notes, home):
        self.task, self.notes, self.home = task, notes, home

    def __call__(self, number, tables):
        if number == ranges - 2 and not (self.notes / "lost").exists():
            (self.notes / "lost").touch()
            for file in self.home.rglob("shuffle_*"):
                file.unlink()
        return self.task(number, tables)

spark = session("lost shuffle", "local[1]")
on_spark.is_local = lambda master: False  # the shuffle has the tables themselves, as on a cluster
shuffled, collected, report = on_spark.OnSpark._shuffle, on_spark._collect, []
for name, is_pure in zip(warehouses, (True, False)):
    notes, jobs = home / f"notes-{name}", []
    notes.mkdir()

    def shuffle(self, scan, task, count, reduce, way):
        on_spark._collect = collect
        try:
            mapped, reduced = Mapped(task, notes, is_pure), Reduced(reduce, notes, home)
            return shuffled(self, scan, mapped, count, reduced, way)
        finally:
            on_spark._collect = collected

    def collect(make_frame):
        jobs.append("begun")
        return collected(make_frame)

    on_spark.OnSpark._shuffle = shuffle
    words = ["run", "plain", "--from", "2013-01-01", "--to", "2013-01-08", "--on", "spark"]
    words += ["--partitions", str(ranges), "--warehouse", str(home / name)]
    words += ["--pipelines", str(home / "plain.py")]
    code = command_line.run(
        lambda: command_line.slackwater.main(words, prog_name="slackwater", standalone_mode=False)
    )
    report.append({"code": code, "jobs": len(jobs), "files": sorted(path.name for path in notes.iterdir())})
print(json.dumps(report))
spark.stop()
"""


def test_a_job_that_loses_its_shuffle_files_goes_on_with_map_tasks_that_run_again(tmp_path: Path) -> None:
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

    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    process = subprocess.run(
        [sys.executable, script, str(RANGES), tmp_path, *names[1:]],
        env=environment(SPARK_LOCAL_IP="127.0.0.1", SPARK_LOCAL_DIRS=str(tmp_path)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert process.returncode == 0, process.stderr
    pure, impure = json.loads(process.stdout.splitlines()[-1])
    for run in (pure, impure):
        assert run["code"] == 0 and "lost" in run["files"], process.stderr
    map_tasks = [name.split("-")[1] for name in pure["files"] if name.startswith("map-")]
    assert len(map_tasks) > len(set(map_tasks)), "some have run again"
    assert (pure["jobs"], impure["jobs"]) == (1, 2)

    [expected], *others = (StoredTables(tmp_path / name, "plain").ledger() for name in names)
    for [row] in others:
        assert [row[name] for name in ("state_hash", "output_hash")] == [
            expected[name] for name in ("state_hash", "output_hash")
        ]
