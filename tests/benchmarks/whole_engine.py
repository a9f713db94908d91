"""The operator engine whole: from the pinned source to the published run, in this process, beside the
columnar engine and Flink.

Workloads are those of `slackwater bench`; the engines' results are compared before a rate means anything.
"""

from __future__ import annotations

import gc
import shutil
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from slackwater.bench.cases import BenchmarkCase
from slackwater.bench.contenders.flink import Flink
from slackwater.bench.own_code import own_workload
from slackwater.bench.workloads import WORKLOADS, Workload
from slackwater.engine.transport.in_process import InProcess
from slackwater.runs.lineage.catch_up import CatchUp, CatchUpRequest
from slackwater.runs.opened_pipeline import OpenedPipeline
from slackwater.runtime.memory import keep_heap

NAMES = ("a", "b", "c", "d")
OWN_CODE = ("timers", "trigger")
OPERATOR, COLUMNAR, FLINK = "operator engine", "columnar engine", "Flink, heap state"


class EnginesDisagree(Exception):
    """The engines published different results."""


def replayed(case: BenchmarkCase, engine: str) -> tuple[float, Any]:
    """CPU seconds of one run over all rows of the case, and its row of the ledger."""
    shutil.rmtree(case.folder / case.workload.pipeline, ignore_errors=True)
    gc.collect()
    request = CatchUpRequest(
        case.workload.pipeline, case.facts["to_ms"], case.facts["from_ms"], engine=engine
    )
    opened = OpenedPipeline(case.workload.pipeline, str(case.folder), case.workload.pipelines)
    run = CatchUp(request, lambda: opened.runner(engine, transport=InProcess), lambda line: None)
    start = time.process_time()
    [row] = run.run()
    return time.process_time() - start, row


class MeasuredRun(NamedTuple):
    """CPU seconds of a run, and what its row of the ledger says of its results."""

    seconds: float
    output_hash: str
    state_hash: str


def measured_run(case: BenchmarkCase, engine: str) -> MeasuredRun:
    """`replayed`, as a process can hand it to another."""
    seconds, row = replayed(case, engine)
    return MeasuredRun(seconds, row.output_hash, row.state_hash)


def measure(case: BenchmarkCase, repetitions: int, with_flink: bool) -> dict[str, float]:
    """Median rows per CPU second of each contender, in turn. Each has a process of its own: objects that the
    operator engine leaves would slow down its neighbour. Flink's first run, which compiles, is not counted.

    Raises:
        EnginesDisagree: their hashes differ.
    """
    case.make()
    engines = (OPERATOR,) if case.workload.function in OWN_CODE else (OPERATOR, COLUMNAR)
    rates: dict[str, list[float]] = {name: [] for name in engines}
    with ExitStack() as stack:
        processes = {name: stack.enter_context(_new_process()) for name in engines}
        for _ in range(repetitions):
            runs = {
                name: process.submit(measured_run, case, name.split()[0]).result()
                for name, process in processes.items()
            }
            hashes = {(run.output_hash, run.state_hash) for run in runs.values()}
            if len(hashes) != 1:
                raise EnginesDisagree(f"({case.label}): {hashes}")
            for name, run in runs.items():
                rates[name].append(case.facts["rows"] / run.seconds)
    if with_flink:
        rates[FLINK] = flink_rates(case, repetitions)
    return {name: median(own) for name, own in rates.items()}


def _new_process() -> ProcessPoolExecutor:
    """A process whose heap is that of the processes of a run."""
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=keep_heap)


def flink_rates(case: BenchmarkCase, repetitions: int) -> list[float]:
    flink = Flink()
    flink.start(case)
    flink.prepare(case)
    answers = [flink.run(case) for _ in range(repetitions + 1)][1:]
    flink.process.communicate()
    return [answer["rows"] / answer["cpu_s"] for answer in answers]


def _workload(name: str) -> Workload:
    return own_workload(name) if name in OWN_CODE else WORKLOADS[name]


def print_rates(names: tuple[str, ...], rows: int, repetitions: int, with_flink: bool, work: Path) -> None:
    """A table of million rows per CPU second."""
    print(f"\nwhole runs of {rows:,} rows, {repetitions} repetitions, M rows/CPU-s")
    for name in names:
        case = BenchmarkCase(name, _workload(name), rows, work)
        rates = measure(case, repetitions, with_flink)
        figures = "   ".join(
            f"{contender} {rate / 1e6:.3f}" + (f" ({rate / rates[FLINK]:.2f} of Flink)" if with_flink else "")
            for contender, rate in rates.items()
        )
        print(f"  ({name}) {case.workload.title:42}{figures}", flush=True)
