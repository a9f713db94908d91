"""Does a run cost more the longer its lineage is? Daily runs of equal input, each published, and what each of them took.

`python -m tests.benchmarks.history [--days 60]`, in this process and without Spark, so that only what we do ourselves is measured. A young
lineage and an old one take turns, so that whatever else the machine does falls on both. Each day's rows come to the source just before its
run: one file a day, as a loader leaves them. The runs' clock moves on a day each time.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from jobs.engines.operator import OperatorEngine
from jobs.engines.transport import InProcess
from jobs.pipelines import DeltaSource, Pipeline, count, max_, mean
from jobs.pipelines.registry import config_hash
from jobs.protocol.catch_up import CatchUp, Request
from jobs.protocol.run import Runner
from jobs.tables.warehouse import Warehouse
from windowing import TumblingEventTimeWindows, WatermarkStrategy

START = datetime(2024, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
TIME = pa.timestamp("us", tz="UTC")
# Spark checkpoints the log of a source every ten commits; delta-rs, which writes it here, every hundred.
SPARKS_DEFAULT = {"delta.checkpointInterval": "10"}
GOAL = 1.2
# The first of the early runs that are compared with the last ones, counted from 1, and how many of each.
EARLY = 5
COMPARED = 10


@dataclass(frozen=True)
class Cost:
    """What run number `run` took: CPU and wall seconds, and the seconds of its phases; `open_windows` when it ended."""

    run: int
    cpu: float
    wall: float
    phases: dict[str, float]
    open_windows: int


def pipeline() -> Pipeline:
    """Hourly windows of 20 keys; rows come up to five hours late, and some too late."""
    return Pipeline(
        name="daily",
        source=DeltaSource("sources/daily", event_time="event_time", arrival_time="arrival_time", order_by="row"),
        watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(hours=1)).with_interval(timedelta(minutes=5)),
        key_by="key",
        window=TumblingEventTimeWindows.of(timedelta(hours=1)),
        allowed_lateness=timedelta(hours=4),
        select={"n": count(), "average": mean("x"), "greatest": max_("x")},
        start=START,
    )


def rows_of(day: int, rows: int) -> pa.Table:
    """A day's rows: the same but for the date on every day."""
    random = np.random.default_rng(7)
    arrival = np.sort(random.integers(0, DAY // timedelta(milliseconds=1), rows))
    delay = np.where(random.random(rows) < 0.05, random.integers(0, 5 * 3_600_000, rows), random.integers(0, 600_000, rows))
    midnight = int((START + day * DAY).timestamp()) * 1000

    def moments(times: np.ndarray) -> pa.Array:
        return pa.array((times + midnight) * 1000, pa.int64()).cast(TIME)

    return pa.table(
        {
            "event_time": moments(arrival - delay),
            "arrival_time": moments(arrival),
            "row": pa.array(np.arange(rows) + day * rows),
            "key": pa.array([f"key{number}" for number in random.integers(0, 20, rows)]),
            "x": pa.array(random.normal(10, 3, rows)),
        }
    )


class Lineage:
    """A pipeline that runs once a day, in a warehouse of its own."""

    def __init__(self, root: Path, rows: int) -> None:
        self.root, self.rows, self.days = root, rows, 0
        declared = pipeline()
        self.runner = Runner(Warehouse(str(root)), declared, config_hash(declared), "code", "0", OperatorEngine(), InProcess())

    def run(self) -> Cost:
        """Load the next day, run and publish it."""
        day = self.days
        write_deltalake(self.root / "sources" / "daily", rows_of(day, self.rows), mode="append", configuration=SPARKS_DEFAULT)
        began, now = time.perf_counter(), START + (day + 1) * DAY + timedelta(hours=1)
        runner = replace(self.runner, clock=lambda: now + timedelta(seconds=time.perf_counter() - began))
        to_ms = self.runner.pipeline.start_ms + (day + 1) * (DAY // timedelta(milliseconds=1))
        wall, cpu = time.perf_counter(), time.process_time()
        [row] = CatchUp(Request("daily", to_ms), lambda: runner, lines=lambda line: None).run()
        self.days += 1
        return Cost(self.days, time.process_time() - cpu, time.perf_counter() - wall, row.phase_seconds, row.windows_open)


def measure(root: Path, days: int, rows: int) -> tuple[list[Cost], list[Cost]]:
    """What COMPARED runs took from day EARLY on, and what the last ones of `days` did, taken in turns."""
    young, old = Lineage(root / "young", rows), Lineage(root / "old", rows)
    for _ in range(EARLY - 1):
        young.run()
    for _ in range(days - COMPARED):
        old.run()
    turns = [(young.run(), old.run()) for _ in range(COMPARED)]
    return [early for early, _ in turns], [late for _, late in turns]


def ratio(early: Sequence[Cost], late: Sequence[Cost]) -> float:
    """CPU of the late runs against that of as many early ones. Both are a whole cycle of checkpoints."""
    return sum(cost.cpu for cost in late) / sum(cost.cpu for cost in early)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--rows", type=int, default=5_000, help="rows a day")
    parser.add_argument("--output", choices=["table", "json"], default="table")
    wanted = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        early, late = measure(Path(folder), wanted.days, wanted.rows)
    if wanted.output == "json":
        print(json.dumps({"ratio": ratio(early, late), "goal": GOAL, "runs": [vars(cost) for cost in (*early, *late)]}))
        return 0
    print(f"{'run':>4} {'cpu s':>7} {'wall s':>7} {'open':>6}  phases")
    for cost in (*early, *late):
        phases = "  ".join(f"{name} {took:.3f}" for name, took in cost.phases.items())
        print(f"{cost.run:>4} {cost.cpu:>7.3f} {cost.wall:>7.3f} {cost.open_windows:>6}  {phases}")
    found = ratio(early, late)
    print(f"CPU of the last {COMPARED} of {wanted.days} runs / {COMPARED} from run {EARLY} on: {found:.3f} (goal: at most {GOAL})")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
