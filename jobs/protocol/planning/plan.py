"""What a run or a restatement would read, touch and take, before it is started. Reads only, and needs no
Spark.

Rows are counted by reading the arrival, time and key columns of the files that would be read; windows by
`touched`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines import planner as engines
from slackwater.jobs.engines.replaying.spilling import state_memory_mb
from slackwater.jobs.engines.replaying.task_memory import estimate_mb, ranges_for, rows_in, rows_sent
from slackwater.jobs.engines.rows.judge import in_milliseconds
from slackwater.jobs.engines.rows.progress import Progress
from slackwater.jobs.engines.source.batches import read
from slackwater.jobs.engines.source.coverage import ReadRange
from slackwater.jobs.engines.source.files import InputFile
from slackwater.jobs.engines.source.pinned_source import PinnedSource, SourceRewritten
from slackwater.jobs.engines.source.pinning import pin
from slackwater.jobs.engines.transport.small_slices import is_small
from slackwater.jobs.pipelines import Pipeline, registry
from slackwater.jobs.protocol.planning import touched
from slackwater.jobs.protocol.planning.calibration import Calibration
from slackwater.jobs.protocol.planning.prediction import Prediction, from_calibration, predict
from slackwater.jobs.protocol.restating import restatement
from slackwater.jobs.protocol.restating.restatement import Restatement, slices_of
from slackwater.jobs.protocol.staging.closed_lineage import refuse_closed
from slackwater.jobs.protocol.staging.collected_mark import (
    LiveMarks,
    collects,
    mark_of,
    newest_last_instants,
    told,
)
from slackwater.jobs.protocol.staging.declarations import Declarations
from slackwater.jobs.protocol.staging.shapes import checked_source
from slackwater.jobs.protocol.staging.slice_replay import ways_on
from slackwater.jobs.protocol.staging.slices import Lineage, Slice, choose, end_of, iso, start_of
from slackwater.jobs.protocol.staging.stragglers import (
    Stragglers,
    find,
    input_of,
    other_table_of,
    restated_since,
    stretches_of,
    without_erased,
)
from slackwater.jobs.runtime.settings import tasks_here
from slackwater.jobs.tables.errors import NoRuns
from slackwater.jobs.tables.ledger.rows import LedgerRow
from slackwater.jobs.tables.run_files.snapshots import is_kept, snapshot_files
from slackwater.jobs.tables.run_files.staging import read_staged
from slackwater.jobs.tables.warehouse import Tables, Warehouse
from slackwater.windowing.times import duration_ms

# What is read of a source may be this many times what is used before a plan warns.
WASTE = 2
_RECORDED = 200


@dataclass(frozen=True)
class SlicePlan:
    """One slice: the files that it reads, the rows that they hold, and the rows of them that it uses (None:
    not known without Spark).
    """

    slice: Slice
    files: int
    bytes: int
    rows_in_files: int | None
    rows: int | None


@dataclass(frozen=True)
class Plan:
    """What a command would do.

    Attributes:
        pipeline: its name.
        restates: whether the range was run already.
        continues: seq of the run whose snapshot the first slice continues; None at the start of a lineage.
        slices: what would be replayed; of a restatement at least, for it may have to go on until it meets
            main again.
        at_most: how many slices a restatement replays if it never does.
        engine, why: what would run it, and the reason.
        parked, parked_touched: windows of that snapshot, and those of them that rows of the range touch.
        published_touched: windows of `published` that rows of the range touch.
        stragglers: rows that appeared after the slice of their arrival was run, by slice; None: not known.
        prediction: None where nothing is recorded or calibrated.
        memory_mb, memory_basis: of the largest task, and what that rests on.
        said: what the reader should know.
    """

    pipeline: str
    restates: bool
    continues: int | None
    slices: tuple[SlicePlan, ...]
    at_most: int
    engine: str
    why: str
    parked: int
    parked_touched: int
    published_touched: int
    stragglers: tuple[Stragglers, ...] | None
    prediction: Prediction | None
    memory_mb: int
    memory_basis: str
    said: tuple[str, ...] = ()

    @property
    def seconds(self) -> float | None:
        """Predicted for the whole command; None where nothing is recorded or rows are not known."""
        rows = [item.rows for item in self.slices]
        if self.prediction is None or None in rows:
            return None
        return self.prediction.of_command(count for count in rows if count is not None)


def plan(
    name: str,
    from_ms: int | None,
    to_ms: int | None,
    warehouse: str | None,
    pipelines: str | None,
    slice_ms: int | None = None,
    calibrate: Callable[[Pipeline, Warehouse, int, int], Calibration] | None = None,
) -> Plan:
    """The plan for [from, to): of a restatement where main has run it already, else of a run. From defaults
    to where main ends, to to the end of the next slice, or of main for a restatement. `calibrate` measures
    rates in that range instead of those that are known.

    Raises:
        UsageError: the range can be neither run nor restated; the source does not suit; what was declared
            otherwise can't be carried on.
    """
    where = Warehouse.at(warehouse)
    pipeline = registry.load(pipelines)[name]
    source, shape = checked_source(where, pipeline)
    try:
        tables = where.stored(name)
    except NoRuns:
        return _Planner(where, pipeline, source, None, [], calibrate=calibrate).run(from_ms, to_ms)
    where.tables(name, shape).check()
    head = tables.ledger.head()
    source = without_erased(source, pipeline.source.table, tables.ledger)
    planner = _Planner(
        where,
        pipeline,
        source,
        tables,
        [] if head is None else tables.ledger.live_runs(head),
        head,
        calibrate,
    )
    if head is not None and from_ms is not None and planner.live and from_ms < end_of(planner.live[-1]):
        return planner.restatement(from_ms, end_of(planner.live[-1]) if to_ms is None else to_ms, slice_ms)
    return planner.run(from_ms, to_ms)


@dataclass
class _Planner:
    """A pipeline, its source as it stands, and main's live runs."""

    warehouse: Warehouse
    pipeline: Pipeline
    source: PinnedSource
    tables: Tables | None
    live: list[LedgerRow]
    head: LedgerRow | None = None
    calibrate: Callable[[Pipeline, Warehouse, int, int], Calibration] | None = None
    said: list[str] = field(default_factory=list)

    def run(self, from_ms: int | None, to_ms: int | None) -> Plan:
        """Of `slackwater run`."""
        lineage = Lineage(self.pipeline.start_ms, None)
        if self.live:
            refuse_closed(self.pipeline.name, self.live[-1])
            lineage = Lineage(start_of(self.live[0]), end_of(self.live[-1]))
        length = duration_ms(self.pipeline.slice)
        to_ms = lineage.reached_ms + length if to_ms is None else to_ms
        slices = choose(self.pipeline.name, lineage, from_ms, to_ms, length, None)
        if len(slices) > self.pipeline.max_catch_up:
            self.said.append(
                f"{len(slices)} slices are more than max_catch_up = {self.pipeline.max_catch_up}; the run "
                "needs --all"
            )
        return self._plan(slices, len(slices), self.live[-1] if self.live else None, restates=False)

    def restatement(self, from_ms: int, to_ms: int, slice_ms: int | None) -> Plan:
        """Of `slackwater backfill`."""
        assert self.tables is not None
        range_ = restatement.restate(
            self.pipeline.name, self.live, from_ms, to_ms, partial(is_kept, self.tables)
        )
        self.said += range_.moved
        start, reached = start_of(self.live[0]), end_of(self.live[-1])
        all_slices = slices_of(Restatement(range_.from_ms, reached, range_.owner), self.live, slice_ms, start)
        return self._plan(
            slices_of(range_, self.live, slice_ms, start), len(all_slices), range_.owner, restates=True
        )

    def _plan(
        self, slices: Sequence[Slice], at_most: int, owner: LedgerRow | None, *, restates: bool
    ) -> Plan:
        self._refuse_changed_settings(slices, owner)
        files_of_slices = self._files(slices, owner)
        arrivals, parts = self._rows(slices, files_of_slices)
        slice_plans = tuple(
            self._slice(item, files, arrivals) for item, files in zip(slices, files_of_slices, strict=True)
        )
        self._warn_of_waste(slice_plans)
        choice = engines.choose(self.pipeline, self.source.schema)
        parked, published = self._windows(owner, parts)
        self._warn_of_collected(owner, parts, slices[-1].to_ms if restates and slices else None)
        reach = _reach(self.pipeline)
        keys = list(self.pipeline.keys)
        calibration = self._calibration(slices, choice.engine)
        memory_mb, memory_basis = self._memory(
            slice_plans, files_of_slices, choice, parked.num_rows, calibration
        )
        return Plan(
            pipeline=self.pipeline.name,
            restates=restates,
            continues=None if owner is None else owner.seq,
            slices=slice_plans,
            at_most=at_most,
            engine=choice.engine,
            why=choice.why,
            parked=parked.num_rows,
            parked_touched=touched.count(keys, parked, parts, reach),
            published_touched=touched.count(keys, published, parts, reach),
            stragglers=self._stragglers(),
            prediction=self._prediction(
                choice.engine, calibration, self._needs_spark(files_of_slices, choice, parked.num_rows)
            ),
            memory_mb=memory_mb,
            memory_basis=memory_basis,
            said=tuple(self.said),
        )

    def _refuse_changed_settings(self, slices: Sequence[Slice], owner: LedgerRow | None) -> None:
        """Refuse what the first slice would."""
        if self.tables is None or not slices:
            return
        declared = Declarations(self.pipeline, registry.config_hash(self.pipeline), self.tables)
        changes = declared.changes(owner, slices[0].from_ms, start_of(self.live[0]) if self.live else None)
        if owner is not None:
            earlier_runs = [row for row in self.live if end_of(row) <= end_of(owner)]
            declared.refuse_rows_left_to_a_restatement(changes, earlier_runs, self.source)

    def _calibration(self, slices: Sequence[Slice], engine: str) -> Calibration | None:
        """Rates measured now, if asked for, else those that are kept."""
        if self.calibrate is None or not slices:
            return Calibration.stored(self.pipeline, engine)
        return self.calibrate(self.pipeline, self.warehouse, slices[0].from_ms, slices[-1].to_ms)

    def _prediction(
        self, engine: str, calibration: Calibration | None, needs_spark: bool
    ) -> Prediction | None:
        """From what this pipeline has recorded, if there is any and no calibration was asked for."""
        prediction = predict(self._recorded(), engine) if self.calibrate is None else None
        if prediction is None and calibration is not None:
            prediction = from_calibration(calibration)
        return prediction if prediction is None or needs_spark else replace(prediction, start=0.0)

    def _needs_spark(
        self, chosen: Sequence[Sequence[InputFile]], choice: engines.Choice, parked: int
    ) -> bool:
        """Whether any slice is not small."""
        engine, threads = choice.make(), tasks_here()
        if not engine.in_threads or self.source.why_not_direct is not None:
            return True
        rows = [rows_sent(self.pipeline, self.source, files, engine) + parked for files in chosen]
        ranges = (
            ranges_for(count, state_memory_mb(), threads, self.pipeline.max_parallelism) for count in rows
        )
        sizes = (sum(file.bytes * file.fraction for file in files) for files in chosen)
        return not all(is_small(size, count, threads) for size, count in zip(sizes, ranges, strict=True))

    def _memory(
        self,
        planned: Sequence[SlicePlan],
        chosen: Sequence[Sequence[InputFile]],
        choice: engines.Choice,
        parked: int,
        calibration: Calibration | None,
    ) -> tuple[int, str]:
        """Megabytes of the largest task of any slice, and what that rests on."""
        estimates = [
            estimate_mb(
                self.pipeline,
                self.source,
                files,
                rows_in(files) if item.rows is None else item.rows,
                parked,
                choice.make(),
            )
            for item, files in zip(planned, chosen, strict=True)
        ]
        estimate = max(estimates, default=0)
        if calibration is None:
            return estimate, "rows of two sums each; what keeps more needs more"
        ratio = calibration.memory_mb / calibration.estimated_mb
        basis = (
            f"{ratio:.2f} of the estimate for rows of two sums, as {calibration.rows[1]:,} of the rows took "
            "here"
        )
        return calibration.memory_of(estimate), basis

    def _files(self, slices: Sequence[Slice], owner: LedgerRow | None) -> list[list[InputFile]]:
        """The files that each slice reads: all after the first are read behind it, at the version as it
        stands.
        """
        declared = self.pipeline.source
        read = None if owner is None or self._reads_other_table(owner) else input_of(owner, declared.table)
        before = None if read is None else pin(declared, self.source.uri, read.version)
        restated: tuple[ReadRange, ...] = ()
        if before is not None and self.tables is not None and self.head is not None:
            restated = restated_since(self.tables.ledger, self.head, owner, declared.table)
        try:
            if before is not None and slices:
                self.source.check_kept(before, slices[0].from_ms, declared.arrival_time, restated)
        except SourceRewritten as error:
            least = error.facts["least_ms"]
            first = iso(
                start_of(self.live[0]) if not isinstance(least, int) else max(least, start_of(self.live[0]))
            )
            self.said.append(f"it would be refused: {error.message} Restate them, from {first} on")
        chosen = []
        for item in slices:
            chosen.append(
                self.source.files(
                    item.from_ms, item.to_ms, declared.arrival_time, before, newer_reads=restated
                )
            )
            before, restated = self.source, ()
        return chosen

    def _reads_other_table(self, owner: LedgerRow) -> bool:
        """Whether the run that would be continued has read another table; a run would be refused for it."""
        table = self.pipeline.source.table
        if other_table_of([owner], table, self.source.table_id) is None:
            return False
        ways = ways_on(self.pipeline.name, start_of(self.live[0]), end_of(self.live[-1]))
        self.said.append(
            f"it would be refused: source {table!r} was dropped and made again, or replaced, since run "
            f"{owner.seq}. {ways}"
        )
        return True

    def _rows(
        self, slices: Sequence[Slice], chosen: Sequence[Sequence[InputFile]]
    ) -> tuple[np.ndarray | None, list[pa.Table]]:
        """Arrivals of the range, sorted, in milliseconds, and the times by which windows take its rows, one
        table a file.
        """
        if self.source.why_not_direct is not None:
            self.said.append(
                "rows and windows can't be counted without Spark, which has to read this source "
                f"({self.source.why_not_direct})"
            )
            return None, []
        declared = self.pipeline.source
        columns = tuple(dict.fromkeys((*self.pipeline.keys, declared.event_time, declared.arrival_time)))
        arrivals, parts = [np.zeros(0, np.int64)], []
        for file in {file.path: file for files in chosen for file in files}.values():
            rows = read(self.source.uri, file, self.source.schema, columns)
            times, is_undated = in_milliseconds(rows.column(declared.arrival_time))
            inside = ~is_undated & (times >= slices[0].from_ms) & (times < slices[-1].to_ms)
            arrivals.append(times[inside])
            parts.append(touched.points(self.pipeline, rows.filter(pa.array(inside))))
        return np.sort(np.concatenate(arrivals)), parts

    def _slice(self, item: Slice, files: Sequence[InputFile], arrivals: np.ndarray | None) -> SlicePlan:
        counts = [file.rows for file in files]
        rows_in_files = None if None in counts else sum(count for count in counts if count is not None)
        rows = None
        if arrivals is not None:
            low, high = np.searchsorted(arrivals, [item.from_ms, item.to_ms])
            rows = int(high - low)
        return SlicePlan(item, len(files), sum(file.bytes for file in files), rows_in_files, rows)

    def _warn_of_waste(self, planned: Sequence[SlicePlan]) -> None:
        rows_of_each = [item.rows for item in planned]
        file_rows_of_each = [item.rows_in_files for item in planned]
        if None in rows_of_each or None in file_rows_of_each:
            return
        total, rows = (
            sum(count or 0 for count in file_rows_of_each),
            sum(count or 0 for count in rows_of_each),
        )
        if total > WASTE * rows and total:
            self.said.append(
                f"it would read {total:,} rows to use {rows:,}: files hold rows of many slices. Partition "
                "the source by the day of "
                f"{self.pipeline.source.arrival_time!r}, or sort its rows by it"
            )

    def _warn_of_collected(
        self, owner: LedgerRow | None, parts: Sequence[pa.Table], to_ms: int | None
    ) -> None:
        """Say so where rows would be late only because their windows were collected under a smaller lateness.
        `to_ms`: the end of a restatement; a run is preceded by one that ends where main does."""
        if self.tables is None or owner is None or not collects(self.pipeline):
            return
        parked = Progress.from_table(
            read_staged(self.tables, "source_progress", snapshot_files(self.tables, "source_progress", owner))
        )
        mark = mark_of(self.tables, self.pipeline, owner, parked)
        expired = parked.watermark - self.pipeline.allowed_lateness_ms
        if mark is None or mark <= expired:
            return
        lasts = [newest_last_instants(self.pipeline, part.column(touched.TIME_COLUMN)) for part in parts]
        missed = np.concatenate([*lasts, np.zeros(0, np.int64)])
        missed = missed[(missed > expired) & (missed <= mark)]
        if len(missed):
            first = LiveMarks.of(self.tables, self.live, self.pipeline).reopened_from(int(missed.min()))
            sentence = told(
                self.pipeline.name,
                "rows of the range are",
                first,
                end_of(self.live[-1]) if to_ms is None else to_ms,
            )
            self.said.append(sentence + ("" if to_ms is not None else "; do that before the run"))

    def _windows(self, owner: LedgerRow | None, parts: Sequence[pa.Table]) -> tuple[pa.Table, pa.Table]:
        """The windows of the snapshot, and those of `published` that may be touched."""
        keys = list(self.pipeline.keys)
        if self.tables is None or self.pipeline.window is None:
            none = pa.table({name: pa.nulls(0, self.source.schema.field(name).type) for name in keys})
            none = none.append_column("window_start", pa.nulls(0, pa.timestamp("us", tz="UTC")))
            none = none.append_column("window_end", pa.nulls(0, pa.timestamp("us", tz="UTC")))
            return none, none
        parked = read_staged(self.tables, "window_state", snapshot_files(self.tables, "window_state", owner))
        times = pa.concat_tables(part.select([touched.TIME_COLUMN]) for part in parts) if parts else None
        published = self.tables["published"]
        if times is None:
            return parked, published.schema.empty_table()
        return parked, touched.windows_between(published, keys, times, _reach(self.pipeline))

    def _recorded(self) -> list[LedgerRow]:
        """The newest rows of the ledger, of all branches."""
        return (
            []
            if self.tables is None or self.head is None
            else self.tables.ledger.rows(since=max(0, self.head.seq - _RECORDED))
        )

    def _stragglers(self) -> tuple[Stragglers, ...] | None:
        declared = self.pipeline.source
        if other_table_of(self.live, declared.table, self.source.table_id) is not None:
            return None
        live = stretches_of(self.live, declared.table)
        stragglers = find(self.source, live, declared.arrival_time, folds=self.pipeline.stragglers == "fold")
        return None if stragglers is None else tuple(stragglers)


def _reach(pipeline: Pipeline) -> int:
    """The gap of sessions in milliseconds; 0 for windows that do not merge."""
    return int(getattr(pipeline.window, "gap_ms", 0))


def as_rows(found: Plan) -> list[dict[str, Any]]:
    """The slices of a plan as rows for a table."""
    return [
        {
            "from": iso(item.slice.from_ms),
            "to": iso(item.slice.to_ms),
            "files": item.files,
            "bytes": item.bytes,
            "rows_read": item.rows_in_files,
            "rows_used": item.rows,
            "seconds": None
            if found.prediction is None or item.rows is None
            else found.prediction.of_slice(item.rows),
        }
        for item in found.slices
    ]
