"""The contender Apache Flink 2.3.0 in one local process: Maven builds its program once, and each run is a
request over a pipe.

It reads its rows from memory and only counts its results, which is in its favour; it works row by row as a
stream does, which a replay need not.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa

from slackwater.bench.cases import BenchmarkCase
from slackwater.bench.workloads import BOUND_MS, TICK_MS
from slackwater.errors import PermanentError
from slackwater.runtime.java import find_java

PROJECT = Path(__file__).parent.parent / "flink"
_OPENED_PACKAGES = ("java.util", "java.lang", "java.time")


class FlinkFailed(PermanentError):
    """Flink's process ended before it had answered. Facts: log."""


def is_possible() -> bool:
    """Whether this machine has the Maven that builds the program."""
    return shutil.which("mvn") is not None


class Flink:
    """One Flink program with parallelism = cores, state on the heap and object reuse. It reads key,
    timestamp, value and tick from a file of little-endian int64 columns.
    """

    process: "subprocess.Popen[str]"

    def start(self, case: BenchmarkCase) -> None:
        classes = build(case.work / "flink")
        self._log = case.work / "flink" / "log.txt"
        module_options = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED_PACKAGES]
        command = [
            str(find_java()),
            "-Xmx6g",
            "-XX:+UseParallelGC",
            *module_options,
            "-cp",
            classes,
            "bench.Windows",
        ]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def prepare(self, case: BenchmarkCase) -> None:
        if (case.folder / "flink.bin").exists():
            return
        rows = case.read(["key", "event_time", "value", "arrival_time"])
        if case.workload.text_keys:
            rows = rows.set_column(0, "key", rows.column("key").dictionary_encode().combine_chunks().indices)
        with (case.folder / "flink.bin").open("wb") as file:
            for name, unit in (
                ("key", 1),
                ("event_time", 1_000),
                ("value", 1),
                ("arrival_time", 1_000 * TICK_MS),
            ):
                file.write((rows.column(name).cast(pa.int64()).to_numpy() // unit).astype("<i8").tobytes())

    def run(self, case: BenchmarkCase) -> dict[str, Any]:
        workload, rows = case.workload, case.facts["rows"]
        request = [
            case.folder / "flink.bin",
            rows,
            workload.kind,
            workload.size_ms,
            workload.slide_ms,
            workload.lateness_ms,
            BOUND_MS,
        ]
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(
            " ".join(map(str, [*request, os.cpu_count(), workload.function or "aggregate"])) + "\n"
        )
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise FlinkFailed(
                f"Flink ended before it had answered; its log is {self._log}.", log=str(self._log)
            )
        return {"rows": rows, **json.loads(answer)}


def build(work: Path) -> str:
    """The class path of the program, compiled with its libraries below `work`. Raises FlinkFailed."""
    jar = work / "target" / "slackwater-bench-1.jar"
    if not jar.exists():
        shutil.copytree(PROJECT, work, dirs_exist_ok=True)
        maven = subprocess.run(
            ["mvn", "-q", "-B", "package"], cwd=work, capture_output=True, text=True, check=False
        )
        if maven.returncode:
            (work / "maven.txt").write_text(maven.stdout + maven.stderr)
            raise FlinkFailed(
                f"Maven could not build the Flink program: see {work / 'maven.txt'}.",
                log=str(work / "maven.txt"),
            )
    return f"{jar}{os.pathsep}{work / 'target' / 'lib'}/*"
