"""Makes staged runs live: one compare-and-swap on the ledger, then the roll-forward.

    live            staged                     a chain, each slice staged on the one before
    run 1 - run 2 - run a - run b - run c      publishing run b commits a and b at once

A chain is committed in one Delta commit or not at all. Before that the tables are asked whether they still
have the rows that the runs have staged: without it what a log has lost since would be published as if nobody
had ever staged it. Needs no Spark and no source.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

import pyarrow.compute as pc

from slackwater.errors import LostRaceError, RejectedError, RetryableError, UsageError
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.staging import validation
from slackwater.runs.staging.declarations import Declarations
from slackwater.runs.staging.run import wall_clock
from slackwater.runs.staging.staged_slice import with_acceptance
from slackwater.tables.delta.stored_files import Within
from slackwater.tables.errors import SnapshotGone
from slackwater.tables.ledger.attempts import LEASE, Attempt, AttemptsWriter
from slackwater.tables.ledger.rows import MAIN, LedgerRow
from slackwater.tables.run_files.snapshots import put_back, put_back_for_reading
from slackwater.tables.run_files.staging import unpack
from slackwater.tables.schemas import SIDE, SNAPSHOT_TABLES
from slackwater.tables.warehouse import Tables

log = logging.getLogger("slackwater")

Chain = list[tuple[Attempt, LedgerRow]]


class NotStaged(UsageError):
    """The run to be published does not exist, or has not ended as staged."""


class StagedStateGone(RetryableError):
    """The snapshot that a run has staged was dropped, and its files are deleted, or rows that it has staged
    are gone: another try at its slice stages it again.
    """


class RejectedByValidation(RejectedError):
    """Validation has rejected a run of the chain, and no reason to accept it was given."""


@dataclass(frozen=True)
class Publisher:
    """Publishes staged runs of one pipeline. The declarations of the runs are checked against `declarations`;
    None: the caller has just staged the runs by today's.
    """

    pipeline: str
    tables: Tables
    roll_forward: RollForward
    clock: Callable[[], datetime] = wall_clock
    declarations: Declarations | None = None

    def publish(self, run_id: str | None = None, accept: str | None = None) -> list[LedgerRow]:
        """Commit every staged slice up to `run_id` (default: the newest staged run that continues main) and
        roll forward. Returns the rows committed now; none when they were committed before, or nothing
        continues main. `accept` is the recorded reason to commit in spite of a failed verdict.

        Raises:
            NotStaged, RejectedByValidation, LostRaceError.
            SettingsChanged: a staged run was declared with other rules than today's.
        """
        self.roll_forward.finish()
        chain = self.chain(run_id)
        if not chain:
            return []
        if self.declarations is not None:
            for _, row in chain:
                self.declarations.refuse_other_rules(row)
        rejected_runs = [row for _, row in chain if row.verdict == validation.FAILED]
        if rejected_runs and accept is None:
            raise RejectedByValidation(
                f"{self.pipeline}: run {rejected_runs[0].run_id} was rejected by validation and moves "
                f"nothing. Look at it with `slackwater runs {self.pipeline}` and the table `validations`; "
                f"publish it all the same with `slackwater publish {self.pipeline} {chain[-1][1].run_id} "
                "--accept REASON`.",
                run_id=rejected_runs[0].run_id,
            )
        parent = self._parent_of(chain[0][0])
        attempts = [attempt for attempt, _ in chain]
        rows = [with_acceptance(row, accept) for _, row in chain]
        return self.commit(
            attempts, rows, None if parent is None else parent.seq, MAIN if parent is None else parent.branch
        )

    def commit(
        self, attempts: list[Attempt], rows: list[LedgerRow], parent_seq: int | None, branch: str = MAIN
    ) -> list[LedgerRow]:
        """Commit the runs `rows` on `branch` if its head is still `parent_seq`, record that in `attempts`,
        and roll main forward. Returns no rows where another publisher of the same runs was first: they are
        live.

        Raises:
            StagedStateGone: the snapshot of a run is gone, or rows that it has staged; nothing was changed.
            LostRaceError: the head has moved; nothing was changed but `attempts`, which say so.
        """
        self._require_state(attempts, rows)
        self._require_rows(rows)
        log_of = AttemptsWriter(self.tables["attempts"])
        try:
            committed_rows = self.tables.ledger_writer.commit(branch, parent_seq, rows, self.clock)
        except LostRaceError as error:
            if self.tables.ledger.by_run_id(rows[-1].run_id) is not None:
                self.roll_forward.finish()
                return []
            if self.tables.ledger.by_run_id(rows[0].run_id) is not None:
                # Somebody has published the first rows of the chain. The others continue them and stay
                # staged.
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
        newest = committed_rows[-1]
        facts = {"pipeline": self.pipeline, "seq": newest.seq, "run_id": newest.run_id}
        log.info("publish", extra=facts)
        self.roll_forward.finish_known()
        log.info("roll forward", extra=facts)
        for attempt, row in zip(attempts, committed_rows, strict=True):
            log_of.record(
                attempt, self.clock(), outcome="committed", verdict=row.verdict, exit_code=0, step="publish"
            )
        return committed_rows

    def _require_state(self, attempts: list[Attempt], rows: list[LedgerRow]) -> None:
        """Refuse to make runs live whose snapshots upkeep has dropped because it believed the runs dead,
        which it does not before their lease has expired. A snapshot dropped from here on upkeep puts back
        itself, when it sees that the run is live, or staged on the head.
        """
        for attempt, row in zip(attempts, rows, strict=True):
            is_young = attempt.claimed_at is not None and self.clock() < attempt.claimed_at + LEASE
            try:
                (put_back_for_reading if is_young else put_back)(self.tables, row)
            except SnapshotGone as error:
                raise self._cannot_publish(row, error.message) from error

    def _require_rows(self, rows: list[LedgerRow]) -> None:
        for row in rows:
            for table, recorded, stored in missing_rows(self.tables, row):
                raise self._cannot_publish(
                    row,
                    f"the table {table} has {stored:,} of its rows, and it has staged {recorded:,}. Somebody "
                    "has removed files or commits of that table.",
                )

    def _cannot_publish(self, row: LedgerRow, reason: str) -> StagedStateGone:
        return StagedStateGone(
            f"{self.pipeline}: run {row.run_id} can't be published: {reason} Nothing was changed; run its "
            f"slice [{row.slice_start:%Y-%m-%dT%H:%M}, {row.slice_end:%Y-%m-%dT%H:%M}) again.",
            run_id=row.run_id,
        )

    def chain(self, run_id: str | None) -> Chain:
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
        """The chain of the newest staged run that continues main; empty where no staged run does."""
        head = self.tables.ledger.head()
        for attempt in reversed(self.tables.attempts.newest_rows()):
            if attempt.outcome == "staged":
                chain = self._chain_to(attempt)
                parent = self._parent_of(chain[0][0]) if chain else None
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

    def _parent_of(self, first: Attempt) -> LedgerRow | None:
        """The committed row that the first run of a chain continues; None where it begins the lineage."""
        assert first.ledger_row is not None
        parent, _ = unpack(first.ledger_row)
        return None if parent is None else self.tables.ledger.by_run_id(parent)


_AT_ONCE = 1 << 20
_COUNTS = {"late_events": "rows_late", "quarantine": "rows_quarantined"}  # table → what the ledger row says


def missing_rows(tables: Tables, row: LedgerRow) -> Iterator[tuple[str, int, int]]:
    """(table, rows recorded, rows there) of the tables that have other rows of a staged run than it has
    recorded. Where upkeep has merged its files with others, its rows are counted.
    """
    names = [name for name in row.files if name not in SNAPSHOT_TABLES and name in tables.folders]
    output = [name for name in names if name == "panes" or name.startswith(SIDE)]
    if any(_lacks_file(tables, name, row) for name in output):
        recorded_count = 0 if row.output_hash is None else int(row.output_hash.partition(":")[0])
        yield from _difference(tables, output, row, recorded_count)
    for name, count in _COUNTS.items():
        if name in names and _lacks_file(tables, name, row):
            yield from _difference(tables, [name], row, getattr(row, count))


def _difference(
    tables: Tables, names: list[str], row: LedgerRow, recorded_count: int
) -> Iterator[tuple[str, int, int]]:
    erased = sum(tables.ledger.remainders().rows(row.run_id, name) for name in names)
    stored_count = sum(
        part.num_rows
        for name in names
        for part in tables[name]
        .files(Within.only("run_id", row.run_id))
        .scan(["run_id"], pc.field("run_id") == row.run_id, _AT_ONCE)
    )
    if stored_count != recorded_count - erased:
        yield names[0], recorded_count - erased, stored_count


def _lacks_file(tables: Tables, name: str, row: LedgerRow) -> bool:
    """Whether the log lacks a file that the run has written, as far as this process knows the log."""
    if not row.files[name]:
        return False
    folder = tables[name]
    known_paths = folder.files(Within.only("run_id", row.run_id), table=folder.newest_known()).paths
    return not set(row.files[name]) <= set(known_paths)
