"""Pipelines as they stand at a moment, built by hand: figures of runs, ledgers, attempts and sources."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Transaction, write_deltalake

from slackwater import DeltaSource, Health, Pipeline, TumblingEventTimeWindows, WatermarkStrategy, agg
from slackwater.inspection.health.findings import Subject
from slackwater.inspection.runs.run_series import RunFigures, figures_of, snapshot_bytes
from slackwater.tables.ledger.rows import Input, LedgerRow
from slackwater.tables.ledger.writer import LedgerWriter
from slackwater.tables.run_files.staging import write_staged
from slackwater.tables.schemas import Shape
from slackwater.tables.warehouse import APPLICATION, Tables, Warehouse
from tests.tables.ledger.ledger_rows import day, run_row

NAME = "flights"
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
SHAPE = Shape(
    keys=(("origin", pa.string()),), results=(("n", pa.int64()),), parts=(), source=(("origin", pa.string()),)
)
DECLARED = Pipeline(
    name=NAME,
    source=DeltaSource("sources/flights", event_time="event_time", arrival_time="arrival_time"),
    watermarks=WatermarkStrategy.bounded_out_of_orderness(HOUR),
    key_by="origin",
    window=TumblingEventTimeWindows.of(HOUR),
    allowed_lateness=timedelta(hours=4),
    select={"n": agg.count()},
    start="2013-01-01",
    schedule="@daily",
    settle=timedelta(minutes=10),
)


def declared(health: Health | None = None, **settings: Any) -> Pipeline:
    return replace(DECLARED, health=health or Health(), **settings)


def figures(number: int, **changes: Any) -> RunFigures:
    """The figures of a run of the n-th day that was committed an hour after its slice: 1000 rows, 2 of them
    late, 50 open windows, a watermark that is three hours behind the slice's end.
    """
    values = {
        "seq": number + 1,
        "run_id": f"run {number}",
        "closes": False,
        "slice_start": day(number),
        "slice_end": day(number + 1),
        "engine": "columnar",
        "verdict": "passed",
        "started_at": None,
        "committed_at": day(number + 1) + HOUR,
        "rows_read": 1000,
        "rows_accepted": 998,
        "rows_late": 2,
        "rows_quarantined": 0,
        "windows_fired": 60,
        "windows_refired": 100,
        "windows_open": 50,
        "timers_pending": 100,
        "state_bytes": 40_000,
        "watermark": day(number + 1) - 3 * HOUR,
        "phase_seconds": {},
    }
    return RunFigures(**{**values, **changes})


def subject(
    series: Sequence[RunFigures] = (),
    declaration: Pipeline | None = DECLARED,
    now: datetime | None = None,
    **parts: Any,
) -> Subject:
    """A pipeline of which these are the last runs, an hour after the newest was committed."""
    end = series[-1].slice_end if series else day(0)
    values = {"warehouse": None, "tables": None, "head": None, "runs": (), **parts}
    return Subject(
        pipeline=NAME, declaration=declaration, series=tuple(series), now=now or end + 2 * HOUR, **values
    )


class Lineage:
    """Tables of a pipeline in a warehouse, of which tests write the ledger, attempts and snapshots."""

    def __init__(self, root: Path) -> None:
        self.warehouse = Warehouse(str(root))
        self.tables: Tables = self.warehouse.tables(NAME, SHAPE)
        self.tables.ensure()

    def commit(
        self, number: int, *, branch: str = "main", at: datetime | None = None, **values: Any
    ) -> LedgerRow:
        """A run of the n-th day, committed an hour after its slice."""
        ledger = LedgerWriter(self.tables["runs"])
        head = ledger.head(branch)
        values = {"rows_read": 1000, "rows_accepted": 1000, **values}
        row = run_row(f"{branch} {number}", day_number=number, **values)
        moment = at or day(number + 1) + HOUR
        return ledger.commit(branch, None if head is None else head.seq, [row], lambda: moment)[0]

    def publish(self, seq: int) -> None:
        """What the roll-forward up to a ledger row leaves in the log of `published`."""
        published = self.tables["published"]
        published.append(published.schema.empty_table(), published.open(), Transaction(APPLICATION, seq))

    def park(self, run_id: str, table: str, rows: list[dict[str, Any]]) -> None:
        folder = self.tables[table]
        schema = pa.schema([field for field in folder.schema if field.name != "run_id"])
        part = pa.Table.from_pylist([{**dict.fromkeys(schema.names), **row} for row in rows], schema=schema)
        folder.commit_files([write_staged(folder.uri, run_id, "driver", part)])

    def source(self, *arrivals: datetime) -> Input:
        """Append rows that arrived at these times to the source; returns the input of a run that reads it."""
        uri = self.warehouse.source("sources/flights")
        times = pa.array(arrivals, pa.timestamp("us", tz="UTC"))
        rows = pa.table({"origin": ["EWR"] * len(arrivals), "event_time": times, "arrival_time": times})
        write_deltalake(uri, rows, mode="append")
        table = DeltaTable(uri)
        return Input(
            table="sources/flights",
            table_id=str(table.metadata().id),
            version=table.version(),
            files=1,
            rows=len(arrivals),
            bytes=1,
        )

    def subject(self, now: datetime, declaration: Pipeline | None = DECLARED) -> Subject:
        ledger = self.tables.ledger
        head = ledger.head()
        runs = tuple(ledger.live_runs(head)) if head is not None else ()
        return Subject(
            pipeline=NAME,
            declaration=declaration,
            warehouse=self.warehouse,
            tables=self.tables,
            head=head,
            runs=runs,
            series=figures_of(runs, snapshot_bytes(self.tables)),
            now=now,
        )


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
