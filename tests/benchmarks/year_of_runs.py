"""Writes a warehouse as a year of daily runs leaves it, in a minute instead of an hour: millions of open
windows, millions of late rows.

The first days are real runs. Every day is like the one before it, so what the last of them has left is the
template of all others: its rows, moved on by days, go through the writers that runs use. There is a file a
run, or one for each range of key groups, with checksums, statistics and ledger rows that add up. A test
compares it with what real runs leave.

Each day every shop has an order in time, and one that is too late for its window; a tenth of the shops have
another that comes two days late and changes what was published.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Transaction

from slackwater.engine.transport.in_process import InProcess
from slackwater.runs.lineage.catch_up import CatchUp, CatchUpRequest
from slackwater.runs.opened_pipeline import OpenedPipeline
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.parts import Parts
from slackwater.tables.delta.stored_files import Within
from slackwater.tables.delta.written_files import WrittenFile, write_file
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.run_files.staging import declaration_of, pack, write_staged
from slackwater.tables.schemas import SNAPSHOT_TABLES
from slackwater.tables.warehouse import APPLICATION, Tables, Warehouse

NAME = "orders"
START = datetime(2024, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
TIME = pa.timestamp("us", tz="UTC")
LANES = np.array(["air", "rail", "road", "sea"])
PIPELINE = """
from datetime import timedelta
from slackwater import DeltaSource, Pipeline, TumblingEventTimeWindows, WatermarkStrategy, agg

orders = Pipeline(
    name="orders",
    source=DeltaSource(
        "sources/orders",
        event_time="event_time",
        arrival_time="arrival_time",
        source_partition="lane",
        order_by="number",
    ),
    watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(hours=1)).with_interval(timedelta(minutes=5)),
    key_by="shop",
    window=TumblingEventTimeWindows.of(timedelta(days=1)),
    allowed_lateness=timedelta(days={lateness}),
    select={{"orders": agg.count(), "price": agg.sum("price")}},
    start="2024-01-01",
)
"""
SOURCE = pa.schema(
    [
        ("event_time", TIME),
        ("arrival_time", TIME),
        ("number", pa.int64()),
        ("shop", pa.string()),
        ("lane", pa.string()),
        ("price", pa.int64()),
    ]
)
# From the fourth day on every day is like the one before it.
REAL_DAYS = 4
_GROUPS = 128  # of the pipeline, which does not say otherwise
_DAYS_OF_A_COMMIT = 30


@dataclass(frozen=True)
class YearOfRuns:
    """A warehouse with the pipeline `orders`.

    Attributes:
        root: its folder.
        shops: the number of keys.
        days: the number of runs.
        lateness: how many days a window waits for late orders.
        ranges: the number of files of each table of a snapshot.
        snapshots: how many of the newest snapshots are kept; of those before it one in thirty.
    """

    root: Path
    shops: int = 27_500
    days: int = 365
    lateness: int = 181
    ranges: int = 8
    snapshots: int = 30

    @property
    def pipelines_file(self) -> Path:
        """The file that declares the pipeline."""
        return self.root / "pipelines.py"

    @property
    def key(self) -> str:
        """A shop whose windows fire again."""
        return _shop(self.shops // 20 * 10)

    @property
    def open_windows(self) -> int:
        """How many windows are open after the last run."""
        return self.shops * min(self.days, self.lateness + 1)

    @property
    def late_rows(self) -> int:
        """How many rows were too late for their windows."""
        return self.shops * self.days

    def write(self) -> Tables:
        """Write everything, and return the tables."""
        self.write_source()
        for day in range(REAL_DAYS):
            template = self.run(day)
        tables = Warehouse.at(str(self.root)).stored_tables(NAME)
        _CopiedDays(self, tables, template).write()
        return tables

    def write_source(self) -> None:
        """Write the declaration and the source: a file for each day, and one for the day behind the last
        run.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        self.pipelines_file.write_text(PIPELINE.format(lateness=self.lateness))
        folder = Folder(str(self.root / "sources" / NAME), SOURCE)
        folder.ensure()
        orders = _Orders(self.shops, self.lateness)
        folder.commit_files(
            write_file(folder.uri, f"day-{day:03}.parquet", orders.of(day), partition={})
            for day in range(self.days + 1)
        )

    def run(self, day: int) -> LedgerRow:
        """Run a day, really; its clock stands 20 minutes behind the day."""
        opened = OpenedPipeline(NAME, str(self.root), str(self.pipelines_file))
        began, now = time.perf_counter(), START + (day + 1) * DAY + timedelta(minutes=20)
        runner = replace(
            opened.runner(transport=InProcess),
            clock=lambda: now + timedelta(seconds=time.perf_counter() - began),
        )
        to_ms = runner.pipeline.start_ms + (day + 1) * DAY_MS
        return CatchUp(CatchUpRequest(NAME, to_ms), lambda: runner, lambda line: None).run()[-1]


def _same(moment: datetime) -> datetime:
    return moment


def _shop(number: int) -> str:
    return f"shop{number:05}"


class _Orders:
    """The source: the same on every day but for the date, and that the first two days have no orders of two
    days before.
    """

    def __init__(self, shops: int, lateness: int) -> None:
        random = np.random.default_rng(7)
        late_ms = (lateness + 3) * DAY_MS
        every, tenth = np.arange(shops), np.arange(0, shops, 10)
        event = random.integers(0, 23 * HOUR_MS, shops)
        self._shops = np.concatenate([every, every, tenth])
        self._event = np.concatenate([event, event - late_ms, event[tenth] - 2 * DAY_MS])
        arrivals = [
            event + random.integers(0, HOUR_MS // 6, shops),
            random.integers(6 * HOUR_MS, DAY_MS, shops),
            random.integers(6 * HOUR_MS, DAY_MS, len(tenth)),
        ]
        self._arrival = np.concatenate(arrivals)
        self._price = random.integers(1, 500, len(self._shops))
        self._names = pa.array([_shop(number) for number in range(shops)])

    def of(self, day: int) -> pa.Table:
        """The orders that arrive on a day, in order of arrival."""
        rows = np.argsort(self._arrival, kind="stable")
        if day < 2:
            rows = rows[rows < 2 * len(self._names)]
        shops, midnight = self._shops[rows], int(START.timestamp()) * 1000 + day * DAY_MS
        return pa.table(
            {
                "event_time": pa.array((self._event[rows] + midnight) * 1000).cast(TIME),
                "arrival_time": pa.array((self._arrival[rows] + midnight) * 1000).cast(TIME),
                "number": pa.array(rows + day * len(self._shops)),
                "shop": self._names.take(pa.array(shops)),
                "lane": pa.array(LANES[shops % len(LANES)]),
                "price": pa.array(self._price[rows]),
            }
        ).cast(SOURCE)


@dataclass
class _CopiedDays:
    """Writes the days behind the real ones.

    Attributes:
        year: what is written.
        tables: the tables of the real days.
        template: the ledger row of the last real day.
    """

    year: YearOfRuns
    tables: Tables
    template: LedgerRow

    def write(self) -> None:
        """Write the files of every day, and commit them some days at a time."""
        declaration = declaration_of(self.tables.attempts, self.template.run_id) or {}
        days, row = range(REAL_DAYS, self.year.days), self.template
        for first in days[::_DAYS_OF_A_COMMIT]:
            files: dict[str, list[WrittenFile]] = {}
            for day in days[first - REAL_DAYS :][:_DAYS_OF_A_COMMIT]:
                files_of_day = dict(self._staged_files(day)) | dict(self._snapshot_files(day))
                parent, row = row, self._ledger_row(day, files_of_day)
                files_of_day |= dict(self._other_files(day, pack(row, parent, declaration)))
                for table, written in files_of_day.items():
                    files.setdefault(table, []).extend(written)
                committed_at = row.slice_end + timedelta(minutes=21)
                [row] = self.tables.ledger_writer.commit(
                    "main", parent.seq, [row], partial(_same, committed_at)
                )
            for table, written in files.items():
                is_rolled_forward = table == "corrections"
                transaction = Transaction(APPLICATION, row.seq) if is_rolled_forward else None
                self.tables[table].commit_files(written, transaction=transaction)
        self._publish(row.seq)

    def _run_id(self, day: int) -> str:
        return f"{START + day * DAY:%Y%m%dT%H%M%S}-{day:016x}"

    def _ledger_row(self, day: int, files: dict[str, list[WrittenFile]]) -> LedgerRow:
        """The row of a day, before it is committed."""
        more, shops, open_days = (day - REAL_DAYS + 1) * DAY, self.year.shops, self.year.lateness + 1
        template = self.template
        return replace(
            template,
            seq=0,
            run_id=self._run_id(day),
            live=(),
            parent_seq=None,
            committed_at=None,
            slice_start=template.slice_start + more,
            slice_end=template.slice_end + more,
            watermark_in=template.watermark_in + more,
            watermark_out=template.watermark_out + more,
            windows_open=shops * min(day + 1, open_days),
            windows_cleaned=shops if day >= open_days else 0,
            timers_pending=shops * (1 + min(day + 1, open_days)),
            files={
                **dict.fromkeys(template.files, ()),
                **{name: tuple(file.path for file in written) for name, written in files.items()},
            },
            started_at=template.started_at + more,
            phase_seconds={
                name: round(seconds * (1 + day % 7 / 10), 6)
                for name, seconds in template.phase_seconds.items()
            },
        )

    # Rows that a run stages

    def _staged_files(self, day: int) -> Iterator[tuple[str, list[WrittenFile]]]:
        """Panes and late rows: a file each."""
        for table in ("panes", "late_events"):
            rows = self._moved_on(self._rows_of_template[table], day)
            uri = self.tables[table].uri
            yield table, [write_staged(uri, self._run_id(day), "driver", rows)]

    @cached_property
    def _rows_of_template(self) -> dict[str, pa.Table]:
        """The rows of the last real day in the tables that have its run id as a column, without it."""
        run_id = self.template.run_id
        return {
            table: self.tables[table]
            .read(where=pc.field("run_id") == run_id, within=Within.only("run_id", run_id))
            .drop_columns(["run_id"])
            for table in ("panes", "late_events", "corrections", "validations", "attempts")
        }

    def _moved_on(self, rows: pa.Table, day: int, from_day: int = REAL_DAYS - 1) -> pa.Table:
        """Rows of the day `from_day` as those of another day."""
        more = pa.scalar((day - from_day) * DAY, pa.duration("us"))
        for number, field in enumerate(rows.schema):
            column = rows.column(number)
            if pa.types.is_timestamp(field.type):
                rows = rows.set_column(number, field, pc.add(column, more))
            elif field.name == "windows":
                [windows] = column.combine_chunks().chunks if column.num_chunks > 1 else column.chunks
                bounds = [pc.add(part, more) for part in windows.flatten().flatten()]
                spans = pa.StructArray.from_arrays(bounds, fields=list(field.type.value_type))
                rows = rows.set_column(
                    number, field, pa.ListArray.from_arrays(windows.offsets, spans, type=field.type)
                )
            elif field.name == "number":
                a_day = 2 * self.year.shops + -(-self.year.shops // 10)
                rows = rows.set_column(number, field, pc.add(column, (day - from_day) * a_day))
        return rows

    # The state after a run

    @cached_property
    def _snapshot_of_template(self) -> dict[str, pa.Table]:
        run_id = self.template.run_id
        return {
            table: self.tables[table]
            .read(where=pc.field("run_id") == run_id, within=Within.only("run_id", run_id))
            .drop_columns(["run_id"])
            for table in SNAPSHOT_TABLES
        }

    def _snapshot_files(self, day: int) -> Iterator[tuple[str, list[WrittenFile]]]:
        """The files of a snapshot, if it is kept. Of the last two days they are written; those of others are
        further names of the last one's.
        """
        last = self.year.days - 1
        if day <= last - self.year.snapshots and day % 30:
            return
        progress = self._moved_on(self._snapshot_of_template["source_progress"], day)
        uri, run_id = self.tables["source_progress"].uri, self._run_id(day)
        yield "source_progress", [write_staged(uri, run_id, "driver", progress)]
        for table in ("window_state", "timers"):
            if day == last:
                yield table, self._last_snapshot[table]
            elif day == last - 1:
                yield table, self._write_snapshot(table, day)
            else:
                yield table, [self._under_other_name(table, file, day) for file in self._last_snapshot[table]]

    @cached_property
    def _last_snapshot(self) -> dict[str, list[WrittenFile]]:
        return {
            table: self._write_snapshot(table, self.year.days - 1) for table in ("window_state", "timers")
        }

    def _write_snapshot(self, table: str, day: int) -> list[WrittenFile]:
        rows = self._windows_of(day) if table == "window_state" else self._timers_of(day)
        numbers = np.asarray(rows.column("key_group")).astype(np.int64) * self.year.ranges // _GROUPS
        return [
            write_staged(
                self.tables[table].uri,
                self._run_id(day),
                f"range-{number}",
                rows.filter(pa.array(numbers == number)),
            )
            for number in np.unique(numbers).tolist()
        ]

    def _under_other_name(self, table: str, file: WrittenFile, day: int) -> WrittenFile:
        folder, run_id = Path(self.tables[table].uri.removeprefix("file://")), self._run_id(day)
        path = f"run_id={run_id}/{file.path.partition('/')[2]}"
        (folder / path).parent.mkdir(exist_ok=True)
        os.link(folder / file.path, folder / path)
        return replace(file, path=path, partition={"run_id": run_id})

    def _windows_of(self, day: int) -> pa.Table:
        """The open windows after a day, oldest first: those of today and of the day before are young; all
        others look like that of two days before.
        """
        windows, newest = self._snapshot_of_template["window_state"], START + (REAL_DAYS - 1) * DAY
        parts = []
        for age in reversed(range(min(day + 1, self.year.lateness + 1))):
            age_in_template = min(age, 2)
            is_of_age = pc.equal(
                windows.column("window_start"), pa.scalar(newest - age_in_template * DAY, TIME)
            )
            parts.append(
                self._moved_on(windows.filter(is_of_age), day - age, from_day=REAL_DAYS - 1 - age_in_template)
            )
        return pa.concat_tables(parts)

    def _timers_of(self, day: int) -> pa.Table:
        """The timers of the open windows: those that fire windows, then those that clean them up."""
        timers, newest = self._snapshot_of_template["timers"], START + (REAL_DAYS - 1) * DAY
        is_of_today = pc.equal(timers.column("window_start"), pa.scalar(newest, TIME))
        is_cleanup = pc.equal(timers.column("purpose"), "cleanup")
        of_today = timers.filter(is_of_today)
        firing = timers.filter(pc.and_(is_of_today, pc.invert(is_cleanup)))
        cleaning = timers.filter(pc.and_(is_of_today, is_cleanup))
        assert firing.num_rows + cleaning.num_rows == of_today.num_rows
        ages = reversed(range(min(day + 1, self.year.lateness + 1)))
        return pa.concat_tables(
            [self._moved_on(firing, day), *(self._moved_on(cleaning, day - age) for age in ages)]
        )

    # Rows that stand in one file a run beside those

    def _other_files(self, day: int, ledger_row: str) -> Iterator[tuple[str, list[WrittenFile]]]:
        """Corrections, checks and attempts."""
        run_id, seq = self._run_id(day), day + 1
        for table in ("corrections", "validations", "attempts"):
            folder, rows = self.tables[table], self._moved_on(self._rows_of_template[table], day)
            constants: dict[str, Any] = {"run_id": run_id, "seq": seq}
            if table == "attempts":
                constants = {"run_id": run_id, "parent_seq": seq - 1}
                texts = [
                    None if text is None else ledger_row for text in rows.column("ledger_row").to_pylist()
                ]
                place = rows.schema.get_field_index("ledger_row")
                rows = rows.set_column(place, rows.schema.field(place), pa.array(texts, pa.string()))
            columns = [
                pa.repeat(pa.scalar(constants[field.name], field.type), rows.num_rows)
                if field.name in constants
                else rows.column(field.name)
                for field in folder.schema
            ]
            with Parts(folder) as parts:
                parts.add(pa.table(columns, schema=folder.schema))
                yield table, parts.close()

    def _publish(self, seq: int) -> None:
        """Write the published rows of every day: those of two days before the last have the orders that came
        two days late, those of the day before it have none yet.
        """
        folder = self.tables["published"]
        with_late, fresh = (
            folder.read(
                where=pc.field("window_date") == day.date(), within=Within.only("window_date", day.date())
            )
            for day in (START + (REAL_DAYS - 3) * DAY, START + (REAL_DAYS - 2) * DAY)
        )
        last = self.year.days - 1
        files: list[WrittenFile] = []
        for day in range(REAL_DAYS - 2, last):
            template, from_day = (fresh, REAL_DAYS - 2) if day == last - 1 else (with_late, REAL_DAYS - 3)
            rows = self._moved_on(template, day, from_day)
            more = day - from_day
            seqs = pc.add(rows.column("run_seq"), more)
            rows = rows.set_column(rows.schema.get_field_index("run_seq"), rows.schema.field("run_seq"), seqs)
            dates = pa.repeat(pa.scalar((START + day * DAY).date()), rows.num_rows)
            rows = rows.set_column(
                rows.schema.get_field_index("window_date"), rows.schema.field("window_date"), dates
            )
            with Parts(folder) as parts:
                parts.add(rows)
                files += parts.close()
        table = folder.open()
        replaced = folder.files(
            Within("window_date", (START + (REAL_DAYS - 2) * DAY).date(), None), table=table
        )
        folder.commit_files(files, replaced, table, Transaction(APPLICATION, seq))
