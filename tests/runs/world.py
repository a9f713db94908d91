"""A source that changes under a pipeline, and a lineage over it that is run and restated, in one process, on
real Delta tables.

Not a test: the part that the tests of restatement share. Times are hours after the start of 2013.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from slackwater.engine.operator import OperatorEngine
from slackwater.engine.replaying.replay import Engine
from slackwater.engine.transport.in_process import InProcess
from slackwater.pipelines import DeltaSource, ParquetSource, Pipeline, agg
from slackwater.runs.lineage import catch_up
from slackwater.runs.restating import backfill
from slackwater.runs.staging.run import Runner
from slackwater.runs.staging.shapes import checked_sources
from slackwater.tables.delta.folder import Folder
from slackwater.tables.ledger.reader import LedgerReader
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.schemas import partitioned_by
from slackwater.tables.warehouse import Tables, Warehouse
from slackwater.windowing import TumblingEventTimeWindows, WatermarkStrategy
from slackwater.windowing.times import to_ms

START = datetime(2013, 1, 1, tzinfo=UTC)
TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema([("e", TIME), ("a", TIME), ("row", pa.int64()), ("k", pa.string()), ("x", pa.int64())])
HOUR = timedelta(hours=1)
# Slices of a day, windows of two hours that stay open for three more: what a day leaves open is gone after
# the next.
DAILY = Pipeline(
    name="daily",
    source=DeltaSource("events", event_time="e", arrival_time="a", order_by="row"),
    watermarks=WatermarkStrategy.bounded_out_of_orderness(HOUR).with_interval(timedelta(minutes=10)),
    key_by="k",
    window=TumblingEventTimeWindows.of(2 * HOUR),
    allowed_lateness=3 * HOUR,
    select={"n": agg.count(), "total": agg.sum("x")},
    start="2013-01-01",
    schedule=None,
)


# The same over a folder of Parquet files.
FOLDER = replace(DAILY, source=ParquetSource("landing", event_time="e", arrival_time="a", order_by="row"))
# The same over several sources: of the second all columns are called differently, the third has an order
# column of its own.
UNION = replace(
    DAILY,
    source=[
        DAILY.sources[0],
        DeltaSource(
            "more",
            event_time="happened",
            arrival_time="seen",
            order_by="number",
            rename={"number": "row", "who": "k", "value": "x"},
        ),
        DeltaSource("others", event_time="e", arrival_time="a", order_by="x"),
    ],
)


@dataclass(frozen=True)
class Event:
    """One row of the source: hours of event and arrival (None: it has none), a number, a key, a value."""

    event: float
    arrival: float | None
    row: int
    key: str = "a"
    x: int = 1

    def values(self) -> dict[str, Any]:
        arrival = None if self.arrival is None else moment(self.arrival)
        return {"e": moment(self.event), "a": arrival, "row": self.row, "k": self.key, "x": self.x}


def moment(hours: float) -> datetime:
    return START + timedelta(hours=hours)


def ms(hours: float) -> int:
    return to_ms(moment(hours))


def every_hour(first: float, last: float, key: str = "a", x: int = 1) -> list[Event]:
    """An event each hour in [first, last), which arrives half an hour later."""
    numbers = range(int(last - first))
    return [Event(first + number, first + number + 0.5, int(first + number), key, x) for number in numbers]


@dataclass
class World:
    """A warehouse with one source and one pipeline.

    Attributes:
        code: stands for the code hash of the pipeline's file, and for the hash of its declarations.
        engine: what runs the windows.
        said: what commands have said, newest last.
    """

    folder: Path
    pipeline: Pipeline = DAILY
    code: str = "code"
    engine: Engine = field(default_factory=OperatorEngine)
    said: list[str] = field(default_factory=list)

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(str(self.folder))

    @property
    def source(self) -> str:
        return self.place()

    def place(self, source: int = 0) -> str:
        """Where one of the pipeline's sources stands."""
        return self.warehouse.source(self.pipeline.sources[source].table)

    # --- the sources

    def append(self, events: Sequence[Event], source: int = 0) -> None:
        """One commit with one file."""
        if self.is_folder(source):
            self.write_file(self.rows(events, source), source)
        else:
            write_deltalake(self.place(source), self.rows(events, source), mode="append")

    def rewrite(self, first: float, last: float, events: Sequence[Event], source: int = 0) -> None:
        """Put `events` in the place of what arrived in [first, last), in one commit."""
        arrival = self.pipeline.sources[source].arrival_time
        if self.is_folder(source):
            self.rewrite_files(arrival, first, last, source)
            self.write_file(self.rows(events, source), source)
            return
        low, high = (f"'{moment(hours).isoformat()}'" for hours in (first, last))
        predicate = f"{arrival} >= {low} AND {arrival} < {high}"
        write_deltalake(self.place(source), self.rows(events, source), mode="overwrite", predicate=predicate)

    def write_again(self, source: int = 0) -> None:
        """Put all rows of a Delta source into one file, as a change of the data."""
        if not self.is_folder(source):
            rows = DeltaTable(self.place(source)).to_pyarrow_table()
            write_deltalake(self.place(source), rows, mode="overwrite")

    def is_folder(self, source: int) -> bool:
        return isinstance(self.pipeline.sources[source], ParquetSource)

    def write_file(self, rows: pa.Table, source: int) -> None:
        """Add a file to a folder."""
        folder = Path(self.place(source))
        folder.mkdir(exist_ok=True, parents=True)
        pq.write_table(rows, folder / f"{len(list(folder.iterdir())):05d}-{uuid.uuid4().hex[:6]}.parquet")

    def rewrite_files(self, arrival: str, first: float, last: float, source: int) -> None:
        """Take the rows that arrived in [first, last) out of the files of a folder; files without any other
        rows are removed.
        """
        for path in sorted(Path(self.place(source)).iterdir()):
            rows = pq.read_table(path)
            goes = pc.and_(
                pc.greater_equal(rows.column(arrival), pa.scalar(moment(first), TIME)),
                pc.less(rows.column(arrival), pa.scalar(moment(last), TIME)),
            )
            kept = rows.filter(pc.invert(goes))
            if not kept.num_rows and rows.num_rows:
                path.unlink()
            elif kept.num_rows < rows.num_rows:
                pq.write_table(kept, path)

    def rows(self, events: Sequence[Event], source: int = 0) -> pa.Table:
        """Rows as the source has them, under its own names."""
        declared = self.pipeline.sources[source]
        names = {"e": declared.event_time, "a": declared.arrival_time}
        names |= {common: own for own, common in declared.rename.items()}
        table = pa.Table.from_pylist([event.values() for event in events], schema=SCHEMA)
        return table.rename_columns([names.get(name, name) for name in table.column_names])

    # --- commands

    def runner(self, **changes: Any) -> Runner:
        _, shape = checked_sources(self.warehouse, self.pipeline)
        tables = self.warehouse.tables(self.pipeline.name, shape).ensure()
        runner = Runner(
            self.warehouse,
            self.pipeline,
            tables.shape(shape),
            tables,
            self.code,
            self.code,
            self.engine,
            InProcess(),
            2,
        )
        return replace(runner, **changes)

    def run(self, to: float, slice_: timedelta | None = None, **request: Any) -> list[LedgerRow]:
        """`slackwater run --to`, cut every `slice_` (default: a day)."""
        runner = self.runner()
        if slice_ is not None:
            runner = replace(runner, pipeline=replace(self.pipeline, slice=slice_))
        request_ = catch_up.CatchUpRequest(self.pipeline.name, ms(to), everything=True, **request)
        return catch_up.CatchUp(request_, lambda: runner, self.said.append).run()

    def backfill(
        self, first: float, last: float, runner: Runner | None = None, **request: Any
    ) -> LedgerRow | None:
        """`slackwater backfill --from --to`; only what it says is kept in `said`."""
        self.said.clear()
        asked = backfill.BackfillRequest(self.pipeline.name, ms(first), ms(last), **request)
        return backfill.Backfill(asked, lambda: runner or self.runner(), self.said.append).run()

    def declare(self, **settings: Any) -> None:
        """Change settings of the pipeline."""
        self.pipeline = replace(self.pipeline, **settings)
        self.code += "+"

    # --- what is there

    @property
    def tables(self) -> Tables:
        return self.warehouse.stored_tables(self.pipeline.name)

    def table(self, name: str) -> Folder:
        """One table as it is stored; `tables` opens them all."""
        folder = Folder.existing_at(f"{self.folder}/{self.pipeline.name}/{name}", partitioned_by(name))
        assert folder is not None, f"there is no table {name}"
        return folder

    @property
    def ledger(self) -> LedgerReader:
        return LedgerReader(self.table("runs"))

    @property
    def main(self) -> LedgerRow:
        head = self.ledger.head()
        assert head is not None
        return head

    def live(self, table: str, head: LedgerRow | None = None) -> list[dict[str, Any]]:
        """Rows of a staged table of main's live runs, without what tells the runs apart."""
        run_ids = [row.run_id for row in self.ledger.live_runs(head or self.main)]
        rows = self.table(table).read(where=pc.field("run_id").isin(pa.array(run_ids, pa.string())))
        hidden = {"run_id", "source_version", "source_file"}
        return rows.select([name for name in rows.column_names if name not in hidden]).to_pylist()

    def published(self) -> list[dict[str, Any]]:
        """`published` without what depends on the cuts."""
        rows = self.table("published").read()
        return rows.select(
            [name for name in rows.column_names if name not in ("revision", "run_seq")]
        ).to_pylist()

    def slices(self, rows: Sequence[LedgerRow]) -> list[tuple[float, float]]:
        """The slices of runs, in hours."""
        return [
            ((row.slice_start - START) / HOUR, (row.slice_end - START) / HOUR)
            for row in rows
            if row.slice_start and row.slice_end
        ]

    def left(self) -> dict[str, Any]:
        """All that must be as if the source had been run once."""
        owner = self.ledger.snapshot_owner(self.main)
        assert owner is not None
        return {
            "published": multiset(self.published()),
            "panes": multiset(self.live("panes")),
            "late": multiset(self.live("late_events")),
            "quarantine": multiset(self.live("quarantine")),
            "state": owner.state_hash,
        }

    def left_by_column(self) -> dict[str, Any]:
        """As `left`, whatever the order of columns is, without columns that are null in a row, and with the
        rows of the snapshot.
        """
        owner = self.ledger.snapshot_owner(self.main)
        assert owner is not None
        parked = {
            name: self.table(name).read(where=pc.field("run_id") == owner.run_id).drop_columns(["run_id"])
            for name in ("window_state", "timers", "source_progress")
        }
        return {
            "published": multiset(_without_nulls(self.published())),
            "panes": multiset(_without_nulls(self.live("panes"))),
            "late": multiset(_without_nulls(self.live("late_events"))),
            **{name: multiset(_without_nulls(rows.to_pylist())) for name, rows in parked.items()},
        }


def _without_nulls(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def multiset(rows: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


def perfect(world: World, folder: Path) -> dict[str, Any]:
    """What one run over the source as it is now leaves, from main's beginning to its end."""
    return perfect_world(world, folder).left()


def perfect_world(world: World, folder: Path) -> World:
    """A world in which one run has read the source as it is now, from main's beginning to its end."""
    live = world.ledger.live_runs(world.main)
    (first, _), (_, last) = world.slices(live)[0], world.slices(live)[-1]
    sources = [
        replace(source, table=world.place(number), name=source.title if number or source.name else None)
        for number, source in enumerate(world.pipeline.sources)
    ]
    other = World(folder, replace(world.pipeline, source=sources), world.code)
    other.run(last, slice_=timedelta(hours=last - first))
    return other


def version(world: World) -> int:
    """The newest version of the source."""
    return DeltaTable(world.source).version()
