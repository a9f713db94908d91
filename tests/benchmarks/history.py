"""Does a run cost more the longer its lineage is? Daily runs of equal input, each published, and what each of
them took.

`python -m tests.benchmarks.history [--days 60]`, in this process and without Spark, so that only what we do
ourselves is measured. A young lineage and an old one take turns, so that whatever else the machine does falls
on both. Each day's rows come to the source just before its run: one file a day, as a loader leaves them. The
runs' clock moves on a day each time. With `--chain` all days are there before, and one command runs them, a
slice a day.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import chdir
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from slackwater.engine.operator import OperatorEngine
from slackwater.engine.transport.in_process import InProcess
from slackwater.pipelines import DeltaSource, Pipeline, agg
from slackwater.pipelines.registry import config_hash
from slackwater.runs.lineage.catch_up import CatchUp, CatchUpRequest
from slackwater.runs.staging.run import Runner
from slackwater.runs.staging.shapes import checked_sources
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.warehouse import Warehouse
from slackwater.windowing import TumblingEventTimeWindows, WatermarkStrategy

START = datetime(2024, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
TIME = pa.timestamp("us", tz="UTC")
# Spark checkpoints the log of a source every ten commits; delta-rs, which writes it here, every hundred.
SPARKS_DEFAULT = {"delta.checkpointInterval": "10"}
GOAL = 1.2
# The first of the early runs that are compared with the last ones, counted from 1, and how many of each.
EARLY = 5
COMPARED = 10

Look = tuple[float, float]


@dataclass(frozen=True)
class Cost:
    """What run number `run` took: CPU and wall seconds, and the seconds of its phases; `open_windows` when it
    ended.
    """

    run: int
    cpu: float
    wall: float
    phases: dict[str, float]
    open_windows: int


def pipeline() -> Pipeline:
    """Hourly windows of 20 keys; rows come up to five hours late, and some too late."""
    return Pipeline(
        name="daily",
        source=DeltaSource(
            "sources/daily", event_time="event_time", arrival_time="arrival_time", order_by="row"
        ),
        watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(hours=1)).with_interval(
            timedelta(minutes=5)
        ),
        key_by="key",
        window=TumblingEventTimeWindows.of(timedelta(hours=1)),
        allowed_lateness=timedelta(hours=4),
        select={"n": agg.count(), "average": agg.mean("x"), "greatest": agg.max("x")},
        start=START,
    )


def rows_of(day: int, rows: int) -> pa.Table:
    """A day's rows: the same but for the date on every day."""
    random = np.random.default_rng(7)
    arrival = np.sort(random.integers(0, DAY // timedelta(milliseconds=1), rows))
    delay = np.where(
        random.random(rows) < 0.05, random.integers(0, 5 * 3_600_000, rows), random.integers(0, 600_000, rows)
    )
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

    def run(self) -> Cost:
        """Load the next day, run and publish it."""
        [row], looks = self._run_days(1)
        return _cost(self.days, row, looks[0], looks[-1])

    def chain(self, days: int) -> list[Cost]:
        """Load so many days and run them in one command. A slice counts from when the one before it is staged
        until it is itself: the first one does not."""
        second = self.days + 2
        rows, looks = self._run_days(days)
        return [
            _cost(number, row, *turn)
            for number, (row, turn) in enumerate(zip(rows[1:], pairwise(looks[1:-1]), strict=True), second)
        ]

    def _run_days(self, days: int) -> tuple[list[LedgerRow], list[Look]]:
        """The rows committed; CPU and wall seconds before the first slice, when each was staged, and behind
        the last one.
        """
        for day in range(self.days, self.days + days):
            write_deltalake(
                self.root / "sources" / "daily",
                rows_of(day, self.rows),
                mode="append",
                configuration=SPARKS_DEFAULT,
            )
        self.days += days
        began, now = time.perf_counter(), START + self.days * DAY + timedelta(hours=1)
        to_ms = pipeline().start_ms + self.days * (DAY // timedelta(milliseconds=1))
        looks = [_look()]
        rows = CatchUp(
            CatchUpRequest("daily", to_ms, everything=True),
            lambda: self._runner(lambda: now + timedelta(seconds=time.perf_counter() - began)),
            lines=lambda line: looks.append(_look()),
        ).run()
        return rows, [*looks, _look()]

    def _runner(self, clock: Callable[[], datetime]) -> Runner:
        warehouse, declared = Warehouse(str(self.root)), pipeline()
        _, shape = checked_sources(warehouse, declared)
        tables = warehouse.tables(declared.name, shape).ensure()
        return Runner(
            warehouse,
            declared,
            tables.shape(shape),
            tables,
            config_hash(declared),
            "code",
            OperatorEngine(),
            InProcess(),
            clock=clock,
        )


def _cost(number: int, row: LedgerRow, before: Look, after: Look) -> Cost:
    return Cost(number, after[0] - before[0], after[1] - before[1], row.phase_seconds, row.windows_open)


def _look() -> Look:
    return time.process_time(), time.perf_counter()


def measure(root: Path, days: int, rows: int) -> tuple[list[Cost], list[Cost]]:
    """What COMPARED runs took from day EARLY on, and what the last ones of `days` did, taken in turns."""
    young, old = Lineage(root / "young", rows), Lineage(root / "old", rows)
    for _ in range(EARLY - 1):
        young.run()
    for _ in range(days - COMPARED):
        old.run()
    turns = [(young.run(), old.run()) for _ in range(COMPARED)]
    return [early for early, _ in turns], [late for _, late in turns]


def measure_chain(root: Path, days: int, rows: int) -> tuple[list[Cost], list[Cost]]:
    """As `measure`, where one command runs all days."""
    costs = Lineage(root, rows).chain(days)
    return costs[EARLY - 2 :][:COMPARED], costs[-COMPARED:]


def ratio(early: Sequence[Cost], late: Sequence[Cost]) -> float:
    """CPU of the late runs against that of as many early ones. Both are a whole cycle of checkpoints."""
    return sum(cost.cpu for cost in late) / sum(cost.cpu for cost in early)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--rows", type=int, default=5_000, help="rows a day")
    parser.add_argument("--output", choices=["table", "json"], default="table")
    parser.add_argument("--chain", action="store_true", help="all days in one command")
    wanted = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        early, late = (measure_chain if wanted.chain else measure)(Path(folder), wanted.days, wanted.rows)
    if wanted.output == "json":
        print(
            json.dumps(
                {"ratio": ratio(early, late), "goal": GOAL, "runs": [vars(cost) for cost in (*early, *late)]}
            )
        )
        return 0
    print(f"{'run':>4} {'cpu s':>7} {'wall s':>7} {'open':>6}  phases")
    for cost in (*early, *late):
        phases = "  ".join(f"{name} {took:.3f}" for name, took in cost.phases.items())
        print(f"{cost.run:>4} {cost.cpu:>7.3f} {cost.wall:>7.3f} {cost.open_windows:>6}  {phases}")
    found = ratio(early, late)
    print(
        f"CPU of the last {COMPARED} of {wanted.days} runs / {COMPARED} from run {EARLY} on: {found:.3f} "
        f"(goal: at most {GOAL})"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
