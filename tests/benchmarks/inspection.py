"""`python -m tests.benchmarks.inspection [--warehouse FOLDER]`: what each page and each verb that looks takes
on the warehouse of a year: 365 runs, 5 million open windows, 10 million late rows.

A verb is a process of its own; all pages are asked of one server. Each is asked once before it is measured,
so that the system has the files in its cache; a figure is the median of the next three. Memory is the
greatest resident set while it answered. Read are the bytes that it asked the system for, with Python's own
modules for a verb. Exits with 1 where one is over its budget: a second, 500 MB.

The warehouse is written where it is missing, which takes some minutes. Linux only.
"""

import argparse
import json
import multiprocessing
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.benchmarks.year_of_runs import NAME, START, YearOfRuns

BUDGET_SECONDS = 1.0
BUDGET_MB = 500
_REPEATS = 3
_MB = 1_000_000


@dataclass(frozen=True)
class Cost:
    """What an answer took.

    Attributes:
        name: the verb, or the page.
        seconds: wall time.
        memory_mb: greatest resident set.
        read_mb: bytes asked of the system for reading.
    """

    name: str
    seconds: float
    memory_mb: float
    read_mb: float

    @property
    def is_over(self) -> bool:
        """Whether it is over its budget."""
        return self.seconds > BUDGET_SECONDS or self.memory_mb > BUDGET_MB


def verbs(year: YearOfRuns) -> Sequence[str]:
    """The verbs that look, as a user types them."""
    window = f"{NAME} --key {year.key} --window {_window(year)}"
    last = year.days
    return (
        "health",
        f"health {NAME}",
        f"runs {NAME}",
        f"runs {NAME} {last}",
        f"plan {NAME}",
        f"explain {window}",
        f"explain {window} --elements",
        f"history {NAME} --key {year.key}",
        f"history {window}",
        f"history {NAME} --run {last}",
        f"state windows {NAME}",
        f"state windows {NAME} --key {year.key}",
        f"state windows {NAME} --run {last - 1}",
        f"state timers {NAME}",
        f"state diff {NAME} {last - 1} {last}",
        f"state diff {NAME} {last - 1} {last} --key {year.key}",
        f"late list {NAME}",
        f"late list {NAME} --key {year.key}",
        f"late report {NAME}",
        f"late advise {NAME}",
        f"quarantine list {NAME}",
        f"branches list {NAME}",
        f"sql {NAME} 'SELECT count(*) FROM windows_now'",
        f"sql {NAME} 'SELECT * FROM published ORDER BY window_start DESC LIMIT 10'",
        f"sql {NAME} \"SELECT * FROM windows_now WHERE shop = '{year.key}'\"",
    )


def pages(year: YearOfRuns) -> Sequence[str]:
    """The paths of the pages."""
    last, window = year.days, f"key={year.key}&start={_window(year)}"
    return (
        "/",
        f"/{NAME}",
        f"/{NAME}?last=365",
        f"/{NAME}/runs/{last}",
        f"/{NAME}/window?{window}",
        f"/{NAME}/window?{window}&elements=true",
        f"/{NAME}/history?key={year.key}",
        f"/{NAME}/history?run={last}",
        f"/{NAME}/state/windows",
        f"/{NAME}/state/windows?page=1000",
        f"/{NAME}/state/windows?key={year.key}",
        f"/{NAME}/state/timers",
        f"/{NAME}/state/late",
        f"/{NAME}/state/late?key={year.key}",
        f"/{NAME}/state/quarantine",
        f"/{NAME}/state/windows/file.csv?key={year.key}",
        f"/{NAME}/late",
        f"/{NAME}/diff",
        f"/{NAME}/diff?a={last - 1}&b={last}",
        f"/{NAME}/sql?q=SELECT+count(*)+FROM+windows_now",
    )


def _window(year: YearOfRuns) -> str:
    """The start of a window that is open, and has fired again."""
    return f"{START + timedelta(days=max(year.days - 5, 0)):%Y-%m-%d}"


def measure_verb(year: YearOfRuns, verb: str) -> Cost:
    """Run `slackwater VERB` some times, each in a process of its own."""
    where = ["--warehouse", str(year.root), "--pipelines", str(year.pipelines_file)]
    command = [sys.executable, "-m", "slackwater", *shlex.split(verb), *where]
    return _median_cost(verb, lambda: _cost_of_process(verb, command))


def _cost_of_process(name: str, command: Sequence[str]) -> Cost:
    with tempfile.TemporaryFile() as messages:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=messages)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        seconds = time.perf_counter() - began
        read_bytes = _read_bytes(process.pid)  # it has ended, and is still known to the system
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 1):  # 1: health is red
            messages.seek(0)
            raise RuntimeError(f"{shlex.join(command)}: {messages.read().decode()}")
    return Cost(name, seconds, usage.ru_maxrss * 1024 / _MB, read_bytes / _MB)


@contextmanager
def server(year: YearOfRuns) -> Iterator[tuple[str, int]]:
    """`slackwater serve` of the warehouse: its address and its process."""
    where = ["--warehouse", str(year.root), "--pipelines", str(year.pipelines_file)]
    command = [sys.executable, "-m", "slackwater", "serve", "--port", "0", *where]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        announced = re.search(r"http://\S+", process.stdout.readline())
        assert announced is not None
        yield announced[0].rstrip("/"), process.pid
    finally:
        process.terminate()
        process.communicate()


def measure_page(address: str, pid: int, path: str) -> Cost:
    """Ask the server `pid` for a page some times."""
    return _median_cost(path, lambda: _cost_of_page(address, pid, path))


def _cost_of_page(address: str, pid: int, path: str) -> Cost:
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the greatest resident set begins anew
    read_before, began = _read_bytes(pid), time.perf_counter()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(address + path, timeout=300) as answer:
        answer.read()
    seconds = time.perf_counter() - began
    status = Path(f"/proc/{pid}/status").read_text()
    [peak_kib] = re.findall(r"VmHWM:\s+(\d+) kB", status)
    return Cost(path, seconds, int(peak_kib) * 1024 / _MB, (_read_bytes(pid) - read_before) / _MB)


def _read_bytes(pid: int) -> int:
    [read_bytes] = re.findall(r"rchar: (\d+)", Path(f"/proc/{pid}/io").read_text())
    return int(read_bytes)


def _median_cost(name: str, once: Callable[[], Cost]) -> Cost:
    once()
    costs = [once() for _ in range(_REPEATS)]
    return Cost(
        name,
        statistics.median(cost.seconds for cost in costs),
        max(cost.memory_mb for cost in costs),
        statistics.median(cost.read_mb for cost in costs),
    )


def _show(title: str, costs: Sequence[Cost]) -> None:
    table = Table(title=title, title_justify="left")
    table.add_column("", overflow="fold")
    for heading in ("seconds", "memory MB", "read MB", ""):
        table.add_column(heading, justify="right")
    for cost in costs:
        figures = (f"{cost.seconds:.2f}", f"{cost.memory_mb:.0f}", f"{cost.read_mb:.1f}")
        table.add_row(cost.name, *figures, "over" if cost.is_over else "")
    Console().print(table)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--warehouse", type=Path, help="written where it is missing, and kept")
    parser.add_argument("--shops", type=int, default=YearOfRuns.shops, help="keys; each day two rows of each")
    parser.add_argument("--days", type=int, default=YearOfRuns.days, help="runs")
    parser.add_argument("--only", default="", metavar="TEXT", help="verbs and pages that contain it")
    parser.add_argument("--output", choices=["table", "json"], default="table")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        year = YearOfRuns(options.warehouse or Path(folder) / "year", shops=options.shops, days=options.days)
        if not year.pipelines_file.exists():
            # The system counts what the parent takes at the start of a process as memory of that process.
            writer = multiprocessing.get_context("spawn").Process(target=year.write)
            writer.start()
            writer.join()
        of_verbs = [measure_verb(year, verb) for verb in verbs(year) if options.only in verb]
        with server(year) as (address, pid):
            of_pages = [measure_page(address, pid, path) for path in pages(year) if options.only in path]
    if options.output == "json":
        print(json.dumps({"verbs": [*map(asdict, of_verbs)], "pages": [*map(asdict, of_pages)]}, indent=1))
    else:
        size = f"{year.days} runs, {year.open_windows:,} open windows, {year.late_rows:,} late rows"
        _show(f"Verbs: {size}", of_verbs)
        _show("Pages", of_pages)
    return int(any(cost.is_over for cost in (*of_verbs, *of_pages)))


if __name__ == "__main__":
    sys.exit(main())
