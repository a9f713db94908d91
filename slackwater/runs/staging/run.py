"""One run of a slice, up to the point where it may be published. Its phases, in this order:

    claim      a row of `attempts` keeps other runs off the branch
    pin        the versions of the source and of the overrides are chosen, and settings compared
    session    where the slice is replayed is chosen; Spark starts where its tasks do it
    timeline   one pass over event times and arrivals gives the watermarks of the slice
    replay     the engine runs the windows; tasks write large tables as files
    stage      the rows that came back are written, and all files committed under the run's id
    validate   expectations and conservation laws are checked

A run writes nothing that a reader sees before a ledger row names it.
"""

import logging
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Any, cast

import pyarrow as pa

from slackwater.engine.replaying.replay import Engine, Outcome
from slackwater.engine.rows.progress import Progress, moment
from slackwater.engine.source.scan import SliceScan
from slackwater.engine.transport.in_process import Transport
from slackwater.engine.transport.job_names import jobs_called
from slackwater.errors import LostRaceError, RetryableError, SlackwaterError, without_credentials
from slackwater.pipelines import Pipeline
from slackwater.pipelines.registry import product_version
from slackwater.runs.staging import validation
from slackwater.runs.staging.declarations import Declarations
from slackwater.runs.staging.evolution import Difference
from slackwater.runs.staging.lease import claim_slice, renewing_lease, rival_on_branch_of
from slackwater.runs.staging.pins import Pins, with_next_step
from slackwater.runs.staging.run_checks import checks_of_run
from slackwater.runs.staging.slice_replay import FinalReplay, ReplayedSlice, SliceReplay
from slackwater.runs.staging.slices import Lineage, Slice
from slackwater.runs.staging.staged_slice import Parent, StagedSlice, with_acceptance
from slackwater.runs.staging.stragglers import newer_reads_by_source
from slackwater.runs.staging.suite_checks import RowsToPublish
from slackwater.tables.ledger.attempts import Attempt, AttemptsWriter
from slackwater.tables.ledger.overrides import OverridesReader, moved_rows_on
from slackwater.tables.ledger.reader import LedgerReader
from slackwater.tables.ledger.rows import MAIN, LedgerRow, RowKind
from slackwater.tables.run_files.snapshots import put_back_for_reading
from slackwater.tables.run_files.staging import pack, stack, write_staged
from slackwater.tables.schemas import Shape, staged_tables
from slackwater.tables.stores import map_concurrently
from slackwater.tables.warehouse import Tables, Warehouse
from slackwater.windowing.times import to_datetime, to_ms

log = logging.getLogger("slackwater")


class Phases:
    """A stopwatch for the phases of one run. `facts`, and the number of the `attempt` at the slice once it is
    claimed, are logged with each; `seconds` has those that ended without an error; `name` is the current or
    last one.
    """

    def __init__(self, pipeline: str, run_id: str, slice_: str, zone: tzinfo = UTC) -> None:
        self.facts: dict[str, Any] = {"pipeline": pipeline, "run_id": run_id, "slice": slice_, "zone": zone}
        self.attempt: int | None = None
        self.seconds: dict[str, float] = {}
        self.name = "claim"

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time the block as the phase `name`; Spark's jobs in it are called so."""
        self.name = name
        log.debug(name, extra={**self.facts, **self._try, "begins": True})
        began_at = time.perf_counter()
        with jobs_called(
            "{pipeline} {slice}: {phase}, run {run_id}".format(phase=name, **self.facts),
            self.facts["run_id"],
        ):
            yield
        self.seconds[name] = round(time.perf_counter() - began_at, 6)
        log.info(name, extra={**self.facts, **self._try, "seconds": self.seconds[name]})

    @property
    def _try(self) -> dict[str, int]:
        return {} if self.attempt is None else {"attempt": self.attempt}


class TooEarly(RetryableError):
    """The slice has not settled: rows of it may still appear, so its source version may not be pinned yet."""


def wall_clock() -> datetime:
    """The present moment. It is recorded with a run, and no result depends on it."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Runner:
    """Runs slices of one pipeline, whose source has been checked and whose tables exist.

    Attributes:
        shape, tables: the tables and their columns, of those that the pipeline has had before, too.
        config_hash, code_hash: the ledger records them.
        engine, transport: the engine that runs the windows, and where its tasks run.
        ranges: number of key-group ranges; None leaves it to the size of the input.
        lease: whether to claim the advisory lease. Only tests turn it off: correctness rests on the
            compare-and-swap alone.
    """

    warehouse: Warehouse
    pipeline: Pipeline
    shape: Shape
    tables: Tables
    config_hash: str
    code_hash: str
    engine: Engine
    transport: Transport
    ranges: int | None = None
    lease: bool = True
    clock: Callable[[], datetime] = wall_clock

    @property
    def attempts(self) -> AttemptsWriter:
        return AttemptsWriter(self.tables["attempts"])

    @property
    def declarations(self) -> Declarations:
        return Declarations(self.pipeline, self.config_hash, self.tables)

    def parent(self, branch: str = MAIN) -> Parent:
        # As this process knows it: whoever commits after it is refused where it has moved.
        ledger = LedgerReader(self.tables["runs"], self.tables["runs"].newest_known())
        head = ledger.head(branch)
        if head is None:
            return Parent(None, None, None)
        owner = ledger.snapshot_owner(head)
        newer_reads = newer_reads_by_source(ledger, head, owner, self.pipeline)
        return Parent(head, owner, to_ms(ledger.start_of(head)), newer_reads)

    def lineage(self, parent: Parent, start_ms: int | None = None) -> Lineage:
        """Start and end of the branch of `parent`; an empty one begins at `start_ms`, or as declared."""
        if parent.start_ms is None:
            return Lineage(self.pipeline.start_ms if start_ms is None else start_ms, None)
        return Lineage(parent.start_ms, parent.end_ms)

    def stage(
        self, parent: Parent, slice_: Slice, accept: str | None = None, *, is_close: bool = False
    ) -> StagedSlice:
        """Run one slice on `parent`, or close the lineage there, stage its rows and validate them. `accept`
        is the reason not to reject it where validation fails.

        Raises:
            TooEarly: the slice has not settled.
            LeaseHeld: another run is alive.
            SlackwaterError: whatever else ends the run; it is recorded in `attempts` and changes nothing
                else.
        """
        return _SliceStage(self, parent, slice_, RowKind.CLOSE if is_close else RowKind.RUN).run(accept)


class _SliceStage:
    """The phases of one slice, timed and logged, and its end recorded."""

    def __init__(self, runner: Runner, parent: Parent, slice_: Slice, kind: RowKind) -> None:
        self.runner = runner
        self.pipeline = runner.pipeline
        self.tables = runner.tables
        self.parent = parent
        self.slice = slice_
        self.kind = kind
        self.run_id = f"{to_datetime(slice_.from_ms):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:16]}"

    def run(self, accept: str | None) -> StagedSlice:
        started_at = self.runner.clock()
        self._refuse_unsettled(started_at)
        start, end = to_datetime(self.slice.from_ms), to_datetime(self.slice.to_ms)
        phases = Phases(self.pipeline.name, self.run_id, str(self.slice), self.pipeline.zone)
        attempt = Attempt(
            run_id=self.run_id,
            parent_seq=None if self.parent.row is None else self.parent.row.seq,
            slice_start=start,
            slice_end=end,
            step="claim",
            at=started_at,
        )
        with phases.phase("claim"):
            attempt = self._claim(attempt)
            phases.attempt = attempt.attempt
        try:
            with (
                with_next_step(self.pipeline.name, Slice(self.parent.start_ms or 0, self.slice.from_ms)),
                renewing_lease(self.runner.attempts, attempt, self.runner.clock),
            ):
                row, checks, outcome = self._replay_and_stage(attempt, phases, started_at)
        except BaseException as error:
            self._record_failure(attempt, phases.name, error)
            raise
        row = with_acceptance(row, accept)
        is_rejected = row.verdict == validation.FAILED
        attempt = self.runner.attempts.record(
            attempt,
            self.runner.clock(),
            outcome="rejected" if is_rejected else "staged",
            verdict=row.verdict,
            step="validate",
            exit_code=4 if is_rejected else None,
            ledger_row=pack(row, self.parent.row, self.pipeline.describe()),
        )
        return StagedSlice(attempt, row, tuple(checks), outcome.memory_mb, outcome.state_s)

    def _replay_and_stage(
        self, attempt: Attempt, phases: Phases, started_at: datetime
    ) -> tuple[LedgerRow, list[validation.Check], Outcome]:
        """The phases from pin to validate."""
        with phases.phase("pin"):
            changes = self.runner.declarations.changes(
                self.parent.owner, self.slice.from_ms, self.parent.start_ms
            )
            slice_replay = self._pin_inputs()
            self._refuse_stragglers_left_behind(changes, slice_replay)
            scan, before = slice_replay.scan(), slice_replay.progress()
            slice_replay.record_files()
            for note in slice_replay.notes(scan):
                log.warning(note, extra={"pipeline": self.pipeline.name, "run_id": self.run_id})
        replayed_slice = self._replay(phases, slice_replay, scan, before)
        with phases.phase("stage"):
            files = self._commit_staged_files(replayed_slice.outcome)
        with phases.phase("validate"):
            checks = self._validate(changes, replayed_slice, files["panes"])
        row = self._ledger_row(
            replayed_slice,
            attempt=attempt.attempt,
            verdict=validation.verdict(checks),
            files=files,
            started_at=started_at,
            phase_seconds=dict(phases.seconds),
        )
        return row, checks, replayed_slice.outcome

    def _replay(
        self, phases: Phases, slice_replay: SliceReplay, scan: SliceScan, before: Progress
    ) -> ReplayedSlice:
        """The phases session, timeline and replay."""
        engine, ranges = self.runner.engine, self.runner.ranges
        with phases.phase("session"):
            placed_transport = slice_replay.transport(scan, engine, self.runner.transport, ranges)
            transport, placement = placed_transport.transport, placed_transport.placement
            log.info(
                f"the slice is replayed by {placement.place}: {placement.reason}",
                extra={**phases.facts, "place": placement.place},
            )
            transport.start()
        with slice_replay.with_column_files(scan, transport) as scan_of_both:
            with phases.phase("timeline"):
                timeline, after = slice_replay.timeline(scan_of_both, before, transport)
            with phases.phase("replay"):
                outcome = slice_replay.replay(
                    scan_of_both,
                    timeline,
                    after,
                    engine,
                    transport,
                    run_id=self.run_id,
                    expectations=self.pipeline.pane_expectations,
                    ranges=ranges,
                )
                for part in scan.parts:
                    part.source.refuse_files_written_meanwhile(file.path for file in part.files)
        return ReplayedSlice(
            slice_replay=slice_replay,
            scan=scan,
            before=before,
            after=after,
            outcome=outcome,
            placement=placement,
        )

    def _validate(
        self, changes: list[Difference], replayed_slice: ReplayedSlice, paths: tuple[str, ...]
    ) -> list[validation.Check]:
        """Check what was staged, its panes in the files `paths`, and record the checks."""
        rows_to_publish = RowsToPublish(
            self.pipeline, self.runner.shape, self.tables["panes"], self.run_id, paths
        )
        checks = checks_of_run(self.parent, changes, replayed_slice, rows_to_publish)
        folder = self.tables["validations"]
        rows = [{"run_id": self.run_id, **asdict(check)} for check in checks]
        folder.append(pa.Table.from_pylist(rows, schema=folder.schema))
        return checks

    def _ledger_row(self, replayed_slice: ReplayedSlice, **columns: Any) -> LedgerRow:
        outcome, placement = replayed_slice.outcome, replayed_slice.placement
        return LedgerRow(
            seq=0,
            run_id=self.run_id,
            kind=self.kind,
            branch=MAIN,
            parent_seq=None,
            live=(),
            slice_start=to_datetime(self.slice.from_ms),
            slice_end=to_datetime(self.slice.to_ms),
            engine=self.runner.engine.name,
            watermark_in=moment(replayed_slice.before.watermark),
            watermark_out=moment(replayed_slice.after.watermark),
            inputs=replayed_slice.slice_replay.inputs(replayed_slice.scan, outcome),
            config_hash=self.runner.config_hash,
            code_hash=self.runner.code_hash,
            version=product_version(),
            state_hash=str(outcome.state_hash),
            output_hash=str(outcome.output_hash),
            place=placement.place,
            place_reason=placement.reason,
            **columns,
            **cast(Any, outcome.counts),
        )

    def _refuse_unsettled(self, now: datetime) -> None:
        settles_at = to_datetime(self.slice.to_ms) + self.pipeline.settle
        if now < settles_at:
            raise TooEarly(
                f"{self.pipeline.name}: the slice {self.slice} settles at {settles_at:%Y-%m-%dT%H:%M:%SZ} "
                f"(its end and settle = {self.pipeline.settle}); it is {now:%Y-%m-%dT%H:%M:%SZ}. Try again "
                "then.",
                settled=settles_at,
            )

    def _claim(self, attempt: Attempt) -> Attempt:
        attempts, clock = self.runner.attempts, self.runner.clock
        if not self.runner.lease:
            number = attempts.tries(attempt.slice_start, attempt.slice_end) + 1
            return attempts.record(replace(attempt, attempt=number), clock())
        is_rival = rival_on_branch_of(self.parent.row, self.tables.ledger)
        return claim_slice(self.pipeline.name, attempts, attempt, is_rival, clock)

    def _refuse_stragglers_left_behind(self, changes: list[Difference], slice_replay: SliceReplay) -> None:
        if changes and self.parent.row is not None:
            live = self.tables.ledger.live_runs(self.parent.row)
            self.runner.declarations.refuse_rows_left_to_a_restatement(
                changes, live, slice_replay.pins.sources
            )

    def _pin_inputs(self) -> SliceReplay:
        """The replay of the slice from the newest versions of its inputs."""
        owner, is_close = self.parent.owner, self.kind is RowKind.CLOSE
        return (FinalReplay if is_close else SliceReplay)(
            pipeline=self.pipeline,
            shape=self.runner.shape,
            tables=self.tables,
            slice=self.slice,
            start_ms=self.slice.from_ms if self.parent.start_ms is None else self.parent.start_ms,
            owner=owner,
            state=put_back_for_reading(self.tables, owner),
            pins=self._pins_of_close() if is_close else self._newest_pins(),
            added_results=self.runner.declarations.added_results(owner),
        )

    def _newest_pins(self) -> Pins:
        ledger, overrides = self.tables.ledger, OverridesReader(self.tables["overrides"]).rows()
        return Pins.newest(
            self.pipeline,
            self.runner.warehouse,
            owner=self.parent.owner,
            from_ms=self.slice.from_ms,
            newer_reads=self.parent.newer_reads,
            overrides=overrides,
            moved_rows={} if self.parent.row is None else moved_rows_on(ledger, self.parent.row, overrides),
            ledger=ledger,
        )

    def _pins_of_close(self) -> Pins:
        """The source as the run before has read it."""
        owner = self.parent.owner
        assert owner is not None
        return Pins.recorded_by(
            self.pipeline,
            self.runner.warehouse,
            owner,
            owner=owner,
            newer_reads={},
            overrides=OverridesReader(self.tables["overrides"]).rows(),
            ledger=self.tables.ledger,
        )

    def _commit_staged_files(self, outcome: Outcome) -> dict[str, tuple[str, ...]]:
        """Write the rows that came back, one file a table, and commit them with the files of tasks."""

        def commit(name: str) -> tuple[str, ...]:
            folder = self.tables[name]
            files = list(outcome.files.get(name, []))
            rows = stack(outcome.rows.get(name, []), folder.schema, self.run_id)
            if rows.num_rows:
                files.append(write_staged(folder.uri, self.run_id, "driver", rows.drop_columns(["run_id"])))
            folder.commit_files(files)
            return tuple(file.path for file in files)

        names = staged_tables(self.runner.shape)
        return dict(zip(names, map_concurrently(commit, names), strict=True))

    def _record_failure(self, attempt: Attempt, phase: str, error: BaseException) -> None:
        outcome = "lost" if isinstance(error, LostRaceError) else "failed"
        code = error.exit_code if isinstance(error, SlackwaterError) else 1
        text = (
            str(error)
            if isinstance(error, SlackwaterError)
            else without_credentials("".join(traceback.format_exception(error))[-4000:])
        )
        try:
            self.runner.attempts.record(
                attempt, self.runner.clock(), outcome=outcome, exit_code=code, step=phase, error=text
            )
        except SlackwaterError as second:
            # Whatever stopped the run may stop this write, too; the caller raises the first error.
            log.warning(
                f"its failure is not recorded: {second}",
                extra={"pipeline": self.pipeline.name, "run_id": self.run_id},
            )
