"""`python -m tests.benchmarks.snapshots --windows N`: a snapshot of N windows and N timers, written and read,
on one core.

From columns, as an engine that keeps its state in columns does it, and from objects, as the window operator
does it. CPU seconds of the process, all threads together; medians of alternating repetitions.
"""

from __future__ import annotations

import argparse
import operator
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.windowing import OrderMode, ReduceFunction, TumblingEventTimeWindows
from slackwater.windowing.key_types import LONG
from slackwater.windowing.runtime.window_operator_builder import WindowOperatorBuilder
from slackwater.windowing.snapshot import (
    ContentHash,
    ContentsColumns,
    SnapshotCodec,
    SnapshotLayout,
    SnapshotTables,
    read_tables,
    write_tables,
)
from slackwater.windowing.snapshot.times import TIME

GOAL = 3_000_000  # rows a second and core, written and read, from columns
LENGTH = 60_000
FIRST = 1_700_000_000_000
GROUPS = 128


class Sums(ContentsColumns):
    """Contents of a window: the sum and the count, as `select` would declare them."""

    columns = (("n__sum", pa.int64()), ("n__count", pa.int64()))
    is_commutative = True

    def arrays(self, contents: Sequence[Any]) -> list[pa.Array]:
        rows = [(None, None) if item is None else item for item in contents]
        return [pa.array(values, pa.int64()) for values in zip(*rows, strict=True)]

    def texts(self, contents: Sequence[Any]) -> list[str | None]:
        return [None] * len(contents)

    def values(self, rows: pa.Table) -> list[Any]:
        return list(zip(*(rows.column(name).to_pylist() for name, _ in self.columns), strict=True))


class Add(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return tuple(map(operator.add, value1, value2))


def codec() -> SnapshotCodec:
    config = WindowOperatorBuilder(LONG, TumblingEventTimeWindows.of(timedelta(milliseconds=LENGTH))).reduce(
        Add()
    )
    return SnapshotCodec(SnapshotLayout.for_windows(config, contents=Sums(), order_mode=OrderMode.ROCKSDB))


def columns(of: SnapshotCodec, count: int) -> SnapshotTables:
    """Rows as an engine leaves them: sorted by key group, key and window; five windows a key."""
    numbers = np.arange(count)
    keys = numbers // 5
    groups = (keys * GROUPS // max(int(keys[-1]) + 1, 1)).astype(np.int32)
    random = np.random.default_rng(7)
    start = FIRST + numbers % 5 * LENGTH
    arrived = start + random.integers(0, LENGTH, count)
    schemas = of.schemas
    key_name = schemas["timers"].names[1]
    time_of = {
        "window_start": start,
        "window_end": start + LENGTH,
        "next_firing": start + LENGTH - 1,
        "cleanup_time": start + LENGTH - 1,
        "first_arrival": arrived,
        "last_arrival": arrived + random.integers(0, 5_000, count),
    }
    elements = random.integers(1, 40, count)
    known: dict[str, Any] = {
        "key_group": groups,
        key_name: keys,
        "elements": elements,
        "firings": np.zeros(count, np.int64),
        "n__sum": random.integers(-(10**9), 10**9, count),
        "n__count": elements,
        **{name: pa.array(values * 1000).cast(TIME) for name, values in time_of.items()},
    }
    windows = {
        name: known.get(name, pa.nulls(count, schemas["window_state"].field(name).type))
        for name in schemas["window_state"].names
    }
    timers = {
        "key_group": groups,
        key_name: keys,
        "window_start": known["window_start"],
        "window_end": known["window_end"],
        "service": pa.repeat(pa.scalar("window-timers"), count),
        "domain": pa.repeat(pa.scalar("event"), count),
        "time": known["cleanup_time"],
        "purpose": pa.repeat(pa.scalar("fire+cleanup"), count),
    }
    return SnapshotTables(
        pa.table(windows, schema=schemas["window_state"]),
        schemas["keyed_state"].empty_table(),
        pa.table(timers, schema=schemas["timers"]),
    )


def steps(of: SnapshotCodec, tables: SnapshotTables, objects: bool) -> dict[str, Callable[[], Any]]:
    """What is measured, by name. Each takes and makes the whole snapshot."""
    files = write_tables(tables)

    def add_to_hash() -> str:
        total = ContentHash()
        for name, rows in tables._asdict().items():
            total.add(name, rows, without=())
        return str(total)

    measured: dict[str, Callable[[], Any]] = {
        "columns → files": lambda: write_tables(tables),
        "files → columns": lambda: read_tables(files),
        "content hash of columns": add_to_hash,
        "plain pyarrow, columns → files": lambda: [_plain(rows) for rows in tables],
    }
    if objects:
        snapshot = of.from_tables(tables)
        measured |= {
            "columns → objects": lambda: of.from_tables(tables),
            "objects → columns": lambda: of.to_tables(snapshot),
        }
    return measured


def _plain(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    return sink.getvalue()


def check(of: SnapshotCodec, tables: SnapshotTables) -> None:
    """What was written is what is read, as columns and through objects."""
    read, _ = read_tables(write_tables(tables))
    assert read == tables, "the files hold other rows"
    again = of.to_tables(of.from_tables(tables))
    assert again == tables, "the objects are other rows"


def measure(measured: dict[str, Callable[[], Any]], repetitions: int) -> dict[str, float]:
    """Median of the CPU seconds of each step."""
    seconds: dict[str, list[float]] = {name: [] for name in measured}
    for _ in range(repetitions):
        for name, step in measured.items():
            started = time.process_time()
            step()
            seconds[name].append(time.process_time() - started)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.snapshots", description="Snapshots written and read."
    )
    parser.add_argument(
        "--windows", type=int, default=1_000_000, help="windows, and timers (default: %(default)s)"
    )
    parser.add_argument("--repetitions", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--no-objects", action="store_true", help="leave out the steps through objects")
    chosen = parser.parse_args(arguments)
    of = codec()
    check(of, columns(of, 5_000))
    tables = columns(of, chosen.windows)
    rows = sum(table.num_rows for table in tables)
    seconds = measure(steps(of, tables, not chosen.no_objects), chosen.repetitions)
    size = sum(file.size for file in write_tables(tables)) / 2**20
    print(f"{chosen.windows:,} windows and as many timers: {rows:,} rows, {size:,.1f} MiB of files")
    for name, taken in seconds.items():
        print(f"{name:34}{taken:8.2f} s{rows / max(taken, 1e-9) / 1e6:10.2f} M rows a second and core")
    both = seconds["columns → files"] + seconds["files → columns"]
    print(
        f"{'written and read, from columns':34}{both:8.2f} s{rows / max(both, 1e-9) / 1e6:10.2f} M rows a "
        "second and core"
    )
    return 0 if rows / max(both, 1e-9) >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
