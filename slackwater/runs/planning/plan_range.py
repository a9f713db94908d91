"""Plans a range: a restatement where main has run it already, else the runs that catch up to its end.

    range -> slices -> source_reads -> files, rows, points -> parked_state -> windows touched
                                                           -> seconds, megabytes of the largest task

Reads only, and needs neither Spark nor tables of the pipeline. What a command would refuse at once is
refused here too; what only the source would make it refuse is among the plan's warnings. Seconds and
megabytes follow from what earlier runs have recorded.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec

import pyarrow.compute as pc

from slackwater.engine import planner as engines
from slackwater.engine.replaying.task_memory import (
    estimate_mb,
    most_rows_of_range,
    ranges_for,
    rows_in,
    rows_sent,
)
from slackwater.engine.source.files import InputFile
from slackwater.engine.transport.placement import On, Placement, SliceNeeds, Workers, placement_of
from slackwater.pipelines import Pipeline, registry
from slackwater.runs.planning.parked_state import (
    count_remembered_rows,
    count_touched_windows,
    sentences_on_changes,
    warn_of_collected_windows,
    warn_of_sample,
)
from slackwater.runs.planning.plan import EmittedRows, Plan, Prediction, predict
from slackwater.runs.planning.source_reads import PlanInputs, SourceReads, read_source, stragglers_of
from slackwater.runs.restating import restatement
from slackwater.runs.restating.restatement import slices_from
from slackwater.runs.staging.declarations import Declarations
from slackwater.runs.staging.evolution import Difference
from slackwater.runs.staging.slices import Cuts, Lineage, Slice, choose, end_of
from slackwater.runs.staging.staged_slice import refuse_closed, sentence_on_never_fired
from slackwater.runtime.memory import IDLE_MB, VARIABLE, state_memory_mb
from slackwater.runtime.settings import spark_place, tasks_here
from slackwater.tables.ledger.ledger_files import LiveRuns
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.run_files.snapshots import is_kept
from slackwater.tables.warehouse import Warehouse

# What the megabytes of a plan rest on.
MEMORY_BASIS = "rows of two sums each; what keeps more needs more"


def predicted_seconds(inputs: PlanInputs, engine: str, *, needs_spark: bool) -> Prediction | None:
    """The seconds that slices take by earlier runs of the engine; None where no run is recorded."""
    prediction = predict(inputs.newest_rows(), engine)
    return prediction if prediction is None or needs_spark else replace(prediction, start=0.0)


def warn_of_one_key(pipeline: Pipeline, memory_mb: int) -> list[str]:
    """The sentence on windows of all rows that one task can't hold, because they have one key."""
    limit_mb = IDLE_MB + state_memory_mb()
    if pipeline.keys or memory_mb <= limit_mb:
        return []
    return [
        "the windows are of all rows, which one task takes, whatever the number of ranges: about "
        f"{memory_mb} MB, where {VARIABLE} leaves it {limit_mb}. Key the rows, shorten the slice, or give "
        "tasks more"
    ]


def placements_of(
    inputs: PlanInputs, reads: SourceReads, choice: engines.Choice, parked_rows: int, on: On
) -> tuple[Placement, ...]:
    """Where each slice would be replayed, and why there. Raises SparkNeeded: `on` forbids Spark for a slice
    that only Spark can replay.
    """
    engine = choice.make()
    workers = Workers(tasks_here(), spark_place(), has_processes=find_spec("pyspark") is not None)
    sources = inputs.sources.each
    most_rows = most_rows_of_range(inputs.pipeline, sources, engine, state_memory_mb())

    def needs_of(files: Sequence[InputFile]) -> SliceNeeds:
        rows = rows_sent(inputs.pipeline, sources, files, engine) + parked_rows
        return SliceNeeds(
            size=sum(file.bytes * file.fraction for file in files),
            ranges=ranges_for(inputs.pipeline, rows, most_rows, workers.slots),
            in_threads=engine.in_threads,
            why_not_direct=inputs.sources.why_not_direct,
        )

    return tuple(placement_of(needs_of(files), workers, on) for files in reads.files)


def memory_mb_of(inputs: PlanInputs, reads: SourceReads, choice: engines.Choice, parked_rows: int) -> int:
    """Megabytes of the largest task of any slice, from a snapshot of so many windows and remembered rows."""
    estimates = [
        estimate_mb(
            inputs.pipeline,
            inputs.sources.each,
            files,
            rows_in(files) if item.rows is None else item.rows,
            parked_windows=parked_rows,
            engine=choice.make(),
        )
        for item, files in zip(reads.slices, reads.files, strict=True)
    ]
    return max(estimates, default=0)


@dataclass(frozen=True)
class RangePlanner:
    """Plans ranges of one pipeline, whose slices are replayed `on` Spark, here, or as their size says."""

    warehouse: Warehouse
    pipeline: Pipeline
    on: On = "auto"

    def plan(self, from_ms: int | None = None, to_ms: int | None = None, slice_ms: int | None = None) -> Plan:
        """The plan for [from, to), by default from where main ends to the end of the next slice, or of main
        for a restatement. `slice_ms` is the length of a restatement's slices (None: main's own cuts). Raises
        UsageError: the range can be neither run nor restated, the source does not suit, or declarations can't
        be carried on.
        """
        inputs = PlanInputs.of(self.warehouse, self.pipeline)
        if inputs.live and from_ms is not None and from_ms < inputs.end_ms:
            return self._restatement(inputs, from_ms, inputs.end_ms if to_ms is None else to_ms, slice_ms)
        return self._run(inputs, from_ms, to_ms)

    def _run(self, inputs: PlanInputs, from_ms: int | None, to_ms: int | None) -> Plan:
        lineage = Lineage(self.pipeline.start_ms, None)
        if inputs.live:
            refuse_closed(self.pipeline.name, inputs.live[-1])
            lineage = Lineage(inputs.start_ms, inputs.end_ms)
        cuts = Cuts.of(self.pipeline, lineage.start_ms)
        to_ms = cuts.at(cuts.before(lineage.head_ms) + 1) if to_ms is None else to_ms
        slices = choose(self.pipeline.name, lineage, from_ms=from_ms, to_ms=to_ms, cuts=cuts, max_slices=None)
        warnings = []
        if len(slices) > self.pipeline.max_catch_up:
            warnings.append(
                f"{len(slices)} slices are more than max_catch_up = {self.pipeline.max_catch_up}; the run "
                "needs --all"
            )
        owner = inputs.live[-1] if inputs.live else None
        return self._plan(
            inputs, slices, owner, inputs.live, at_most=len(slices), restated_to_ms=None, warnings=warnings
        )

    def _restatement(self, inputs: PlanInputs, from_ms: int, to_ms: int, slice_ms: int | None) -> Plan:
        assert inputs.tables is not None
        range_ = restatement.restate(
            self.pipeline.name, inputs.live, from_ms, to_ms, partial(is_kept, inputs.tables)
        )
        live, starts = inputs.live, inputs.live.times_ms("slice_start")
        slices_at_most = slices_from(range_, inputs.live, range_.from_ms, slice_ms, inputs.start_ms)
        return self._plan(
            inputs,
            [slice_ for slice_ in slices_at_most if slice_.to_ms <= range_.to_ms],
            range_.owner,
            live.where((starts < range_.to_ms) & (live.times_ms("slice_end") > range_.from_ms)),
            at_most=len(slices_at_most),
            restated_to_ms=range_.to_ms,
            warnings=range_.adjustments,
        )

    def _plan(
        self,
        inputs: PlanInputs,
        slices: Sequence[Slice],
        owner: LedgerRow | None,
        earlier_runs: LiveRuns,
        *,
        at_most: int,
        restated_to_ms: int | None,
        warnings: Sequence[str],
    ) -> Plan:
        """The plan of `slices`; the first continues the snapshot of `owner`. `earlier_runs` are the restated
        runs, or all live runs before a run; `restated_to_ms` is the end of a restatement, None for a run.
        """
        changes = _changed_settings(inputs, slices, owner)
        reads = read_source(inputs, slices, owner)
        windows = count_touched_windows(inputs, owner, reads.points, reads.sample)
        choice = engines.choose(self.pipeline, inputs.sources.schema)
        parked_rows = windows.parked_windows + count_remembered_rows(inputs, owner)
        placements = placements_of(inputs, reads, choice, parked_rows, self.on)
        needs_spark = any(placement.place == "spark" for placement in placements)
        memory_mb = memory_mb_of(inputs, reads, choice, parked_rows)
        return Plan(
            pipeline=self.pipeline.name,
            restates=restated_to_ms is not None,
            continues=None if owner is None else owner.seq,
            slices=reads.slices,
            at_most=at_most,
            engine=choice.engine,
            why=choice.why,
            placements=placements,
            parked_windows=windows.parked_windows,
            touched_parked_windows=windows.touched_parked_windows,
            touched_published_windows=windows.touched_published_windows,
            stragglers=stragglers_of(inputs),
            prediction=predicted_seconds(inputs, choice.engine, needs_spark=needs_spark),
            memory_mb=memory_mb,
            memory_basis=MEMORY_BASIS,
            emitted_rows=_rows_emitted_in(self.pipeline, earlier_runs),
            changes=sentences_on_changes(inputs, owner, changes),
            warnings=(
                *warnings,
                *_warn_of_elements_never_fired(earlier_runs),
                *reads.warnings,
                *warn_of_sample(windows),
                *warn_of_one_key(self.pipeline, memory_mb),
                *warn_of_collected_windows(inputs, owner, reads.points, restated_to_ms),
            ),
        )


def _changed_settings(
    inputs: PlanInputs, slices: Sequence[Slice], owner: LedgerRow | None
) -> list[Difference]:
    """The settings that the first slice would follow. Refuses those that it would refuse."""
    if inputs.tables is None or not slices:
        return []
    declarations = Declarations(inputs.pipeline, registry.config_hash(inputs.pipeline), inputs.tables)
    changes = declarations.changes(owner, slices[0].from_ms, inputs.start_ms if inputs.live else None)
    if changes and owner is not None:
        owner_end_ms = end_of(owner)
        earlier_runs = inputs.live.where(inputs.live.times_ms("slice_end") <= owner_end_ms)
        declarations.refuse_rows_left_to_a_restatement(changes, earlier_runs, inputs.sources.each)
    return changes


def _rows_emitted_in(pipeline: Pipeline, runs: LiveRuns) -> EmittedRows | None:
    if not runs or (pipeline.keyed_process is None and not pipeline.side_columns):
        return None
    rows, side_rows = runs.column("rows_emitted"), runs.column("side_rows")
    return EmittedRows(
        rows=pc.sum(rows, min_count=0).as_py(),
        side_rows=pc.sum(side_rows, min_count=0).as_py(),
        runs=len(rows),
    )


def _warn_of_elements_never_fired(runs: LiveRuns) -> list[str]:
    """The warning that elements of `runs` are in no result; empty where all are."""
    if not runs:
        return []
    losses = pc.fill_null(runs.column("elements_never_fired"), 0).to_numpy()
    runs_with_losses = runs.where(losses > 0)
    if not runs_with_losses:
        return []
    newest, total, count = runs_with_losses[-1], int(losses.sum()), len(runs_with_losses)
    which = f"run {newest.seq}" if count == 1 else f"{count} runs, the newest of them run {newest.seq}"
    return [f"{sentence_on_never_fired(total)}: those of {which}"]
