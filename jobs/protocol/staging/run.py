"""One run of a slice, up to the point where it may be published: claim, pin, timeline, replay, stage,
validate.

Everything written here is inert until a ledger row names it.
"""

import logging
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa

from slackwater.jobs.engines.replaying.replay import Engine, Outcome
from slackwater.jobs.engines.rows.progress import Progress, moment
from slackwater.jobs.engines.source.pinned_source import PinnedSource, SourceRewritten
from slackwater.jobs.engines.source.pinning import SourceReplaced
from slackwater.jobs.engines.transport.in_process import Transport
from slackwater.jobs.errors import LostRaceError, RetryableError, SlackwaterError, without_credentials
from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.pipelines.code import PipelineCode
from slackwater.jobs.protocol.staging import validation
from slackwater.jobs.protocol.staging.collected_mark import LiveMarks, earliest_fired, late_by_mark
from slackwater.jobs.protocol.staging.collected_mark import told as collected_told
from slackwater.jobs.protocol.staging.declarations import Declarations
from slackwater.jobs.protocol.staging.evolution import Difference
from slackwater.jobs.protocol.staging.lease import LeaseHeld, renewed
from slackwater.jobs.protocol.staging.odd_input import odd_input
from slackwater.jobs.protocol.staging.shapes import checked_source
from slackwater.jobs.protocol.staging.slice_replay import Pins, SliceReplay, ways_on
from slackwater.jobs.protocol.staging.slices import Lineage, Slice, iso
from slackwater.jobs.protocol.staging.staged_slice import Parent, StagedSlice
from slackwater.jobs.protocol.staging.stragglers import restated_since, to_be_restated
from slackwater.jobs.protocol.staging.tick_cache import TickCache
from slackwater.jobs.tables.delta.concurrency import map_concurrently
from slackwater.jobs.tables.ledger.attempts import Attempt, AttemptsWriter
from slackwater.jobs.tables.ledger.overrides import OverridesReader, honoured_before
from slackwater.jobs.tables.ledger.reader import LedgerReader
from slackwater.jobs.tables.ledger.row_kinds import RowKind
from slackwater.jobs.tables.ledger.rows import MAIN, LedgerRow
from slackwater.jobs.tables.run_files.snapshots import put_back
from slackwater.jobs.tables.run_files.staging import pack, stack, staged, write_staged
from slackwater.jobs.tables.schemas import Shape, staged_tables
from slackwater.jobs.tables.warehouse import Tables, Warehouse
from slackwater.windowing.times import to_datetime, to_ms

log = logging.getLogger("slackwater")


class TooEarly(RetryableError):
    """The slice has not settled: its source version may not be pinned yet."""


def wall_clock() -> datetime:
    """Now. Only for what is recorded about a run; nothing that is replayed depends on it."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Runner:
    """Runs slices of one pipeline in one warehouse.

    Attributes:
        warehouse, pipeline: where and what.
        config_hash, version: recorded in the ledger.
        code: the pipeline's; its hash is recorded, or that of the same code under which the lineage goes on.
        engine, transport: how windows are run.
        ranges: number of key-group ranges; None leaves it to the size of the input.
        lease: whether to claim the advisory lease. Only tests turn it off: correctness rests on the
            compare-and-swap alone.
        clock: the wall clock.
        checked: what `checked_source` has just said, for which the source was opened; None: it is asked when
            the tables are made.
    """

    warehouse: Warehouse
    pipeline: Pipeline
    config_hash: str
    code: PipelineCode
    version: str
    engine: Engine
    transport: Transport
    ranges: int | None = None
    lease: bool = True
    clock: Callable[[], datetime] = wall_clock
    checked: tuple[PinnedSource, Shape] | None = None

    def prepare(self) -> "PreparedRunner":
        """Check the source against the declarations and make the tables.

        Raises:
            UsageError: the source is missing, empty, or lacks a column; the warehouse can't be written.
        """
        _, shape = self.checked or checked_source(self.warehouse, self.pipeline)
        tables = self.warehouse.tables(self.pipeline.name, shape)
        tables.ensure()
        return PreparedRunner(self, shape, tables)


@dataclass(frozen=True)
class PreparedRunner:
    """A runner whose source and tables have been checked."""

    runner: Runner
    shape: Shape
    tables: Tables

    @property
    def attempts(self) -> AttemptsWriter:
        return AttemptsWriter(self.tables["attempts"])

    def parent(self, branch: str = MAIN) -> Parent:
        """The head of `branch` as the parent of the next slice."""
        ledger = self.tables.ledger
        head = ledger.head(branch)
        if head is None:
            return Parent(None, None, None)
        owner = ledger.snapshot_owner(head)
        restated = restated_since(ledger, head, owner, self.runner.pipeline.source.table)
        return Parent(head, owner, to_ms(ledger.start_of(head)), restated)

    def lineage(self, parent: Parent, start_ms: int | None = None) -> Lineage:
        """Where the branch that ends at `parent` begins and how far it has come. `start_ms` counts only while
        it is empty.
        """
        if parent.start_ms is None:
            return Lineage(self.runner.pipeline.start_ms if start_ms is None else start_ms, None)
        return Lineage(parent.start_ms, parent.end_ms)

    def stage(self, parent: Parent, slice_: Slice) -> StagedSlice:
        """Run one slice on `parent`, stage its rows and validate them.

        Raises:
            TooEarly: the slice has not settled.
            LeaseHeld: another run is alive.
            SlackwaterError: whatever else ends the run; it is recorded in `attempts` and changes nothing
                else.
        """
        return StageOfSlice(self, parent, slice_).run()


class StageOfSlice:
    """The steps of one slice, timed, logged and recorded. A close has another `kind` and other pins."""

    kind = RowKind.RUN

    def __init__(self, prepared: PreparedRunner, parent: Parent, slice_: Slice) -> None:
        self.prepared = prepared
        self.runner = prepared.runner
        self.pipeline = prepared.runner.pipeline
        self.tables = prepared.tables
        self.parent = parent
        self.slice = slice_
        self.run_id = f"{to_datetime(slice_.from_ms):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:16]}"
        self.phases: dict[str, float] = {}
        self.step = "claim"
        self.attempt = 1
        self.taken = (0, 0.0)

    def run(self) -> StagedSlice:
        started = self.runner.clock()
        self._refuse_unsettled(started)
        attempt = self._claim(started)
        kept = TickCache(self.tables, attempt)
        try:
            with self._way_out(), renewed(self.prepared.attempts, attempt, self.runner.clock):
                row, checks = self._work(started, attempt, kept)
        except BaseException as error:
            self._record_failure(attempt, error)
            kept.keep()
            raise
        outcome = "rejected" if row.verdict == validation.FAILED else "staged"
        attempt = self.prepared.attempts.record(
            attempt,
            self.runner.clock(),
            outcome=outcome,
            verdict=row.verdict,
            step="validate",
            exit_code=4 if outcome == "rejected" else None,
            ledger_row=pack(row, self.parent.row, self.pipeline.describe()),
        )
        if outcome == "rejected":
            kept.keep()
        return StagedSlice(attempt, row, tuple(checks), *self.taken)

    def _work(
        self, started: datetime, attempt: Attempt, kept: TickCache
    ) -> tuple[LedgerRow, list[validation.Check]]:
        with self._phase("pin"):
            changes = self._changes()
            work = self._pinned()
            self._refuse_rows_left_behind(changes, work)
            scan, before = work.scan(), work.progress()
        with self._phase("session"):
            runner = self.runner
            transport = work.transport(scan, runner.engine, runner.transport, runner.ranges)
            transport.start()
        with self._phase("timeline"):
            timeline, after = work.timeline(scan, before, transport, kept)
        with self._phase("replay"):
            outcome = work.replay(
                scan, timeline, after, runner.engine, transport, run_id=self.run_id, ranges=runner.ranges
            )
            self.taken = (outcome.memory_mb, outcome.state_s)
        with self._phase("stage"):
            files = self._commit_staged(outcome)
        with self._phase("validate"):
            noted = [validation.noted(f"setting changed: {change.path}", change.change) for change in changes]
            noted += self._waiting(work)
            noted += self._late_by_mark(before, outcome, files)
            noted += odd_input(
                outcome.counts,
                after,
                self.slice.to_ms,
                staged(self.tables, "quarantine", files["quarantine"]),
            )
            noted += to_be_restated(
                self.pipeline, self.tables.ledger, self.parent.row, self.parent.owner, scan
            )
            checks = self._validate(outcome, files, before.collected, noted)
        return (
            LedgerRow(
                seq=0,
                run_id=self.run_id,
                kind=self.kind,
                branch=MAIN,
                parent_seq=None,
                live=(),
                slice_start=to_datetime(self.slice.from_ms),
                slice_end=to_datetime(self.slice.to_ms),
                attempt=attempt.attempt,
                engine=self.runner.engine.name,
                watermark_in=moment(before.watermark),
                watermark_out=moment(after.watermark),
                inputs=work.inputs(scan, outcome.counts["rows_read"]),
                config_hash=self.runner.config_hash,
                code_hash=self._code_hash(),
                verdict=validation.verdict(checks),
                state_hash=str(outcome.state_hash),
                output_hash=str(outcome.output_hash),
                files=files,
                started_at=started,
                phase_seconds=dict(self.phases),
                version=self.runner.version,
                **cast(Any, outcome.counts),
            ),
            checks,
        )

    def _code_hash(self) -> str:
        """What the row records: the hash of the row before it where that is of the same code."""
        before = self.parent.row
        if before is not None and before.code_hash is None:  # a branch that begins the lineage anew
            before = self.tables.ledger.head()
        return self.runner.code.hash_after(None if before is None else before.code_hash)

    def _refuse_unsettled(self, now: datetime) -> None:
        settled = to_datetime(self.slice.to_ms) + self.pipeline.settle
        if now < settled:
            raise TooEarly(
                f"{self.pipeline.name}: the slice {self.slice} settles at {settled:%Y-%m-%dT%H:%M:%SZ} (its "
                "end and settle = "
                f"{self.pipeline.settle}); it is {now:%Y-%m-%dT%H:%M:%SZ}. Try again then.",
                settled=settled,
            )

    def _claim(self, started: datetime) -> Attempt:
        attempts = self.prepared.attempts
        start, end = to_datetime(self.slice.from_ms), to_datetime(self.slice.to_ms)
        parent_seq = None if self.parent.row is None else self.parent.row.seq
        self.attempt = attempts.tries(start, end) + 1
        wanted = Attempt(
            run_id=self.run_id,
            parent_seq=parent_seq,
            slice_start=start,
            slice_end=end,
            attempt=self.attempt,
            step="claim",
            at=started,
        )
        with self._phase("claim"):
            rivals = _on_branch_of(self.parent.row, self.tables.ledger)
            now = self.runner.clock
            claimed = (
                attempts.claim(wanted, now, rivals) if self.runner.lease else attempts.record(wanted, now())
            )
        if claimed is None:
            holder = [row for row in attempts.holders(self.runner.clock()) if rivals(row)]
            who = (
                f"{holder[0].owner} holds the lease for {holder[0].slice_start:%Y-%m-%dT%H:%M}"
                if holder
                else "the lease is held"
            )
            raise LeaseHeld(
                f"{self.pipeline.name}: another run is alive: {who}. Nothing was changed; try again when it "
                "has ended."
            )
        return claimed

    def _changes(self) -> list[Difference]:
        """Settings that differ from the parent's and are converted with its state."""
        return self._declared.changes(self.parent.owner, self.slice.from_ms, self.parent.start_ms)

    def _refuse_rows_left_behind(self, changes: list[Difference], work: SliceReplay) -> None:
        if changes and self.parent.row is not None:
            live = self.tables.ledger.live_runs(self.parent.row)
            self._declared.refuse_rows_left_to_a_restatement(changes, live, work.pins.source)

    @property
    def _declared(self) -> Declarations:
        return Declarations(self.pipeline, self.runner.config_hash, self.tables)

    def _waiting(self, work: SliceReplay) -> list[validation.Check]:
        """Redriven rows that this run does not know of, because they arrive before its slice."""
        waiting = OverridesReader(self.tables["overrides"]).rows()[len(work.pins.overrides) :]
        if not waiting:
            return []
        earliest = min(row.arrival_time for row in waiting)
        return [
            validation.noted(
                "redriven rows wait for a restatement",
                f"{len(waiting)} rows, from {earliest:%Y-%m-%dT%H:%M:%SZ} on",
            )
        ]

    def _late_by_mark(
        self, before: Progress, outcome: Outcome, files: dict[str, tuple[str, ...]]
    ) -> list[validation.Check]:
        """Late rows that a restatement would take: their windows were collected when less lateness was
        allowed.
        """
        lateness_ms, mark = self.pipeline.allowed_lateness_ms, before.collected
        if not outcome.counts["rows_late"] or mark is None or mark <= before.watermark - lateness_ms:
            return []
        found = late_by_mark(staged(self.tables, "late_events", files["late_events"]), lateness_ms)
        head = (
            self.tables.ledger.head()
            if self.parent.row is None or not self.parent.row.live
            else self.parent.row
        )
        if found is None or head is None:
            return []
        rows, last_instant, arrival = found
        first = LiveMarks.of(self.tables, self.tables.ledger.live_runs(head), self.pipeline).reopened_from(
            last_instant
        )
        sentence = collected_told(self.pipeline.name, f"{rows:,} rows are", first, arrival + 1)
        return [validation.noted("late rows of collected windows", sentence)]

    def _pinned(self) -> SliceReplay:
        owner, overrides = self.parent.owner, OverridesReader(self.tables["overrides"]).rows()
        known = honoured_before(self.tables.ledger, self.parent.row, owner) if overrides else 0
        ledger, restated = self.tables.ledger, self.parent.restated
        pins = Pins.newest(
            self.pipeline,
            self.runner.warehouse,
            owner,
            self.slice.from_ms,
            restated,
            overrides,
            known,
            ledger,
        )
        start_ms = self.slice.from_ms if self.parent.start_ms is None else self.parent.start_ms
        state = put_back(self.tables, owner)
        return SliceReplay(
            self.pipeline, self.prepared.shape, self.tables, self.slice, start_ms, owner, state, pins
        )

    @contextmanager
    def _way_out(self) -> Iterator[None]:
        """A source that was rewritten is refused with the range to restate, one that was replaced with the
        whole of it.
        """
        try:
            yield
        except SourceReplaced as error:
            ways = ways_on(self.pipeline.name, self.parent.start_ms or 0, self.slice.from_ms)
            raise SourceReplaced(f"{self.pipeline.name}: {error.message} {ways}", **error.facts) from error
        except SourceRewritten as error:
            name, least, start = self.pipeline.name, error.facts["least_ms"], self.parent.start_ms or 0
            first = iso(start if least is None else max(cast(int, least), start))
            raise SourceRewritten(
                f"{name}: {error.message} What rests on them has to be restated: `slackwater backfill {name} "
                f"--from {first} --to "
                f"{iso(self.slice.from_ms)}`; or put the rows back (RESTORE version {error.facts['before']}, "
                "append only); "
                f"or, if a law has demanded it, `slackwater erase {self.pipeline.name}` records it and takes "
                "them out of the tables, too.",
                **error.facts,
            ) from error

    def _commit_staged(self, outcome: Outcome) -> dict[str, tuple[str, ...]]:
        """Write what came back to the driver, one file a table, and commit it with what tasks have written.
        Returns files by table.
        """

        def commit(name: str) -> tuple[str, ...]:
            folder = self.tables[name]
            files = list(outcome.files.get(name, []))
            rows = stack(outcome.rows.get(name, []), folder.schema, self.run_id)
            if rows.num_rows:
                files.append(write_staged(folder.uri, self.run_id, "driver", rows.drop_columns(["run_id"])))
            folder.commit_files(files)
            return tuple(file.path for file in files)

        names = staged_tables(self.prepared.shape)
        return dict(zip(names, map_concurrently(commit, names), strict=True))

    def _validate(
        self,
        outcome: Outcome,
        files: dict[str, tuple[str, ...]],
        mark: int | None,
        noted: list[validation.Check],
    ) -> list[validation.Check]:
        panes = staged(self.tables, "panes", files["panes"])
        open_before = 0 if self.parent.owner is None else self.parent.owner.windows_open
        checks = [
            *validation.check_panes(self.pipeline.expect, panes),
            validation.check_conservation(outcome.counts),
            validation.check_life_cycles(outcome.counts, open_before),
            *(
                []
                if self.pipeline.window is None
                else [validation.check_assignments(outcome.counts, outcome.assignments)]
            ),
            *([] if mark is None else [validation.check_collected(mark, earliest_fired(outcome))]),
            *noted,
        ]
        rows = [{"run_id": self.run_id, **asdict(check)} for check in checks]
        self.tables["validations"].append(
            pa.Table.from_pylist(rows, schema=self.tables["validations"].schema)
        )
        return checks

    def _record_failure(self, attempt: Attempt, error: BaseException) -> None:
        outcome = "lost" if isinstance(error, LostRaceError) else "failed"
        code = error.exit_code if isinstance(error, SlackwaterError) else 1
        text = (
            str(error)
            if isinstance(error, SlackwaterError)
            else without_credentials("".join(traceback.format_exception(error))[-4000:])
        )
        try:
            self.prepared.attempts.record(
                attempt, self.runner.clock(), outcome=outcome, exit_code=code, step=self.step, error=text
            )
        except (
            SlackwaterError
        ) as second:  # what stopped the run may stop this, too; the first error is the one to tell
            log.warning(
                f"its failure is not recorded: {second}",
                extra={"pipeline": self.pipeline.name, "run_id": self.run_id},
            )

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        self.step = name
        began = time.perf_counter()
        yield
        self.phases[name] = round(time.perf_counter() - began, 6)
        facts = {
            "pipeline": self.pipeline.name,
            "run_id": self.run_id,
            "attempt": self.attempt,
            "slice": str(self.slice),
        }
        log.info(name, extra={**facts, "seconds": self.phases[name]})


def _on_branch_of(parent: LedgerRow | None, ledger: LedgerReader) -> Callable[[Attempt], bool]:
    """Whether an attempt is at work on the branch that `parent` ends: a restatement is in nobody's way, nor
    is upkeep.
    """
    ours = MAIN if parent is None else parent.branch

    def is_rival(holder: Attempt) -> bool:
        if holder.is_upkeep:
            return False
        branch = (
            ledger.row(holder.parent_seq).branch if holder.parent_seq else MAIN
        )  # what continues a staged slice is main's
        return branch == ours

    return is_rival
