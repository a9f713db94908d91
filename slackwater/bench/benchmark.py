"""One benchmark: its cases and contenders, what it will cost, and the runs; contenders take turns."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slackwater.bench import checks, nexmark, own_code
from slackwater.bench.cases import BenchmarkCase
from slackwater.bench.contenders import CONTENDERS, flink, floor
from slackwater.bench.growth import BILLION, billion_cases, growth_cases, is_of_billion
from slackwater.bench.results import Key, Results
from slackwater.bench.worker import ContenderFailed, Worker
from slackwater.bench.workloads import WORKLOADS
from slackwater.errors import UsageError

REPETITIONS = 3
OWN_CONTENDERS = ("slackwater", "slackwater_last_eighth")
_OF_OUR_CODE = (*OWN_CONTENDERS, floor.NAME)  # whose measurements are of the code that they were made with
_WARM_UP = 20  # each contender first replays 1/20 of a case's rows, unmeasured
_MOST_TO_WARM_UP = 5_000_000
# Rows a second and core from which `cost` predicts the time; measured on a machine with two cores.
_RATES = {
    "slackwater": 0.8e6,
    "slackwater_last_eighth": 0.8e6,
    "spark_native": 1e6,
    "duckdb": 4e6,
    "floor": 1e6,
    "flink": 0.5e6,
    "operator": 0.1e6,
    "apply_in_arrow": 0.1e6,
    "apply_in_pandas": 0.05e6,
    "transform_with_state_batch": 0.05e6,
}
_START_S = {
    "slackwater": 25,
    "slackwater_last_eighth": 25,
    "spark_native": 20,
    "duckdb": 1,
    "floor": 1,
    "flink": 15,
    **dict.fromkeys(("apply_in_arrow", "apply_in_pandas", "transform_with_state_batch"), 20),
}
_BYTES_A_ROW = 110  # source, its copy for Flink, and what the contenders leave
_BYTES_A_ROW_OF_BILLION = 45  # source, what crosses the shuffle, and what the project leaves


@dataclass
class Benchmark:
    """What `slackwater bench` was asked for; its options by their names. `keeps`: whether sources and what
    contenders wrote stay in `work`; `lines` takes each line of progress.
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
        workloads = (*WORKLOADS, "growth", nexmark.NAME, BILLION, own_code.NAME)
        for name in self.only:
            if name not in workloads:
                raise UsageError(
                    f"no workload is called {name!r}; there are {', '.join(workloads)}.", name=name
                )
        for name in self.contenders or ():
            if name not in CONTENDERS:
                raise UsageError(
                    f"no contender is called {name!r}; there are {', '.join(CONTENDERS)}.", name=name
                )
        if not Path("/proc/self/stat").exists():
            raise UsageError("bench reads CPU time and memory from /proc, which this system does not have.")
        self.work.mkdir(parents=True, exist_ok=True)
        self.results = Results(self.work)

    def cases(self) -> Iterator[tuple[BenchmarkCase, tuple[str, ...]]]:
        for name in self.only:
            if name == "growth":
                yield from ((case, OWN_CONTENDERS[:1]) for case in growth_cases(self.rows, self.work))
            elif name == BILLION:
                yield from ((case, OWN_CONTENDERS[:1]) for case in billion_cases(self.rows, self.work))
            elif name == nexmark.NAME:
                yield from (
                    (case, OWN_CONTENDERS[:1]) for case in nexmark.nexmark_cases(self.rows, self.work)
                )
            elif name == own_code.NAME:
                for case in own_code.own_cases(self.rows, self.work):
                    yield case, self._contenders_of_own_code(case)
            else:
                yield BenchmarkCase(name, WORKLOADS[name], self.rows, self.work), self._contenders(name)

    def _contenders(self, name: str) -> tuple[str, ...]:
        if WORKLOADS[name].is_json:
            return self._asked_for((*OWN_CONTENDERS[:1], "duckdb"))  # the others read columns
        has_flink = flink.is_possible() and not WORKLOADS[name].fires_every_ms  # it knows one trigger
        anchors = ["spark_native", "duckdb", *(["flink"] if has_flink else [])]
        project, *later_runs = OWN_CONTENDERS
        candidates = (
            project,
            floor.NAME,  # what has just been written it writes again
            *later_runs,
            *anchors,
        )
        return self._asked_for(candidates)

    def _contenders_of_own_code(self, case: BenchmarkCase) -> tuple[str, ...]:
        others = own_code.FUNCTIONS[case.workload.function].contenders
        possible = (name for name in others if name != "flink" or flink.is_possible())
        return self._asked_for((*OWN_CONTENDERS[:1], *possible))

    def _asked_for(self, candidates: Iterable[str]) -> tuple[str, ...]:
        return tuple(
            contender for contender in candidates if self.contenders is None or contender in self.contenders
        )

    def missing(self) -> dict[str, int]:
        counts = {}
        for case, contenders in self.cases():
            for contender in contenders:
                finished_runs = len(self.results.runs(self.key(case, contender)))
                counts[f"{case.label} {case.rows:,} {contender}"] = max(0, self.repetitions - finished_runs)
        return counts

    def key(self, case: BenchmarkCase, contender: str) -> Key:
        """The key of a contender's runs; the project's count only for the code and engine they measured."""
        code = f"{self.engine or 'chosen'}-{code_of_project()}" if contender in _OF_OUR_CODE else ""
        return Key(case.label, case.rows, contender, code)

    def cost(self) -> tuple[int, float]:
        """Predicts the missing runs roughly: the most bytes of disk at one time, and seconds."""
        disk_bytes, seconds, cores = 0, 0.0, os.cpu_count() or 1
        for case, contenders in self.cases():
            runs = {
                name: self.repetitions - len(self.results.runs(self.key(case, name))) for name in contenders
            }
            if not any(count > 0 for count in runs.values()):
                continue
            panes = case.workload.size_ms // case.workload.slide_ms if case.workload.kind == "sliding" else 1
            bytes_a_row = _BYTES_A_ROW_OF_BILLION if is_of_billion(case.label) else _BYTES_A_ROW
            size = case.rows * bytes_a_row * (1 + panes) // 2
            disk_bytes = disk_bytes + size if self.keeps else max(disk_bytes, size)
            seconds += case.rows / 1e6
            for name, count in runs.items():
                rate = (
                    _RATES["operator"]
                    if name in OWN_CONTENDERS and (self.engine == "operator" or case.workload.function)
                    else _RATES.get(name, float("inf"))
                )
                replay_s = (count + 1 / _WARM_UP) * case.rows / rate / cores
                seconds += (_START_S[name] + replay_s) * (count > 0)
        return disk_bytes, seconds

    def check_disk(self) -> None:
        """Raises UsageError when the disk is too small."""
        needed_bytes, free_bytes = self.cost()[0], shutil.disk_usage(self.work).free
        if needed_bytes > free_bytes:
            raise UsageError(
                f"the benchmark needs about {needed_bytes / 1e9:.1f} GB below {self.work}, and "
                f"{free_bytes / 1e9:.1f} GB are free. Give fewer --rows, or another folder with --work.",
                needed=needed_bytes,
                free=free_bytes,
            )

    def run(self) -> list[dict[str, Any]]:
        """Do all missing runs; returns the medians of everything that was asked for. A contender whose
        process ends without an answer is left out, which a line of progress says.
        """
        for case, contenders in self.cases():
            if any(len(self.results.runs(self.key(case, name))) < self.repetitions for name in contenders):
                self._measure(case, contenders)
        return self.summary()

    def summary(self) -> list[dict[str, Any]]:
        return self.results.summary(
            self.key(case, name) for case, contenders in self.cases() for name in contenders
        )

    def _measure(self, case: BenchmarkCase, contenders: Sequence[str]) -> None:
        self.lines(f"{case.label}: making {case.rows:,} rows of {case.workload.title}")
        case.make()
        warm_up = case.smaller(max(10_000, min(case.rows // _WARM_UP, _MOST_TO_WARM_UP)))
        with ExitStack() as stack:
            workers = {}
            for name in contenders:
                if len(self.results.runs(self.key(case, name))) < self.repetitions:
                    worker = Worker(
                        name,
                        self.engine if name in OWN_CONTENDERS else None,
                        self.work / "logs" / f"{case.label}-{name}.txt",
                    )
                    stack.callback(worker.stop)
                    workers[name] = worker
            for name in list(workers):
                self._try(workers, name, warm_up)
            for _ in range(self.repetitions):
                for name in list(workers):
                    key = self.key(case, name)
                    earlier_runs = self.results.runs(key)
                    if (
                        len(earlier_runs) < self.repetitions
                        and (run := self._try(workers, name, case)) is not None
                    ):
                        run["check"] = (
                            earlier_runs[0]["check"] if earlier_runs else checks.check(case, name, run)
                        )
                        self.results.add(key, run)
                        self.lines(
                            f"{case.label}: {name} {run['wall_s']:.2f} s, CPU {run['cpu_s']:.1f} s "
                            f"({run['check']})"
                        )
        if not self.keeps:
            case.remove()
            warm_up.remove()

    def _try(self, workers: dict[str, Worker], name: str, case: BenchmarkCase) -> dict[str, Any] | None:
        """One run. A failed anchor is taken out of `workers`; a failed project fails the benchmark."""
        try:
            return workers[name].run(case)
        except ContenderFailed as error:
            del workers[name]
            if name in OWN_CONTENDERS:
                raise
            self.lines(f"{case.label}: without {error}")
            return None


def code_of_project() -> str:
    """A fingerprint of the project's Python sources without the benchmark's own: measurements count only for
    the code that they were made with.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        if not path.is_relative_to(Path(__file__).parent):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
