"""Makes staged runs live: one compare-and-swap on the ledger, then the roll-forward.

A chain of staged slices is committed whole, in one Delta commit, or not at all. Needs no Spark and no source.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from slackwater.jobs.errors import LostRaceError, RejectedError, RetryableError, UsageError
from slackwater.jobs.protocol.publishing.roll_forward import RollForward
from slackwater.jobs.protocol.staging import tick_cache, validation
from slackwater.jobs.protocol.staging.declarations import Declarations
from slackwater.jobs.protocol.staging.run import wall_clock
from slackwater.jobs.tables.errors import SnapshotGone
from slackwater.jobs.tables.ledger.attempts import Attempt, AttemptsWriter
from slackwater.jobs.tables.ledger.rows import MAIN, LedgerRow
from slackwater.jobs.tables.run_files.snapshots import put_back
from slackwater.jobs.tables.run_files.staging import unpack
from slackwater.jobs.tables.warehouse import Tables

log = logging.getLogger("slackwater")

Chain = list[tuple[Attempt, LedgerRow]]


class NotStaged(UsageError):
    """The run was never staged, or ended in another way."""


class StagedStateGone(RetryableError):
    """The state that a run has staged was dropped, and its files are deleted: another try at its slice stages
    it again.
    """


class RejectedByValidation(RejectedError):
    """A run of the chain was rejected and is not accepted."""


@dataclass(frozen=True)
class Publisher:
    """Publishes staged runs of one pipeline.

    Attributes:
        pipeline: its name.
        tables: its tables.
        roll_forward: how its published table follows.
        clock: the wall clock.
        declared: what the pipeline declares now, for what was staged before; None: it was staged by these
            declarations.
    """

    pipeline: str
    tables: Tables
    roll_forward: RollForward
    clock: Callable[[], datetime] = wall_clock
    declared: Declarations | None = None

    def publish(self, run_id: str | None = None, accept: str | None = None) -> list[LedgerRow]:
        """Commit every staged slice up to `run_id` (default: the newest staged run that continues main) and
        roll forward.

        Returns the rows committed now; none when they were committed before, or nothing that is staged
        continues main. `accept` is the reason to commit in spite of a failed verdict; it is recorded.

        Raises:
            NotStaged, RejectedByValidation, LostRaceError.
            SettingsChanged: what is staged was declared with other rules than today's.
        """
        self.roll_forward.finish()
        chain = self._chain(run_id)
        if not chain:
            return []
        if self.declared is not None:
            for _, row in chain:
                self.declared.refuse_other_rules(row)
        refused = [row for _, row in chain if row.verdict == validation.FAILED]
        if refused and accept is None:
            raise RejectedByValidation(
                f"{self.pipeline}: run {refused[0].run_id} was rejected by validation and moves nothing. "
                "Look at it with "
                f"`slackwater runs {self.pipeline}` and the table `validations`; publish it all the same "
                "with "
                f"`slackwater publish {self.pipeline} {chain[-1][1].run_id} --accept REASON`.",
                run_id=refused[0].run_id,
            )
        parent = self._continued(chain[0][0])
        attempts, rows = [attempt for attempt, _ in chain], [_accepted(row, accept) for _, row in chain]
        return self.commit(
            attempts, rows, None if parent is None else parent.seq, MAIN if parent is None else parent.branch
        )

    def commit(
        self, attempts: list[Attempt], rows: list[LedgerRow], parent_seq: int | None, branch: str = MAIN
    ) -> list[LedgerRow]:
        """Commit the runs `rows` on `branch` if its head is still `parent_seq`, record it and roll forward
        what main has open. Returns no rows where another publisher of the same ones was first: they are live.

        Raises:
            StagedStateGone: what a run has staged is not there to be continued; nothing was changed.
            LostRaceError: the head has moved; nothing was changed but `attempts`, which say so.
        """
        self._require_state(rows)
        log_of = AttemptsWriter(self.tables["attempts"])
        try:
            bound = self.tables.ledger_writer.commit(branch, parent_seq, rows, self.clock)
        except LostRaceError as error:
            if self.tables.ledger.by_run_id(rows[-1].run_id) is not None:
                self.roll_forward.finish()
                return []
            if self.tables.ledger.by_run_id(rows[0].run_id) is not None:
                # somebody has published the first rows of the chain; the others continue them and stay staged
                raise
            for attempt in attempts:
                log_of.record(
                    attempt,
                    self.clock(),
                    outcome="lost",
                    exit_code=error.exit_code,
                    step="publish",
                    error=str(error),
                )
            raise
        log.info(
            "publish", extra={"pipeline": self.pipeline, "seq": bound[-1].seq, "run_id": bound[-1].run_id}
        )
        self.roll_forward.finish()
        log.info(
            "roll forward",
            extra={"pipeline": self.pipeline, "seq": bound[-1].seq, "run_id": bound[-1].run_id},
        )
        for attempt, row in zip(attempts, bound, strict=True):
            log_of.record(
                attempt, self.clock(), outcome="committed", verdict=row.verdict, exit_code=0, step="publish"
            )
        if any(attempt.attempt > 1 or attempt.outcome == "rejected" for attempt in attempts):
            tick_cache.drop_ticks(self.tables)
        return bound

    def _require_state(self, rows: list[LedgerRow]) -> None:
        """Refuse to make runs live whose snapshots the log does not have: upkeep that believed them dead may
        have dropped them. What it drops from here on it puts back itself, when it sees that they are live, or
        staged on the head."""
        for row in rows:
            try:
                put_back(self.tables, row)
            except SnapshotGone as error:
                raise StagedStateGone(
                    f"{self.pipeline}: run {row.run_id} can't be published: {error.message} Nothing was "
                    "changed; run its slice "
                    f"[{row.slice_start:%Y-%m-%dT%H:%M}, {row.slice_end:%Y-%m-%dT%H:%M}) again.",
                    run_id=row.run_id,
                ) from error

    def _chain(self, run_id: str | None) -> Chain:
        """The staged slices up to `run_id` that are not committed yet, oldest first."""
        if run_id is None:
            return self._newest_chain()
        attempt = self.tables.attempts.find(run_id)
        if attempt is None:
            raise NotStaged(
                f"{self.pipeline}: there is no run {run_id}; `slackwater runs {self.pipeline}` lists the "
                "runs.",
                run_id=run_id,
            )
        return self._chain_to(attempt)

    def _newest_chain(self) -> Chain:
        """The chain of the newest staged run that continues main; empty when none does."""
        head = self.tables.ledger.head()
        for attempt in reversed(self.tables.attempts.newest_rows()):
            if attempt.outcome == "staged":
                chain = self._chain_to(attempt)
                parent = self._continued(chain[0][0]) if chain else None
                if chain and (None if parent is None else parent.seq) == (None if head is None else head.seq):
                    return chain
        return []

    def _chain_to(self, last: Attempt) -> Chain:
        attempt: Attempt | None = last
        chain: Chain = []
        while attempt is not None and self.tables.ledger.by_run_id(attempt.run_id) is None:
            if attempt.ledger_row is None:
                raise NotStaged(
                    f"{self.pipeline}: run {attempt.run_id} is {attempt.outcome}, not staged; `slackwater "
                    f"runs {self.pipeline}` lists the "
                    "runs.",
                    run_id=attempt.run_id,
                )
            parent, row = unpack(attempt.ledger_row)
            chain.insert(0, (attempt, row))
            attempt = None if parent is None else self.tables.attempts.find(parent)
        return chain

    def _continued(self, first: Attempt) -> LedgerRow | None:
        """The committed row that the chain continues, on its branch; None where it begins the lineage."""
        assert first.ledger_row is not None
        parent, _ = unpack(first.ledger_row)
        return None if parent is None else self.tables.ledger.by_run_id(parent)


def _accepted(row: LedgerRow, reason: str | None) -> LedgerRow:
    return (
        replace(row, verdict=f"accepted: {reason}")
        if row.verdict == validation.FAILED and reason is not None
        else row
    )
