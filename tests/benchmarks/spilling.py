"""`python -m tests.benchmarks.spilling --windows N`: one key-group range opens, parks, restores and fires N
windows that keep their elements, with its state in memory and in RocksDB.

Every contender has a process of its own, so that its peak of resident memory is its own; what both leave must
have equal hashes. CPU seconds include RocksDB's threads.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.operator import OperatorEngine
from slackwater.engine.replaying.replay import Outcome, Replay
from slackwater.engine.rows.judge import Judge
from slackwater.engine.rows.progress import Progress
from slackwater.engine.rows.tick_pass import timeline_of
from slackwater.engine.source.files import InputFile
from slackwater.engine.source.pinned_source import PinnedSource
from slackwater.engine.source.scan import SliceScan
from slackwater.engine.transport.in_process import InProcess
from slackwater.pipelines import DeltaSource, Pipeline
from slackwater.runs.staging.shapes import shape_of
from slackwater.tables.delta.written_files import write_file
from slackwater.tables.run_files.staging import stack
from slackwater.tables.schemas import table_schemas
from slackwater.windowing import ProcessWindowFunction, TumblingEventTimeWindows, WatermarkStrategy
from slackwater.windowing.times import to_datetime
from tests.benchmarks.state_backends import ROOT, peak_mb

IN_MEMORY, IN_ROCKSDB = 1 << 20, 0  # megabytes that state may take
CONTENDERS = {"memory": IN_MEMORY, "RocksDB": IN_ROCKSDB}
HOUR = 3_600_000
ELEMENTS_PER_WINDOW = 20
SCHEMA = pa.schema(
    [
        ("event_time", pa.timestamp("us", tz="UTC")),
        ("arrival_time", pa.timestamp("us", tz="UTC")),
        ("key", pa.int64()),
        ("x", pa.int64()),
        ("row", pa.int64()),
    ]
)


class Total(ProcessWindowFunction):
    """How many elements, and the sum of their values; they are gone through once."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> list[tuple[int, int]]:
        count = total = 0
        for element in elements:
            count += 1
            total += element.x
        return [(count, total)]


class DisagreementError(Exception):
    """The contenders did not leave the same."""


def measure(limit_mb: int, windows: int, folder: Path) -> dict[str, Any]:
    """CPU seconds of a slice that opens all windows and one that fires them, hashes, and the greatest
    resident memory.
    """
    write_source(folder, windows, ELEMENTS_PER_WINDOW)
    work = Work(folder)
    seconds, hashes = {}, []
    for name, slice_ in {"open and park": (0, HOUR), "restore and fire": (HOUR, 3 * HOUR)}.items():
        started = time.process_time()
        outcome = work.run(*slice_, limit_mb)
        seconds[name] = time.process_time() - started
        hashes.append((str(outcome.output_hash), str(outcome.state_hash), outcome.counts))
    return {"seconds": seconds, "hashes": hashes, "peak_mb": peak_mb()}


class Work:
    """Some elements for each of the windows, all of one hour; the next two hours have one each, which lets
    the watermark pass. The source stands in `folder`, where `write_source` has put it. An element is of the
    `columns` of the source; None is all of them.
    """

    def __init__(self, folder: Path, columns: tuple[str, ...] | None = None) -> None:
        self.folder = folder
        self.pipeline = Pipeline(
            name="spilling",
            source=DeltaSource(
                "events", event_time="event_time", arrival_time="arrival_time", order_by="row"
            ),
            watermarks=WatermarkStrategy.monotonous().with_interval(timedelta(hours=1)),
            key_by="key",
            window=TumblingEventTimeWindows(size_ms=HOUR),
            process=Total(),
            output="n long, total long",
            columns=columns,
            start=to_datetime(0),
        )
        self.files = tuple(_input_file(folder, name) for name in ("first", "last"))
        self.progress = Progress.none()
        self.state: dict[str, tuple[str, ...]] = {}
        self.shape = shape_of(self.pipeline, SCHEMA)
        self.schemas = table_schemas(self.shape)

    def run(self, from_ms: int, to_ms: int, limit_mb: int) -> Outcome:
        source = PinnedSource(str(self.folder), 0, SCHEMA, None)
        scan = SliceScan(source, self.files, tuple(SCHEMA.names), "arrival_time", from_ms, to_ms, 0)
        timeline, self.progress = timeline_of(InProcess(), scan, Judge.of(self.pipeline, scan), self.progress)
        folders = {name: str(self.folder / name) for name in self.schemas}
        replay = Replay(self.pipeline, self.shape, scan, timeline, self.state, folders, f"r{from_ms}", 1)
        outcome = OperatorEngine().replay(replace(replay, state_memory_mb=limit_mb), InProcess())
        for name in ("window_state", "keyed_state", "timers"):
            rows = stack(outcome.rows.pop(name, []), self.schemas[name], "r").drop_columns(["run_id"])
            own = tuple(file.path for file in outcome.files.get(name, []))
            self.state[name] = (*own, write_file(folders[name], f"{from_ms}.parquet", rows, {}).path)
        return outcome


def write_source(folder: Path, windows: int, elements_per_window: int) -> None:
    """The source of `Work`, in two files of row groups as a writer of Delta tables makes them."""
    numbers = np.arange(windows * elements_per_window)
    times_and_keys = {
        "first": (numbers * HOUR // len(numbers), numbers // elements_per_window),
        "last": (np.array([HOUR + 1, 2 * HOUR - 1]), np.array([0, 0])),
    }
    for name, (times, keys) in times_and_keys.items():
        moments = pa.array(times * 1000).cast(SCHEMA.field("event_time").type)
        row = np.arange(len(times))
        columns = [moments, moments, pa.array(keys), pa.array(row % 97), pa.array(row)]
        rows = pa.table(columns, schema=SCHEMA)
        pq.write_table(rows, folder / f"{name}.parquet")


def _input_file(folder: Path, name: str) -> InputFile:
    rows = pq.read_metadata(folder / f"{name}.parquet").num_rows
    return InputFile(f"{name}.parquet", (), rows, 1, False)


def measure_apart(name: str, windows: int) -> dict[str, Any]:
    command = [sys.executable, "-m", __spec__.name, "--only", name, "--windows", str(windows)]
    return json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout)


def check_agreement(results: dict[str, dict[str, Any]]) -> None:
    """Equal hashes and counts after each slice."""
    if len({json.dumps(result["hashes"]) for result in results.values()}) > 1:
        raise DisagreementError(str({name: result["hashes"] for name, result in results.items()}))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.spilling", description="A range's state in memory and in RocksDB."
    )
    parser.add_argument("--windows", type=int, default=50_000, help="default: %(default)s")
    parser.add_argument(
        "--only", choices=CONTENDERS, help="measure one contender, in this process, and print JSON"
    )
    chosen = parser.parse_args(arguments)
    if chosen.only:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(CONTENDERS[chosen.only], chosen.windows, Path(folder))))
        return 0
    results = {name: measure_apart(name, chosen.windows) for name in CONTENDERS}
    check_agreement(results)
    print(f"{chosen.windows:,} windows, {ELEMENTS_PER_WINDOW} elements each, one range")
    for name, result in results.items():
        steps = ", ".join(f"{step} {seconds:.1f} s of CPU" for step, seconds in result["seconds"].items())
        print(f"{name:10}{steps}, peak of resident memory {result['peak_mb']:,.0f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
