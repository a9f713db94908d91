"""One benchmark from plan to results: which cases and contenders, what it will cost, and the runs, contenders
taking turns.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slackwater.jobs.bench import checks, nexmark
from slackwater.jobs.bench.cases import Case
from slackwater.jobs.bench.contenders import CONTENDERS, flink
from slackwater.jobs.bench.growth import growth_cases
from slackwater.jobs.bench.results import Key, Results
from slackwater.jobs.bench.worker import ContenderFailed, Worker
from slackwater.jobs.bench.workloads import WORKLOADS
from slackwater.jobs.errors import UsageError
from slackwater.jobs.protocol.planning.trial import LONG_ENOUGH_S, TIMES

REPETITIONS = 3
OWN = ("slackwater", "slackwater_last_eighth")
_WARM_UP = 20  # the part of a case that each contender replays first, unmeasured
_TRANSFORM_WITH_STATE = ("a",)
# Rows a second and core that the statement of time counts on; measured on a machine with two cores.
_RATES = {
    "slackwater": 0.8e6,
    "slackwater_last_eighth": 0.8e6,
    "spark_native": 1e6,
    "duckdb": 4e6,
    "flink": 0.5e6,
    "operator": 0.1e6,
}
_START_S = {
    "slackwater": 25,
    "slackwater_last_eighth": 25,
    "spark_native": 20,
    "duckdb": 1,
    "flink": 15,
    "transform_with_state": 150,
}
_BYTES_A_ROW = 110  # source, its copy for Flink, and what the contenders leave


@dataclass
class Benchmark:
    """What `slackwater bench` was asked for.

    Attributes:
        only: names of workloads, ``growth``, ``nexmark``.
        rows: of each workload.
        engine: instead of the planner's choice for the project.
        contenders: which of them; None for all that this machine can run.
        work: folder of sources, logs and results.
        keeps: whether sources and what contenders wrote stay there.
        lines: where progress goes.
        repetitions: how often each contender runs.
    """

    only: Sequence[str]
    rows: int
    engine: str | None
    work: Path
    keeps: bool = False
    contenders: Sequence[str] | None = None
    lines: Callable[[str], object] = print
    repetitions: int = REPETITIONS
    results: Results = field(init=False)

    def __post_init__(self) -> None:
        known = (*WORKLOADS, "growth", nexmark.NAME)
        for name in self.only:
            if name not in known:
                raise UsageError(f"no workload is called {name!r}; there are {', '.join(known)}.", name=name)
        for name in self.contenders or ():
            if name not in CONTENDERS:
                raise UsageError(
                    f"no contender is called {name!r}; there are {', '.join(CONTENDERS)}.", name=name
                )
        if not Path("/proc/self/stat").exists():
            raise UsageError("bench reads CPU time and memory from /proc, which this system does not have.")
        self.work.mkdir(parents=True, exist_ok=True)
        self.results = Results(self.work)

    def cases(self) -> Iterator[tuple[Case, tuple[str, ...]]]:
        """Each case with its contenders, those that this machine can run."""
        for name in self.only:
            if name == "growth":
                yield from ((case, OWN[:1]) for case in growth_cases(self.rows, self.work))
            elif name == nexmark.NAME:
                yield from ((case, OWN[:1]) for case in nexmark.nexmark_cases(self.rows, self.work))
            else:
                yield Case(name, WORKLOADS[name], self.rows, self.work), self._contenders(name)

    def _contenders(self, name: str) -> tuple[str, ...]:
        anchors = ["spark_native", "duckdb", *(["flink"] if flink.is_possible() else [])]
        known = (*OWN, *anchors, *(["transform_with_state"] if name in _TRANSFORM_WITH_STATE else []))
        return tuple(
            contender for contender in known if self.contenders is None or contender in self.contenders
        )

    def missing(self) -> dict[str, int]:
        """Runs that are not in the results file, by case and contender."""
        counts = {}
        for case, contenders in self.cases():
            for contender in contenders:
                done = len(self.results.runs(self.key(case, contender)))
                counts[f"{case.label} {case.rows:,} {contender}"] = max(0, self.repetitions - done)
        return counts

    def key(self, case: Case, contender: str) -> Key:
        """Where a contender's runs stand. The project's own are those of this code and engine alone."""
        code = f"{self.engine or 'chosen'}-{code_of_project()}" if contender in OWN else ""
        return Key(case.label, case.rows, contender, code)

    def cost(self) -> tuple[int, float]:
        """Bytes of disk at most at one time, and seconds, roughly, of what is still missing."""
        needed, seconds, cores = 0, 0.0, os.cpu_count() or 1
        for case, contenders in self.cases():
            runs = {
                name: self.repetitions - len(self.results.runs(self.key(case, name))) for name in contenders
            }
            if not any(count > 0 for count in runs.values()):
                continue
            panes = case.workload.size_ms // case.workload.slide_ms if case.workload.kind == "sliding" else 1
            size = case.rows * _BYTES_A_ROW * (1 + panes) // 2
            needed = needed + size if self.keeps else max(needed, size)
            seconds += case.rows / 1e6
            for name, count in runs.items():
                rate = (
                    _RATES["operator"]
                    if name in OWN and self.engine == "operator"
                    else _RATES.get(name, float("inf"))
                )
                replayed = (count + 1 / _WARM_UP) * case.rows / rate / cores
                timed = (
                    min(2 * LONG_ENOUGH_S, case.rows / rate / cores) * (1.5 * TIMES + 2)
                    if name == "slackwater"
                    else 0
                )  # to predict
                seconds += (_START_S[name] + replayed + timed) * (count > 0)
        return needed, seconds

    def check_disk(self) -> None:
        """Raises UsageError when the disk is too small."""
        needed, free = self.cost()[0], shutil.disk_usage(self.work).free
        if needed > free:
            raise UsageError(
                f"the benchmark needs about {needed / 1e9:.1f} GB below {self.work}, and {free / 1e9:.1f} GB "
                "are free. Give fewer --rows, "
                "or another folder with --work.",
                needed=needed,
                free=free,
            )

    def run(self) -> list[dict[str, Any]]:
        """Do all runs that are missing; the medians of everything asked for. A contender that ends is left
        out, and said.
        """
        for case, contenders in self.cases():
            if any(len(self.results.runs(self.key(case, name))) < self.repetitions for name in contenders):
                self._replay(case, contenders)
        return self.summary()

    def summary(self) -> list[dict[str, Any]]:
        """The medians of what was measured so far."""
        return self.results.summary(
            self.key(case, name) for case, contenders in self.cases() for name in contenders
        )

    def _replay(self, case: Case, contenders: Sequence[str]) -> None:
        self.lines(f"{case.label}: making {case.rows:,} rows of {case.workload.title}")
        case.make()
        warm_up = case.smaller(max(10_000, case.rows // _WARM_UP))
        with ExitStack() as stack:
            workers = {}
            for name in contenders:
                if len(self.results.runs(self.key(case, name))) < self.repetitions:
                    worker = Worker(
                        name,
                        self.engine if name in OWN else None,
                        self.work / "logs" / f"{case.label}-{name}.txt",
                    )
                    stack.callback(worker.stop)
                    workers[name] = worker
            for name in list(workers):
                self._try(workers, name, warm_up)
            for _ in range(self.repetitions):
                for name in list(workers):
                    key = self.key(case, name)
                    done = self.results.runs(key)
                    if len(done) < self.repetitions and (run := self._try(workers, name, case)) is not None:
                        run["check"] = done[0]["check"] if done else checks.check(case, name, run)
                        self.results.add(key, run)
                        self.lines(
                            f"{case.label}: {name} {run['wall_s']:.2f} s, CPU {run['cpu_s']:.1f} s "
                            f"({run['check']})"
                        )
        if not self.keeps:
            case.remove()
            warm_up.remove()

    def _try(self, workers: dict[str, Worker], name: str, case: Case) -> dict[str, Any] | None:
        try:
            return workers[name].run(case)
        except ContenderFailed as failed:
            del workers[name]
            if name in OWN:
                raise
            self.lines(f"{case.label}: without {failed}")
            return None


def code_of_project() -> str:
    """A fingerprint of our Python sources, the benchmark's own left out: other code makes other
    measurements.
    """
    root, digest = Path(__file__).parent.parent.parent, hashlib.sha256()
    for package in ("jobs", "windowing"):
        for path in sorted((root / package).rglob("*.py")):
            if not path.is_relative_to(Path(__file__).parent):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
