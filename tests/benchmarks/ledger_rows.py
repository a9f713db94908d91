"""Writes a warehouse with a ledger of many rows and of many live spans, in seconds instead of months.

The last runs are real. All rows before them are written straight into the ledger's table, in its format: runs
of a quarter of an hour each, and then restatements of single slices, four rows each, as `slackwater backfill`
leaves them. Each restatement that is published splits a span of main's live runs in two:

    seq   row                  live on main
    1-8   runs on main         1-8
    9     fork behind run 1
    10    run of slice 2
    11    publish              1-1 10-10 3-8
    12    drop
    13    fork behind run 3
    14    run of slice 4
    15    publish              1-1 10-10 3-3 14-14 5-8
    16    drop

The runs that are not real have read nothing and emitted nothing, so of the other tables only the ledger's own
facts matter: which runs there are, which are live, and what each says of its slice.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Transaction

from slackwater.engine.transport.in_process import InProcess
from slackwater.runs.lineage.catch_up import CatchUp, CatchUpRequest
from slackwater.runs.opened_pipeline import OpenedPipeline
from slackwater.tables.delta.folder import Folder
from slackwater.tables.delta.parts import Parts
from slackwater.tables.delta.upkeep import TableUpkeep
from slackwater.tables.delta.written_files import WrittenFile, write_file
from slackwater.tables.ledger.rows import MAIN, LedgerRow, RowKind
from slackwater.tables.ledger.spans import Span, Spans
from slackwater.tables.schemas import COUNTS
from slackwater.tables.warehouse import APPLICATION, Tables, Warehouse
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs

NAME = "quarters"
SLICE = timedelta(minutes=15)
FIRST_REAL_SLICE = datetime(2026, 1, 1, tzinfo=UTC)
REAL_RUNS = 4
TIME = pa.timestamp("us", tz="UTC")
PIPELINE = """
from datetime import timedelta
from slackwater import DeltaSource, Pipeline, TumblingEventTimeWindows, WatermarkStrategy, agg

quarters = Pipeline(
    name="quarters",
    source=DeltaSource("sources/quarters", event_time="at", arrival_time="arrival", order_by="number"),
    watermarks=WatermarkStrategy.bounded_out_of_orderness(timedelta(minutes=1)).with_interval(
        timedelta(minutes=1)
    ),
    key_by="sensor",
    window=TumblingEventTimeWindows.of(timedelta(minutes=10)),
    allowed_lateness=timedelta(minutes=10),
    select={"n": agg.count()},
    slice=timedelta(minutes=15),
    start="2000-01-01",
)
"""
SOURCE = pa.schema([("at", TIME), ("arrival", TIME), ("number", pa.int64()), ("sensor", pa.string())])
# The rows of a restatement, in their order.
_KINDS = (RowKind.FORK, RowKind.RUN, RowKind.PUBLISH, RowKind.DROP)
_FORK, _RUN, _PUBLISH, _DROP = range(4)
_ROWS_OF_A_RESTATEMENT = len(_KINDS)
_BOUND = -60_000_001  # of the pipeline's watermarks
# A file has at most so many rows, and about so many spans.
_ROWS_AT_ONCE = 40_000
_SPANS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class LongLedger:
    """A warehouse with the pipeline `quarters`.

    Attributes:
        root: its folder.
        rows: rows of the ledger.
        restatements: how many slices were restated, each alone: main has 2 · restatements + 2 live spans.
        single_rows: so many of the newest rows have a file of their own each, as commits leave them; the
            others are in large files, as upkeep leaves them.
    """

    root: Path
    rows: int = 100_000
    restatements: int = 1_500
    single_rows: int = 100

    @property
    def pipelines_file(self) -> Path:
        """The file that declares the pipeline."""
        return self.root / "pipelines.py"

    @property
    def base_runs(self) -> int:
        """How many runs there are before the first restatement; a run each slice."""
        return self.rows - REAL_RUNS - _ROWS_OF_A_RESTATEMENT * self.restatements

    @property
    def start(self) -> datetime:
        """Where the lineage begins."""
        return FIRST_REAL_SLICE - self.base_runs * SLICE

    @property
    def end(self) -> datetime:
        """Where the lineage ends."""
        return FIRST_REAL_SLICE + REAL_RUNS * SLICE

    @property
    def live_spans(self) -> int:
        """The spans of main's live runs."""
        return 2 * self.restatements + 2 if self.restatements else 1

    def write(self) -> Tables:
        """Write everything, and return the tables."""
        assert self.base_runs >= 2 * self.restatements + 2
        self.root.mkdir(parents=True, exist_ok=True)
        self.pipelines_file.write_text(PIPELINE)
        self._write_source()
        self.run(REAL_RUNS, start=FIRST_REAL_SLICE)
        tables = Warehouse.at(str(self.root)).stored_tables(NAME)
        _EarlierRows(self, tables).write()
        return Warehouse.at(str(self.root)).stored_tables(NAME)

    def run(self, slices: int, start: datetime | None = None) -> LedgerRow:
        """Run the slices behind the lineage's end, really; returns the last row."""
        opened = OpenedPipeline(NAME, str(self.root), str(self.pipelines_file))
        origin = self.end if start is None else start
        began, now = time.perf_counter(), origin + slices * SLICE + timedelta(minutes=20)
        runner = replace(
            opened.runner(transport=InProcess),
            clock=lambda: now + timedelta(seconds=time.perf_counter() - began),
        )
        to_ms = int((origin + slices * SLICE).timestamp()) * 1000
        start_ms = None if start is None else int(start.timestamp()) * 1000
        request = CatchUpRequest(NAME, to_ms, start_ms=start_ms, everything=True)
        return CatchUp(request, lambda: runner, lambda line: None).run()[-1]

    def _write_source(self) -> None:
        """Rows of three sensors for the real runs and for ten slices behind them, one a minute each, and some
        of half an hour ago."""
        minutes = np.arange((REAL_RUNS + 10) * (SLICE // timedelta(minutes=1)))
        arrivals = np.repeat(minutes, 3) * 60_000_000 + int(FIRST_REAL_SLICE.timestamp()) * 1_000_000
        delays = np.where(np.arange(len(arrivals)) % 20 == 7, 30, 0) * 60_000_000
        numbers = np.arange(len(arrivals))
        rows = pa.table(
            {
                "at": pa.array(arrivals - delays).cast(TIME),
                "arrival": pa.array(arrivals).cast(TIME),
                "number": numbers,
                "sensor": [f"sensor{number % 3}" for number in numbers],
            }
        ).cast(SOURCE)
        folder = Folder(str(self.root / "sources" / NAME), SOURCE)
        folder.append(rows)


@dataclass
class _EarlierRows:
    """Puts the rows of the ledger before the real ones."""

    ledger: LongLedger
    tables: Tables

    def write(self) -> None:
        """Replace the ledger's files: the rows before the real ones, and these with their new seqs. The other
        tables get the new seqs, too.
        """
        runs = self.tables["runs"]
        table = runs.open()
        replaced_files = runs.files(table=table)
        runs.commit_files(self._files(), replaced_files, table)
        self._move_seqs("corrections", "seq")
        self._move_seqs("published", "run_seq")
        TableUpkeep(runs).checkpoint()

    @cached_property
    def _moved_by(self) -> int:
        """How many rows come before the real ones."""
        return self.ledger.rows - REAL_RUNS

    def _files(self) -> list[WrittenFile]:
        """The ledger's files: one for each table of rows, but one for each of the newest rows."""
        folder, files = self.tables["runs"], list[WrittenFile]()
        first_single_row = self.ledger.rows - self.ledger.single_rows + 1
        for rows in self._tables_of_rows():
            seqs = rows.column("seq").to_numpy()
            place = int(np.searchsorted(seqs, first_single_row))
            with Parts(folder) as parts:
                parts.add(rows.slice(0, place))
                files += parts.close()
            for number in range(place, len(seqs)):
                path = f"part-{seqs[number]:020}.parquet"
                files.append(write_file(folder.uri, path, rows.slice(number, 1), partition={}))
        return files

    def _tables_of_rows(self) -> Iterator[pa.Table]:
        """All rows in the order of their seqs, in tables of about `_SPANS_AT_ONCE` spans or `_ROWS_AT_ONCE`
        rows.
        """
        seqs = np.arange(1, self._moved_by + 1)
        sizes = self._columns.spans_of(seqs) + _SPANS_AT_ONCE // _ROWS_AT_ONCE
        batches = np.cumsum(sizes) // _SPANS_AT_ONCE
        for first, last in zip(*_bounds(batches), strict=True):
            rows = self._columns.rows(seqs[first:last])
            yield rows if last < len(seqs) else pa.concat_tables([rows, self._real_rows()])

    @cached_property
    def _columns(self) -> "_RowColumns":
        template = self.tables.ledger.row(1)
        return _RowColumns(self.ledger, template, self.tables["runs"].schema)

    def _real_rows(self) -> pa.Table:
        """The real rows as they are behind the others."""
        before = self._columns.live_at_the_end()
        rows = [
            replace(
                row,
                seq=row.seq + self._moved_by,
                parent_seq=self._columns.newest_of_main if row.seq == 1 else row.seq - 1 + self._moved_by,
                live=(*before, Span(1 + self._moved_by, row.seq + self._moved_by)),
            )
            for row in self.tables.ledger.rows()
        ]
        assert [row.seq for row in rows] == [self._moved_by + number for number in range(1, REAL_RUNS + 1)]
        return pa.Table.from_pylist([row.values() for row in rows], schema=self.tables["runs"].schema)

    def _move_seqs(self, name: str, column: str) -> None:
        """Give the rows of a table the new seqs, and say in its log that it is as of the last one."""
        folder = self.tables[name]
        table = folder.open()
        rows, replaced_files = folder.read_at(table), folder.files(table=table)
        place = rows.schema.get_field_index(column)
        seqs = pc.add(rows.column(column), self._moved_by)
        with Parts(folder) as parts:
            parts.add(rows.set_column(place, rows.schema.field(place), seqs))
            files = parts.close()
        folder.commit_files(files, replaced_files, table, Transaction(APPLICATION, self.ledger.rows))


def _bounds(batches: Longs) -> tuple[list[int], list[int]]:
    """(first, beyond the last place) of each run of equal numbers."""
    changes = np.flatnonzero(np.diff(batches)) + 1
    return [0, *changes.tolist()], [*changes.tolist(), len(batches)]


@dataclass
class _RowColumns:
    """The columns of the rows before the real ones.

    Attributes:
        ledger: what is written.
        template: a real run; what the others have of it, but for counts and files.
        schema: of the ledger.
    """

    ledger: LongLedger
    template: LedgerRow
    schema: pa.Schema

    @cached_property
    def _restated_seqs(self) -> Longs:
        """int64[restatements]: the runs of which the slices were run again, ascending."""
        count = self.ledger.restatements
        return 2 + np.arange(count) * ((self.ledger.base_runs - 2) // max(count, 1))

    @cached_property
    def _bounds(self) -> tuple[Longs, Longs]:
        """(first, last seq) of each span of main's live runs once all is restated. The first 2k + 1 are those
        of the fork of the restatement k, the first 2k + 2 those of its run; when it is published, one more
        follows, up to the last run of the base.
        """
        base, count = self.ledger.base_runs, self.ledger.restatements
        restating_seqs = base + _ROWS_OF_A_RESTATEMENT * np.arange(count) + 2
        firsts, lasts = np.ones((2, 2 * count + 1), np.int64)
        firsts[1::2] = lasts[1::2] = restating_seqs
        firsts[2::2] = self._restated_seqs + 1
        lasts[0::2] = np.append(self._restated_seqs - 1, base)
        return firsts, lasts

    @property
    def newest_of_main(self) -> int:
        """The seq of main's newest row."""
        return self.ledger.rows - REAL_RUNS - (1 if self.ledger.restatements else 0)

    def live_at_the_end(self) -> Spans:
        """Main's live spans before the real runs."""
        return tuple(Span(*bounds) for bounds in zip(*(side.tolist() for side in self._bounds), strict=True))

    def spans_of(self, seqs: Longs) -> Longs:
        """int64[n]: how many live spans each row has."""
        numbers, phases = self._restatements_of(seqs)
        return np.where(numbers < 0, 1, np.where(phases == _DROP, 0, 2 * numbers + 1 + phases))

    def rows(self, seqs: Longs) -> pa.Table:
        """The rows of `seqs`, ascending."""
        base = self.ledger.base_runs
        numbers, phases = self._restatements_of(seqs)
        is_base = numbers < 0
        restated_seqs = self._restated_seqs[numbers] if self.ledger.restatements else seqs
        # The run of the base that has the row's slice.
        slices = np.where(is_base, seqs, restated_seqs)
        columns = {
            "seq": seqs,
            "run_id": self._texts(seqs, slices, phases, is_base, _run_id),
            "kind": pa.array(_KINDS).take(pa.array(np.where(is_base, _RUN, phases))),
            "branch": self._texts(seqs, slices, phases, is_base, _branch),
            "parent_seq": pa.array(
                np.where(is_base, seqs - 1, self._parents(seqs, slices, phases)), mask=seqs == 1
            ),
            "live": self._live(seqs),
            "slice_start": self._times(np.where(is_base | (phases != _FORK), slices - 1, 0), phases),
            "slice_end": self._times(np.where(is_base | (phases != _FORK), slices, slices - 1), phases),
            "watermark_in": self._times(slices - 1, phases, _BOUND),
            "watermark_out": self._times(slices, phases, _BOUND),
            "started_at": self._times(np.where(is_base, seqs, base), None, seqs * 1000),
            "committed_at": self._times(np.where(is_base, seqs, base), None, seqs * 1000 + 500),
            "files": pa.array([{}] * len(seqs), self.schema.field("files").type),
        }
        values = self.template.values() | dict.fromkeys(COUNTS, 0)
        for field in self.schema:
            if field.name not in columns:
                columns[field.name] = pa.array([values[field.name]] * len(seqs), field.type)
        return pa.table(
            [pa.array(columns[field.name]).cast(field.type) for field in self.schema], self.schema
        )

    def _restatements_of(self, seqs: Longs) -> tuple[Longs, Longs]:
        """(the number of the restatement of each row, -1 for runs of the base; which of its rows it is)."""
        places = seqs - self.ledger.base_runs - 1
        return (
            np.where(places < 0, -1, places // _ROWS_OF_A_RESTATEMENT),
            np.where(places < 0, _RUN, places % _ROWS_OF_A_RESTATEMENT),
        )

    def _parents(self, seqs: Longs, slices: Longs, phases: Longs) -> Longs:
        """The parents of rows of restatements: of a fork the run before the slice, of a publication the one
        before it, or the last run of the base.
        """
        published = np.maximum(seqs - _ROWS_OF_A_RESTATEMENT, self.ledger.base_runs)
        parents: Longs = np.select(
            [phases == _FORK, phases == _RUN, phases == _PUBLISH], [slices - 1, seqs - 1, published], seqs - 2
        )
        return parents

    def _live(self, seqs: Longs) -> pa.Array:
        numbers, phases = self._restatements_of(seqs)
        counts = self.spans_of(seqs)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        firsts, lasts = self._bounds
        # The place of each span among those of its row.
        places = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
        first_seqs, last_seqs = firsts[places], lasts[places]
        ends = offsets[1:][counts > 0] - 1
        last_of_row = np.where(numbers < 0, seqs, np.where(phases == _PUBLISH, self.ledger.base_runs, -1))
        last_of_row = last_of_row[counts > 0]
        last_seqs[ends[last_of_row >= 0]] = last_of_row[last_of_row >= 0]
        kind = self.schema.field("live").type
        spans = pa.StructArray.from_arrays(
            [pa.array(first_seqs), pa.array(last_seqs)], fields=list(kind.value_type)
        )
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), spans, type=kind)

    def _times(self, slices: Longs, phases: Longs | None, later_us: Longs | int = 0) -> pa.Array:
        """The start of the lineage, so many slices and microseconds later; null for the rows that end
        branches.
        """
        start_us = int(self.ledger.start.timestamp()) * 1_000_000
        times = start_us + slices * (SLICE // timedelta(microseconds=1)) + later_us
        return pa.array(times, mask=None if phases is None else phases == _DROP).cast(TIME)

    def _texts(
        self, seqs: Longs, slices: Longs, phases: Longs, is_base: Booleans, text: Callable[..., str]
    ) -> pa.Array:
        rows = zip(seqs.tolist(), slices.tolist(), phases.tolist(), is_base.tolist(), strict=True)
        return pa.array([text(self.ledger.start, *row) for row in rows], pa.string())


def _run_id(start: datetime, seq: int, slice_number: int, phase: int, is_base: bool) -> str:
    if phase == _RUN:
        return f"{start + (slice_number - 1) * SLICE:%Y%m%dT%H%M%S}-{seq:016x}"
    return f"{_KINDS[phase]}-{seq:016x}"


def _branch(start: datetime, seq: int, slice_number: int, phase: int, is_base: bool) -> str:
    return MAIN if is_base or phase == _PUBLISH else f"restate-{slice_number}"
