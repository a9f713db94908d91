"""`python -m tests.benchmarks.long_ledger [--warehouse FOLDER]`: the CPU seconds that each verb takes on a
ledger of 100,000 rows and 3,000 live spans.

A verb is a process of its own, its start included, and is run once. Exits with 1 where one is over its
budget. The warehouse is written where it is missing. The verbs that change it come last: they publish nothing
new, and the upkeep has few files to merge.
"""

import argparse
import json
import multiprocessing
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.benchmarks.ledger_rows import FIRST_REAL_SLICE, NAME, LongLedger

BUDGET_SECONDS = 2.0
_MB = 1_000_000


@dataclass(frozen=True)
class Cost:
    """What a verb took: CPU seconds of user and system, and the greatest resident set."""

    verb: str
    cpu_seconds: float
    memory_mb: float

    @property
    def is_over(self) -> bool:
        """Whether it is over its budget."""
        return self.cpu_seconds > BUDGET_SECONDS


def verbs(ledger: LongLedger) -> Sequence[str]:
    """The verbs that read the ledger, as a user types them, and those that do nothing but look whether there
    is work.
    """
    last, window = ledger.rows, f"--window {FIRST_REAL_SLICE:%Y-%m-%dT%H:%M}"
    end, behind = f"{ledger.end:%Y-%m-%dT%H:%M}", f"{ledger.end:%Y-%m-%dT%H}:15"
    return (
        "health",
        f"health {NAME}",
        f"runs {NAME}",
        f"runs {NAME} {last}",
        f"runs {NAME} 5",
        f"plan {NAME} --to {behind}",
        f"explain {NAME} --key sensor1 {window}",
        f"history {NAME} --key sensor1",
        f"history {NAME} --key sensor1 {window}",
        f"history {NAME} --run {last}",
        f"state windows {NAME}",
        f"state windows {NAME} --run {last - 1}",
        f"state watermarks {NAME}",
        f"state diff {NAME} {last - 1} {last}",
        f"late list {NAME}",
        f"late report {NAME}",
        f"late advise {NAME}",
        f"quarantine list {NAME}",
        f"branches list {NAME}",
        f"sql {NAME} 'SELECT count(*) FROM panes_live'",
        f"sql {NAME} 'SELECT count(*), max(seq) FROM runs'",
        f"maintain {NAME} --dry-run",
        f"publish {NAME}",
        f"run {NAME} --to {end}",
        f"run {NAME} --to {behind}",
        f"backfill {NAME} --from {FIRST_REAL_SLICE:%Y-%m-%dT%H:%M} --to {FIRST_REAL_SLICE:%Y-%m-%dT%H}:15",
        f"maintain {NAME}",
    )


def measure(ledger: LongLedger, verb: str) -> Cost:
    """Run `slackwater VERB` in a process of its own.

    Raises:
        RuntimeError: it failed.
    """
    where = ["--warehouse", str(ledger.root)]
    if verb.split()[0] not in ("doctor",):
        where += ["--pipelines", str(ledger.pipelines_file)]
    command = [sys.executable, "-m", "slackwater", *shlex.split(verb), *where]
    with tempfile.TemporaryFile() as messages:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=messages)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 1):  # 1: health is red
            messages.seek(0)
            raise RuntimeError(f"{shlex.join(command)}: {messages.read().decode()}")
    return Cost(verb, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / _MB)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--warehouse", type=Path, help="written where it is missing, and kept")
    parser.add_argument("--rows", type=int, default=LongLedger.rows)
    parser.add_argument("--restatements", type=int, default=LongLedger.restatements)
    parser.add_argument("--only", default="", metavar="TEXT", help="verbs that contain it")
    parser.add_argument("--output", choices=["table", "json"], default="table")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        ledger = LongLedger(
            options.warehouse or Path(folder) / "long", options.rows, restatements=options.restatements
        )
        if not ledger.pipelines_file.exists():
            # By a process of its own: what this one holds counts as memory of the verbs that it starts.
            writer = multiprocessing.get_context("spawn").Process(target=ledger.write)
            writer.start()
            writer.join()
        costs = [measure(ledger, verb) for verb in verbs(ledger) if options.only in verb]
    if options.output == "json":
        print(json.dumps([asdict(cost) for cost in costs], indent=1))
    else:
        _show(f"A ledger of {ledger.rows:,} rows, {ledger.live_spans:,} live spans", costs)
    return int(any(cost.is_over for cost in costs))


def _show(title: str, costs: Sequence[Cost]) -> None:
    table = Table(title=title, title_justify="left")
    table.add_column("", overflow="fold")
    for heading in ("CPU seconds", "memory MB", ""):
        table.add_column(heading, justify="right")
    for cost in costs:
        over = "over" if cost.is_over else ""
        table.add_row(cost.verb, f"{cost.cpu_seconds:.2f}", f"{cost.memory_mb:.0f}", over)
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
