"""`python -m tests.benchmarks.lookback`: a day with late rows, by reopening the windows that they touch and
by rebuilding the last days.

Both in one warm Spark session, alternating, day after day: ours, from the pinned source to the published
table, and what a team without us would schedule: one Spark job that groups the last seven days again and
replaces them in a Delta table. Both must publish the same.

Beside them stands a floor: DuckDB groups the rows of the day alone, which are read whatever else is done, and
writes one Parquet file. It leaves out whatever late rows change.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from slackwater.runs.lineage.catch_up import CatchUpRequest
from slackwater.runs.opened_pipeline import OpenedPipeline
from slackwater.runtime.session import session

DAY_MS = 86_400_000
START = datetime(2024, 1, 1, tzinfo=UTC)
LOOKBACK = 7
KEYS = 1_000
LATE_SHARE = 0.008
TIME = pa.timestamp("us", tz="UTC")
PIPELINE = """
from datetime import timedelta
from slackwater import DeltaSource, Pipeline, TumblingEventTimeWindows, WatermarkStrategy, agg

lookback = Pipeline(
    name="lookback",
    source=DeltaSource(
        "sources/events", event_time="event_time", arrival_time="arrival_time", order_by="row"
    ),
    watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(minutes=5)).with_interval(timedelta(minutes=1)),
    key_by="key",
    window=TumblingEventTimeWindows.of(timedelta(hours=1)),
    allowed_lateness=timedelta(days=6),
    select={"events": agg.count(), "total": agg.sum("value")},
    start="2024-01-01",
)
"""


class DayCost(NamedTuple):
    """Seconds of one day.

    Attributes:
        reopening, rebuilding, floor: by us, by Spark, and by DuckDB for the day's rows alone.
        phases: phase → seconds, of ours until the ledger was committed.
    """

    reopening: float
    rebuilding: float
    floor: float
    phases: dict[str, float]


def day_of_events(number: int, rows: int) -> pa.Table:
    """What arrives on a day: most of it within two minutes, a part one to five days late."""
    random = np.random.default_rng(number)
    arrival = number * DAY_MS + np.sort(random.integers(0, DAY_MS, rows))
    delay = random.integers(0, 120_000, rows)
    late = random.random(rows) < LATE_SHARE
    delay[late] = random.integers(DAY_MS, 5 * DAY_MS, int(late.sum()))
    event = np.maximum(arrival - delay, 0)
    first_ms = int(START.timestamp() * 1000)
    return pa.table(
        {
            "event_time": pa.array((first_ms + event) * 1000).cast(TIME),
            "arrival_time": pa.array((first_ms + arrival) * 1000).cast(TIME),
            "key": random.integers(0, KEYS, rows),
            "value": random.integers(-1000, 1000, rows),
            "row": number * rows + np.arange(rows),
            "day": pa.array(np.full(rows, number)).cast(pa.int32()),
        }
    )


def ours(warehouse: Path, pipelines: Path, number: int, engine: str | None) -> None:
    to_ms = int(START.timestamp() * 1000) + (number + 1) * DAY_MS
    opened = OpenedPipeline("lookback", str(warehouse), str(pipelines))
    opened.catch_up(CatchUpRequest("lookback", to_ms, engine=engine), lambda line: None).run()


def rebuild(spark: Any, source: str, target: str, number: int) -> None:
    """Group the days [number - 6, number] again and replace them."""
    from pyspark.sql import functions as f

    first = START + timedelta(days=max(0, number + 1 - LOOKBACK))
    rows = spark.read.format("delta").load(source).where(f.col("day") >= max(0, number + 1 - LOOKBACK))
    windows = (
        rows.where(f.col("event_time") >= f.lit(first))
        .groupBy("key", f.window("event_time", "1 hour"))
        .agg(f.count("*").alias("events"), f.sum("value").alias("total"))
        .select("key", f.col("window.start").alias("window_start"), "events", "total")
        .withColumn("window_date", f.to_date("window_start"))
    )
    replaced = f"window_date >= '{first:%Y-%m-%d}'"
    windows.write.format("delta").mode("overwrite").option("replaceWhere", replaced).partitionBy(
        "window_date"
    ).save(target)


def group_one_day(source: str, target: Path, number: int) -> None:
    """Group the rows that arrived on one day, by DuckDB, into a Parquet file."""
    with duckdb.connect() as connection:
        connection.execute(f"""
            COPY (
                SELECT key, time_bucket(INTERVAL 1 HOUR, event_time) AS window_start, count(*) AS events,
                    sum(value) AS total
                FROM read_parquet('{source}/day={number}/*.parquet') GROUP BY ALL
            ) TO '{target}' (FORMAT parquet)
        """)


def phases_of_newest_run(warehouse: Path) -> dict[str, float]:
    """Phase → seconds, from the ledger."""
    runs = DeltaTable(str(warehouse / "lookback" / "runs")).to_pyarrow_table(columns=["seq", "phase_seconds"])
    return dict(max(runs.to_pylist(), key=lambda run: run["seq"])["phase_seconds"])


def published(uri: str, newest: datetime) -> list[tuple[Any, ...]]:
    """Windows that have ended by `newest`, from either table."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("rows", DeltaTable(uri).to_pyarrow_dataset())
        query = """
            SELECT key, epoch_ms(window_start), events, total FROM rows
            WHERE window_start + INTERVAL 1 HOUR <= ? ORDER BY ALL
        """
        return connection.execute(query, [newest]).fetchall()


def timed(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.lookback", description="Reopening against rebuilding."
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="a day (default: %(default)s)")
    parser.add_argument("--days", type=int, default=12, help="at least 9 (default: %(default)s)")
    parser.add_argument("--engine", help="override the planner's choice")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(tempfile.gettempdir()),
        help="where tables go (default: %(default)s)",
    )
    chosen = parser.parse_args(arguments)
    spark = session("slackwater lookback")
    folder = Path(tempfile.mkdtemp(dir=chosen.folder))
    try:
        costs = measure(spark, folder, chosen.days, chosen.rows, chosen.engine)
    finally:
        shutil.rmtree(folder)
    print(
        f"{chosen.rows:,} rows a day, {LATE_SHARE:.1%} of them one to five days late, {KEYS:,} keys, windows "
        "of an hour"
    )
    print(f"{'day':>4}{'reopening, s':>16}{'rebuilding 7 days, s':>24}{'floor, s':>12}{'ratio':>8}")
    for number, cost in enumerate(costs):
        print(
            f"{number:>4}{cost.reopening:>16.2f}{cost.rebuilding:>24.2f}{cost.floor:>12.2f}"
            f"{cost.reopening / cost.rebuilding:>8.2f}"
        )
    steady = costs[LOOKBACK:]
    reopening = statistics.median(cost.reopening for cost in steady)
    rebuilding = statistics.median(cost.rebuilding for cost in steady)
    floor = statistics.median(cost.floor for cost in steady)
    print(
        f"medians from day {LOOKBACK} on: {reopening:.2f} s against {rebuilding:.2f} s: "
        f"{reopening / rebuilding:.2f} of the rebuild, whose floor is {floor / rebuilding:.2f}"
    )
    phases = {
        phase: statistics.median(cost.phases.get(phase, 0) for cost in steady) for phase in steady[-1].phases
    }
    until_commit = ", ".join(f"{phase} {seconds:.2f} s" for phase, seconds in phases.items())
    print(f"of that {until_commit}, and the rest after the commit")
    return 0


def measure(spark: Any, folder: Path, days: int, rows: int, engine: str | None) -> list[DayCost]:
    """What each day costs.

    Raises:
        AssertionError: they did not publish the same.
    """
    pipelines = folder / "lookback.py"
    pipelines.write_text(PIPELINE)
    source, target = str(folder / "sources" / "events"), str(folder / "rebuilt")
    costs = []
    for number in range(days):
        write_deltalake(source, day_of_events(number, rows), mode="append", partition_by=["day"])
        works = [
            lambda n=number: ours(folder, pipelines, n, engine),
            lambda n=number: rebuild(spark, source, target, n),
        ]
        if number % 2:
            other, one = timed(works[1]), timed(works[0])
        else:
            one, other = timed(works[0]), timed(works[1])
        floor = timed(partial(group_one_day, source, folder / "day.parquet", number))
        costs.append(DayCost(one, other, floor, phases_of_newest_run(folder)))
    # Windows that the watermark has not passed are parked, not published: five minutes of disorder and the
    # tick before the end.
    newest = START + timedelta(days=days) - timedelta(hours=1)
    mine, theirs = published(str(folder / "lookback" / "published"), newest), published(target, newest)
    if mine != theirs:
        raise AssertionError(f"{len(mine)} windows of ours, {len(theirs)} of the rebuild, and they differ")
    return costs


if __name__ == "__main__":
    sys.exit(main())
