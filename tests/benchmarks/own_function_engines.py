"""`python -m tests.benchmarks.own_function_engines [--rows 200000]`: a function of one's own with state,
called from columns and in the operator engine, with few keys of many rows and with many keys of few.

All of it in one process. Each repetition begins with another engine; both must come to the same hashes.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from slackwater.engine.transport.in_process import InProcess
from slackwater.runs.lineage.catch_up import CatchUp, CatchUpRequest
from slackwater.runs.opened_pipeline import OpenedPipeline
from slackwater.tables.delta.folder import Folder

ENGINES = ("columnar", "operator")
KEYS = (100, 50_000)
HOUR_US, START_US = 3_600_000_000, 1_767_225_600_000_000  # 2026-01-01
TIME = pa.timestamp("us", tz="UTC")
PIPELINES = """
from datetime import timedelta
from slackwater import (
    DeltaSource, Pipeline, ProcessWindowFunction, TumblingEventTimeWindows, ValueStateDescriptor,
    WatermarkStrategy,
)

class Running(ProcessWindowFunction):
    total = ValueStateDescriptor("total", sql_type="bigint")

    def process(self, key, context, elements):
        total = context.global_state().get_state(self.total)
        total.update((total.value() or 0) + sum(element.amount for element in elements))
        yield total.value(),

running = Pipeline(
    name="running",
    source=DeltaSource("sources/running", event_time="at", arrival_time="arrival", order_by="number"),
    watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(minutes=5)).with_interval(
        timedelta(minutes=5)
    ),
    key_by="account",
    window=TumblingEventTimeWindows.of(timedelta(hours=1)),
    process=Running(),
    output="total bigint",
    start="2026-01-01",
)
"""


def write_source(warehouse: Path, rows: int, keys: int) -> None:
    """Rows of a day, of `keys` accounts, up to four minutes out of order."""
    generator = np.random.default_rng(keys)
    arrivals = START_US + np.sort(generator.integers(0, 24 * HOUR_US, rows))
    table = pa.table(
        {
            "at": pa.array(arrivals - generator.integers(0, HOUR_US // 15, rows)).cast(TIME),
            "arrival": pa.array(arrivals).cast(TIME),
            "number": np.arange(rows),
            "account": generator.integers(0, keys, rows),
            "amount": generator.integers(1, 100, rows),
        }
    )
    Folder(str(warehouse / "sources" / "running"), table.schema).append(table)


def run(rows: int, keys: int, engine: str) -> tuple[float, tuple[str | None, str | None]]:
    """(CPU seconds, state hash and output hash) of one run, whose tasks are not shared out."""
    with tempfile.TemporaryDirectory() as folder:
        pipelines, warehouse = Path(folder, "pipelines.py"), Path(folder, "warehouse")
        pipelines.write_text(PIPELINES)
        write_source(warehouse, rows, keys)
        runner = OpenedPipeline("running", str(warehouse), str(pipelines)).runner(engine, transport=InProcess)
        request = CatchUpRequest("running", (START_US + 24 * HOUR_US) // 1000, engine=engine)
        start = time.process_time()
        [row] = CatchUp(request, lambda: runner, lambda line: None).run()
        assert row.engine == engine
        return time.process_time() - start, (row.state_hash, row.output_hash)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.own_function_engines", description=__doc__
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    for keys in KEYS:
        seconds: dict[str, list[float]] = {engine: [] for engine in ENGINES}
        hashes = set()
        for repetition in range(options.repetitions):
            for engine in ENGINES[:: 1 if repetition % 2 else -1]:
                cpu_s, hashes_of_run = run(options.rows, keys, engine)
                seconds[engine].append(cpu_s)
                hashes.add(hashes_of_run)
        assert len(hashes) == 1, hashes
        medians = ", ".join(f"{engine} {median(of_engine):.1f}" for engine, of_engine in seconds.items())
        print(f"{options.rows:,} rows of {keys:,} keys: CPU s {medians}; equal hashes")


if __name__ == "__main__":
    main()
