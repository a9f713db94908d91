"""One contender in a process of its own, `python -m slackwater.bench.worker`: it reads requests and
writes answers, each one line of JSON.

`Worker` is the side that asks, `main` the side that answers. There standard output carries answers alone;
everything else that is printed goes to standard error.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from slackwater.bench.cases import BenchmarkCase
from slackwater.bench.contenders import make
from slackwater.bench.measure import measure_work, settle
from slackwater.bench.workloads import Workload
from slackwater.errors import PermanentError
from slackwater.runtime.memory import keep_heap


class ContenderFailed(PermanentError):
    """A contender's process ended without an answer. Facts: contender, log."""


class Worker:
    """The process of one contender; `log` takes its standard error."""

    def __init__(self, contender: str, engine: str | None, log: Path) -> None:
        self._contender, self._log = contender, log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "slackwater.bench.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._ask({"contender": contender, "engine": engine})

    def run(self, case: BenchmarkCase) -> dict[str, Any]:
        """One measured run: wall_s, cpu_s, peak_mb, rows, and the contender's facts, or ContenderFailed."""
        return self._ask(
            {
                "label": case.label,
                "workload": asdict(case.workload),
                "rows": case.rows,
                "work": str(case.work),
            }
        )

    def stop(self) -> None:
        """End the process and what it has started."""
        with suppress(BrokenPipeError):
            self._process.communicate()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise ContenderFailed(
                f"{self._contender}: ended without an answer; its output is in {self._log}.",
                contender=self._contender,
                log=self._log,
            )
        answer: dict[str, Any] = json.loads(line)
        return answer


def _case(request: dict[str, Any]) -> BenchmarkCase:
    workload = {**request["workload"], "late_by_ms": tuple(request["workload"]["late_by_ms"])}
    return BenchmarkCase(request["label"], Workload(**workload), request["rows"], Path(request["work"]))


def main() -> None:
    keep_heap()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    introduction = json.loads(sys.stdin.readline())
    contender, has_started = make(introduction["contender"], introduction["engine"]), False
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        case = _case(json.loads(line))
        case.make()
        if not has_started:
            contender.start(case)
            has_started = True
        contender.prepare(case)
        settle()
        facts, measurement = measure_work(lambda case=case: contender.run(case))  # type: ignore[misc]
        if "committed_s" in facts:
            facts["committed_cpu_s"] = measurement.cpu_until(facts["committed_s"])
        measures = {name: value for name, value in asdict(measurement).items() if name != "samples"}
        print(json.dumps({**measures, **facts}), file=answers, flush=True)
    sys.stderr.flush()
    if "pyspark" in sys.modules:
        from pyspark.sql import SparkSession

        if (spark := SparkSession.getActiveSession()) is not None:
            spark.stop()


if __name__ == "__main__":
    main()
