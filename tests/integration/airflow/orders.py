"""Orders of two shops, pipelines over them, and what their tables and announcements must be.

The model knows the rows alone: which windows are over, and what went into each.
"""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from deltalake import write_deltalake

from tests.integration.airflow.conftest import Airflow
from tests.integration.stored import EPOCH, StoredTables

START = datetime(2024, 1, 1, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY = (timedelta(**{unit: 1}) for unit in ("seconds", "minutes", "hours", "days"))
TIME = pa.timestamp("us", tz="UTC")
ORDERS_FILE = """
from dataclasses import replace
from datetime import timedelta
from slackwater import DeltaSource, Pipeline, TumblingEventTimeWindows, WatermarkStrategy, agg, expect

outage = Pipeline(
    name="outage",
    source=DeltaSource("sources/orders", event_time="at", arrival_time="seen"),
    watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(0)), key_by="shop",
    window=TumblingEventTimeWindows.of(timedelta(hours=6)), allowed_lateness=timedelta(days=2),
    select={"orders": agg.count(), "total": agg.sum("amount")},
    start="2024-01-01", schedule=None, settle=timedelta(0),
)
by_hand = replace(outage, name="by_hand")
at_once = replace(outage, name="at_once")
backlog = replace(outage, name="backlog", max_catch_up=2)
approval = replace(
    outage, name="approval", approve_warnings=True,
    expect=[expect.between("total", max=50, severity="warn")],
)
"""
# A second file, as a folder has them. Its schedule is short, so that intervals pass while the story is told.
MINUTES_FILE = """
from datetime import timedelta
from slackwater import DeltaSource, Pipeline, TumblingEventTimeWindows, WatermarkStrategy, agg

each_minute = Pipeline(
    name="each_minute",
    source=DeltaSource("sources/minutes", event_time="at", arrival_time="seen"),
    watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(0)), key_by="shop",
    window=TumblingEventTimeWindows.of(timedelta(minutes=1)),
    select={{"orders": agg.count(), "total": agg.sum("amount")}},
    start="{start}", schedule="* * * * *", slice=timedelta(minutes=1), settle=timedelta(0),
)
"""


class Order(NamedTuple):
    """A row of a source."""

    shop: str
    at: datetime
    seen: datetime
    amount: int


# Five days: an order an hour, and from the second day on every six hours one that is twenty hours late.
ORDERS = [Order("a", START + hour * HOUR, START + hour * HOUR, hour) for hour in range(120)] + [
    Order("b", START + (hour - 20) * HOUR, START + hour * HOUR, 1) for hour in range(25, 120, 6)
]


class OrdersPipeline(NamedTuple):
    """A pipeline over orders: its tables and its rows, and how long its windows are."""

    stored: StoredTables
    rows: Sequence[Order] = ORDERS
    window: timedelta = 6 * HOUR

    @property
    def end(self) -> datetime:
        """Up to where its ledger has run: from the first row on, each slice once and one after the other."""
        start = self.rows[0].seen
        if not Path(self.stored.uri("runs")).exists():
            return start
        slices = [(_time(row["slice_start"]), _time(row["slice_end"])) for row in self.stored.ledger()]
        assert all(before[1] == after[0] for before, after in itertools.pairwise([(None, start), *slices])), (
            slices
        )
        return slices[-1][1] if slices else start

    @property
    def published(self) -> dict[tuple[str, datetime], tuple[int, int]]:
        """(shop, start of a window) → (orders, total)."""
        rows = self.stored.rows("published")
        windows = {(row["shop"], _time(row["window_start"])): (row["orders"], row["total"]) for row in rows}
        assert len(windows) == len(rows), "a window stands twice in the published table"
        return windows

    def windows_of_rows(self, to: datetime) -> dict[tuple[str, datetime], tuple[int, int]]:
        """The same, of every row that has arrived before `to`: a window is published once an element is past
        its end, and no row comes too late for its own.
        """
        windows: dict[tuple[str, datetime], tuple[int, int]] = defaultdict(lambda: (0, 0))
        rows_so_far = [row for row in self.rows if row.seen < to]
        for row in rows_so_far:
            window = row.shop, row.at - (row.at - EPOCH) % self.window
            orders, total = windows[window]
            windows[window] = orders + 1, total + row.amount
        newest = max(row.at for row in rows_so_far)
        return {window: result for window, result in windows.items() if window[1] + self.window <= newest}

    def changed_days(self) -> dict[int, set[str]]:
        """Seq of a run → the days whose windows it has changed."""
        days = defaultdict(set)
        for row in self.stored.rows("corrections"):
            days[row["seq"]].add(_time(row["window_start"]).date().isoformat())
        return days


def _time(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def load(folder: Path, source: str, rows: Sequence[Order]) -> None:
    schema = pa.schema([("shop", pa.string()), ("at", TIME), ("seen", TIME), ("amount", pa.int64())])
    table = pa.Table.from_pylist([row._asdict() for row in rows], schema)
    write_deltalake(folder / "warehouse" / "sources" / source, table)


def announcements(airflow: Airflow, pipeline: str) -> dict[int, tuple[set[str], list[str]]]:
    """The seq of each announcement → the days that it names, each once, and the runs."""
    (asset,) = airflow.ask(f"assets?name_pattern={pipeline}.published")["assets"]
    events = airflow.ask(f"assets/events?asset_id={asset['id']}&limit=100")["asset_events"]
    by_seq: dict[int, tuple[set[str], list[str]]] = {}
    for event in events:
        days, _ = by_seq.setdefault(event["extra"]["seq"], (set(), event["extra"]["run_ids"]))
        assert event["partition_key"] not in days, "a day was announced twice"
        days.add(event["partition_key"])
    return by_seq


def assert_once(airflow: Airflow, pipeline: OrdersPipeline, to: datetime) -> None:
    """Up to `to` every slice was run once, published is what the rows say, and each run that changed a day
    was announced once, with its days.
    """
    assert pipeline.end == to
    assert pipeline.published == pipeline.windows_of_rows(to)
    changed_days = pipeline.changed_days()
    seqs = {row["run_id"]: row["seq"] for row in pipeline.stored.ledger()}
    by_seq = announcements(airflow, pipeline.stored.pipeline)
    assert sorted(seqs[run] for _, runs in by_seq.values() for run in runs) == sorted(changed_days)
    for days, runs in by_seq.values():
        assert days == set().union(*(changed_days[seqs[run]] for run in runs))
