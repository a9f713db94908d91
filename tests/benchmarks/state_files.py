"""`python -m tests.benchmarks.state_files --runs 250 --ranges 400`: what it costs a process to list the files
of one snapshot in a state table that has the snapshots of many runs, a file for each range, and to commit
one more; and to open the table when so many commits are made since its last checkpoint.

Only the log is written: nobody opens the files. CPU seconds of the process, all threads together, and its
peak of resident memory after each step. The process that writes the log is another.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from slackwater.tables.delta.commits import PendingCommit, add_action
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.statistics import Statistics
from slackwater.tables.delta.stored_files import Within
from slackwater.tables.delta.written_files import WrittenFile
from slackwater.tables.schemas import Shape, partitioned_by, table_schemas
from tests.benchmarks.state_backends import peak_mb

TABLE = "window_state"
COUNT = ("n__count", pa.int64())
SHAPE = Shape((("key", pa.string()),), (("n", pa.int64()),), (COUNT,), (("key", pa.string()), COUNT))
RUNS_AT_ONCE = 25
# So many commits, or fewer, until one writes a checkpoint.
MOST_COMMITS = 60
COMMITS_SINCE_CHECKPOINT = (0, 5, 10, 25, 50)


class Step(NamedTuple):
    """One step: CPU seconds, and megabytes of the peak so far."""

    name: str
    cpu_seconds: float
    peak_mb: float


def table_at(root: Path) -> Folder:
    """The state table below `root`."""
    return Folder(str(root / TABLE), table_schemas(SHAPE)[TABLE], partitioned_by(TABLE))


def files_of(run: int, ranges: int) -> list[WrittenFile]:
    """A file for each range, as a run would describe them; none of them is written."""
    columns = [field for field in table_schemas(SHAPE)[TABLE] if field.name != "run_id"]
    one_row = {field.name: [_value(field.type)] for field in columns}
    run_id = f"20260101T000000-{run:016x}"
    files = []
    for number in range(ranges):
        rows = pa.table({**one_row, "key_group": [number]}, schema=pa.schema(columns))
        path = f"run_id={run_id}/range-{number}-{run:08x}-seal{run:08x}{number:08x}.parquet"
        statistics = Statistics().add(rows).to_json()
        files.append(WrittenFile(path, {"run_id": run_id}, rows=1, bytes=60_000, statistics=statistics))
    return files


def _value(kind: pa.DataType) -> object:
    if pa.types.is_timestamp(kind):
        return datetime(2026, 1, 1, tzinfo=UTC)
    return "text of a key" if pa.types.is_string(kind) else 7 if pa.types.is_integer(kind) else None


def write(root: Path, runs: int, ranges: int) -> None:
    """Commit the files of `runs` snapshots to a new table, and put its log into one checkpoint."""
    folder = table_at(root)
    folder.ensure()
    for first in range(0, runs, RUNS_AT_ONCE):
        numbers = range(first, min(first + RUNS_AT_ONCE, runs))
        folder.commit_files(file for run in numbers for file in files_of(run, ranges))
    folder.open().with_checkpoint()


def measure(root: Path, runs: int, ranges: int) -> list[Step]:
    """What a new process does: open the table, find the last snapshot, and commit more, with a checkpoint."""
    steps: list[Step] = []

    @contextmanager
    def step(name: str) -> Iterator[None]:
        began = time.process_time()
        yield
        steps.append(Step(name, time.process_time() - began, peak_mb()))

    def count(run: int) -> int:
        run_id = files_of(run, 1)[0].partition["run_id"]
        return folder.files(Within.only("run_id", run_id)).actions.num_rows

    folder = table_at(root)
    with step("open the table"):
        folder.open()
    with step("list the files of the last snapshot"):
        assert count(runs - 1) == ranges
    with step("list them again"):
        assert count(runs - 1) == ranges
    checkpoints = checkpoints_at(root)
    for number in range(MOST_COMMITS):
        files = files_of(runs + number, ranges)
        with step("commit, and list"):
            folder.commit_files(files)
            assert count(runs + number) == ranges
        if checkpoints_at(root) != checkpoints:
            name = f"commit, list, and write a checkpoint, after {number} without"
            return [*steps[:4], steps[-1]._replace(name=name)]
    raise AssertionError("no commit has written a checkpoint")


def checkpoints_at(root: Path) -> set[Path]:
    return set((root / TABLE / "_delta_log").glob("*.checkpoint.parquet"))


def add_commits(root: Path, runs: range, ranges: int) -> None:
    """Commit the files of `runs`, one commit each, and write no checkpoint."""
    table = table_at(root).open()
    for run in runs:
        actions = [add_action(file, 0, changes_data=True) for file in files_of(run, ranges)]
        table = PendingCommit(table.uri, table.version() + 1).write(table, actions, None)


def open_and_list(root: Path) -> Step:
    """What a new process does that lists all files."""
    folder, began = table_at(root), time.process_time()
    folder.files()
    return Step("open, and list all files", time.process_time() - began, peak_mb())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=250)
    parser.add_argument("--ranges", type=int, default=400)
    parser.add_argument("--measure", type=Path, help="a folder in which the table is written already")
    parser.add_argument("--open", type=Path, help="the same, for the second measurement")
    options = parser.parse_args(arguments)
    if options.measure is not None:
        print_steps(*measure(options.measure, options.runs, options.ranges))
        return 0
    if options.open is not None:
        print_steps(open_and_list(options.open))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), options.runs, options.ranges)
        print(f"{options.runs * options.ranges:,} files")
        sizes = ["--runs", str(options.runs), "--ranges", str(options.ranges)]
        command = [sys.executable, "-m", "tests.benchmarks.state_files", *sizes]
        subprocess.run([*command, "--measure", folder], check=True)
        table_at(Path(folder)).open().with_checkpoint()
        run = options.runs + MOST_COMMITS
        for before, count in pairwise((0, *COMMITS_SINCE_CHECKPOINT)):
            add_commits(Path(folder), range(run + before, run + count), options.ranges)
            print(f"{count} commits since the checkpoint", flush=True)
            subprocess.run([*command, "--open", folder], check=True)
    return 0


def print_steps(*steps: Step) -> None:
    for name, seconds, megabytes in steps:
        print(f"{name:60} {seconds:8.3f} s {megabytes:8.0f} MB")


if __name__ == "__main__":
    sys.exit(main())
