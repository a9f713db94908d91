"""`python -m tests.benchmarks.scalar --rows N`: the element-by-element path on one core, beside a plain loop,
bytewax and Flink.

CPU seconds, all contenders in turn in each repetition, medians, and every result compared before it is
printed.
"""

from __future__ import annotations

import argparse
import gc
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from slackwater.runtime.memory import keep_heap
from tests.benchmarks import contenders, whole_engine
from tests.benchmarks.contenders import CONTENDERS, Outcome
from tests.benchmarks.reference import Firing
from tests.benchmarks.workloads import WORKLOADS, Rows, Workload, make_rows

ANCHOR = "reference loop, generic"
BYTEWAX = "bytewax fold_window"


class DisagreementError(Exception):
    """Two contenders came to different results: no rate of either means anything."""


def check_agreement(outcomes: dict[str, Outcome]) -> None:
    """Raise DisagreementError unless all contenders fired the same windows with the same results, and dropped
    and hold the same.
    """
    expected = outcomes[ANCHOR]
    wanted = sorted(expected.firings)
    for name, outcome in outcomes.items():
        if (outcome.dropped, outcome.still_open) != (expected.dropped, expected.still_open) or sorted(
            outcome.firings
        ) != wanted:
            raise DisagreementError(
                f"{name}: {len(outcome.firings)} firings, {outcome.dropped} dropped, {outcome.still_open} "
                f"open; {ANCHOR}: {len(expected.firings)}, {expected.dropped}, {expected.still_open}, or "
                "other values."
            )


def all_windows(workload: Workload, rows: Rows) -> list[Firing]:
    """Count and sum of every window when no row is late: what bytewax, which waits for all of them, must come
    to.
    """
    totals: dict[tuple[int, int], list[int]] = {}
    for key, timestamp, value in zip(rows.keys, rows.timestamps, rows.values, strict=True):
        for start in range(
            timestamp - timestamp % workload.slide, timestamp - workload.size, -workload.slide
        ):
            total = totals.setdefault((key, start), [0, 0])
            total[0] += 1
            total[1] += value
    return sorted((key, start, count, total) for (key, start), (count, total) in totals.items())


def cpu_seconds(run: Callable[[], Callable[[], Outcome]]) -> tuple[float, Outcome]:
    gc.collect()
    start = time.process_time()
    read = run()
    return time.process_time() - start, read()


def measure(workload: Workload, rows: Rows, repetitions: int) -> dict[str, list[float]]:
    """Rows per CPU second of each contender in each repetition. Each repetition starts with another
    contender.
    """
    names = list(CONTENDERS)
    rates: dict[str, list[float]] = {name: [] for name in names}
    for repetition in range(repetitions):
        outcomes = {}
        for name in names[repetition % len(names) :] + names[: repetition % len(names)]:
            seconds, outcomes[name] = cpu_seconds(CONTENDERS[name](workload, rows))
            rates[name].append(len(rows) / seconds)
        check_agreement(outcomes)
    return rates


def measure_bytewax(workload: Workload, rows: Rows) -> float:
    """Rows per CPU second. Raises DisagreementError when its windows are not all windows."""
    seconds, outcome = cpu_seconds(contenders.bytewax(workload, rows))
    if outcome.dropped or sorted(outcome.firings) != all_windows(workload, rows):
        raise DisagreementError(
            f"{BYTEWAX}: {len(outcome.firings)} windows, {outcome.dropped} rows late, or other values."
        )
    return len(rows) / seconds


def print_workload(workload: Workload, count: int, repetitions: int) -> None:
    rows = make_rows(workload, count)
    gc.collect()
    gc.freeze()  # the rows themselves are no contender's garbage
    rates = measure(workload, rows, repetitions)
    print(f"\n{workload.name}, {count:,} rows, {repetitions} repetitions")
    print(f"  {'':28}{'M rows/CPU-s':>14}{'× reference':>14}   lowest to highest")
    for name, own in rates.items():
        ratios = [rate / anchor for rate, anchor in zip(own, rates[ANCHOR], strict=True)]
        print(
            f"  {name:28}{median(own) / 1e6:14.3f}{median(ratios):14.2f}   {min(ratios):.2f} to "
            f"{max(ratios):.2f}"
        )
    if contenders.bytewax_is_installed():
        few = rows.first(max(count // 10, 1))
        rate = measure_bytewax(workload, few)
        print(
            f"  {BYTEWAX:28}{rate / 1e6:14.3f}{rate / median(rates[ANCHOR]):14.2f}   once, on {len(few):,} "
            "rows, none of them late to it"
        )
    gc.unfreeze()


def processor() -> str:
    """The processor's name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return platform.machine()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.scalar",
        description="Speed of the element-by-element path on one core.",
    )
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="rows of each workload (default: %(default)s)"
    )
    parser.add_argument(
        "--repetitions", type=int, default=5, help="how often each contender runs (default: %(default)s)"
    )
    parser.add_argument(
        "--workload",
        choices=(*whole_engine.NAMES, *whole_engine.OWN_CODE),
        help="only this one; (d), sessions, and own code have whole runs only (default: all)",
    )
    parser.add_argument(
        "--flink",
        action="store_true",
        help="measure Flink's local cluster beside the whole engine; needs Maven",
    )
    chosen = parser.parse_args(arguments)
    keep_heap()  # as the processes of a run do
    print(
        f"{processor()}, {platform.python_implementation()} {platform.python_version()}, one core; CPU time, "
        "medians"
    )
    if not contenders.bytewax_is_installed():
        print(
            "bytewax is not installed here and left out: it is no part of the project's lock. Install it in "
            "an environment of its own."
        )
    for name, workload in zip(whole_engine.NAMES, WORKLOADS, strict=False):
        if chosen.workload in (None, name):
            print_workload(workload, chosen.rows, chosen.repetitions)
    every = (*whole_engine.NAMES, *whole_engine.OWN_CODE)
    names = every if chosen.workload is None else (chosen.workload,)
    with tempfile.TemporaryDirectory() as work:
        whole_engine.print_rates(names, chosen.rows, chosen.repetitions, chosen.flink, Path(work))
    return 0


if __name__ == "__main__":
    sys.exit(main())
