"""What moves a lineage: fork, restore and drop, which run nothing, and close. Each is one ledger row, by
compare-and-swap, and a roll-forward.

A close is a final watermark at the end of the last slice: every window that waits for event time fires, and
no row is read. It is staged, validated and published as a slice is. What waits for the clock alone stays
pending. The others need neither Spark nor the source.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from slackwater.errors import UsageError
from slackwater.pipelines import Pipeline
from slackwater.runs.lineage.history import while_history_stays
from slackwater.runs.publishing.evaluator import Evaluator
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.staging.declarations import Declarations
from slackwater.runs.staging.run import wall_clock
from slackwater.runs.staging.slices import Slice
from slackwater.tables.ledger.lineage_rows import check_branch_name, drop_row, fork_row, restore_row
from slackwater.tables.ledger.reader import LedgerReader
from slackwater.tables.ledger.rows import MAIN, Branch, LedgerRow, RowKind
from slackwater.tables.ledger.spans import seqs_of
from slackwater.tables.ledger.writer import LedgerWriter
from slackwater.tables.run_files.snapshots import nearest_kept, put_back_around, require_kept
from slackwater.tables.warehouse import Tables
from slackwater.windowing import ContinuousEventTimeTrigger, GlobalWindows

log = logging.getLogger("slackwater")


class NoBranch(UsageError):
    """There is no branch of that name."""


class BranchExists(UsageError):
    """There is a branch of that name already."""


class NotOfMain(UsageError):
    """A ledger row that main never had."""


def find_branch(ledger: LedgerReader, pipeline: str, name: str) -> Branch:
    branch = ledger.branch(name)
    if branch is None:
        names = ", ".join(item.name for item in ledger.branches())
        choices = f"the branches are {names}" if names else "it has none beside main"
        raise NoBranch(f"{pipeline}: there is no branch {name}; {choices}.", branch=name)
    return branch


@dataclass(frozen=True)
class Moves:
    """Moves of one pipeline's lineage, each behind the open roll-forwards, as every writing command."""

    pipeline: str
    tables: Tables
    roll_forward: RollForward
    declarations: Declarations
    clock: Callable[[], datetime] = wall_clock

    @property
    def _ledger(self) -> LedgerWriter:
        return self.tables.ledger_writer

    def fork(self, name: str, seq: int | None = None) -> LedgerRow:
        """Make the branch `name` behind the run `seq` (default: main's head), or the newest run before it
        whose snapshot is kept. A run that is not live any more is forked from as main was after that row.

        Raises:
            BranchExists, BadBranchName, NotOfMain.
            SnapshotGone: retention has dropped the snapshot and all before it.
            LostRaceError: somebody else made it first.
        """
        self.roll_forward.finish()
        check_branch_name(name)
        ledger, head = self._ledger, self._head()
        namesake = ledger.head(name)
        if namesake is not None and namesake.kind != RowKind.DROP:
            raise BranchExists(
                f"{self.pipeline}: there is a branch {name} already; take another name, or drop it with "
                "`slackwater branches drop "
                f"{self.pipeline} {name}`.",
                branch=name,
            )
        of = head if seq is None or seq in seqs_of(head.live) else self._row_of_main(seq)
        live = ledger.live_runs(of)
        if seq is not None and seq in seqs_of(of.live):
            live = live[: seqs_of(of.live).index(seq) + 1]
        owner = nearest_kept(self.tables, live)
        if owner is None and live:
            require_kept(self.tables, self.pipeline, live[-1], live)
        row = fork_row(name, of, owner, ledger.start_of(of))
        with put_back_around(self.tables, owner):
            [new_head] = ledger.commit(name, None if namesake is None else namesake.seq, [row], self.clock)
        self._log("fork", new_head)
        return new_head

    def restore(self, seq: int) -> LedgerRow | None:
        """Make live again exactly what was live in main after the row `seq`; `published` follows. None: it is
        live as it is.

        Raises:
            NotOfMain: main never had that row.
            SettingsChanged: the row was declared with other rules than today's.
            SnapshotGone, HistoryDropped: retention has dropped what main would continue, or would take back.
            LostRaceError: main moved meanwhile.
        """
        self.roll_forward.finish()
        ledger, head, to = self._ledger, self._head(), self._row_of_main(seq)
        if to.live == head.live:
            return None
        owner = ledger.snapshot_owner(to)
        self.declarations.refuse_other_rules(owner)
        if owner is not None:
            require_kept(self.tables, self.pipeline, owner, ledger.live_runs(to))
        row = restore_row(head, to, owner, ledger.start_of(to))
        drops_history = self.declarations.pipeline.keep_history is not None
        with while_history_stays(
            self.pipeline, self.tables, seqs_of(to.live), self.clock, drops_history=drops_history
        ):
            with put_back_around(self.tables, owner):
                [new_head] = ledger.commit(MAIN, head.seq, [row], self.clock)
            self._log("restore", new_head)
            self.roll_forward.finish()
        return new_head

    def drop(self, name: str) -> LedgerRow:
        """End a branch. What main has taken of it stays."""
        self.roll_forward.finish()
        branch = find_branch(self._ledger, self.pipeline, name)
        [new_head] = self._ledger.commit(name, branch.head.seq, [drop_row(branch)], self.clock)
        self._log("drop", new_head)
        return new_head

    def _head(self) -> LedgerRow:
        head = self._ledger.head(MAIN)
        if head is None:
            raise UsageError(
                f"{self.pipeline} has no committed run yet; `slackwater run {self.pipeline} --to TIME` makes "
                "the first."
            )
        return head

    def _row_of_main(self, seq: int) -> LedgerRow:
        """A row of main, or a run of a branch that main has taken; its `live` is main's at that point."""
        row = self._ledger.row(seq)
        if row.branch == MAIN:
            return row
        if row.kind == RowKind.RUN and any(
            row.is_live_in(later) for later in self._ledger.rows(since=seq) if later.branch == MAIN
        ):
            return row
        raise NotOfMain(
            f"{self.pipeline}: row {seq} is of the branch {row.branch} and was never live in main; "
            f"`slackwater publish {self.pipeline} "
            f"{row.branch}` makes a branch live.",
            seq=seq,
        )

    def _log(self, step: str, row: LedgerRow) -> None:
        log.info(step, extra={"pipeline": self.pipeline, "seq": row.seq, "run_id": row.run_id})


class NothingToClose(UsageError):
    """The lineage has not run yet."""


class NeverEnds(UsageError):
    """At the final watermark the trigger would fire for ever."""


def refuse_endless(pipeline: Pipeline) -> None:
    """Refuse a trigger that fires for ever in a window without an end, as it would in Flink."""
    trigger = None if pipeline.window is None else pipeline.effective_trigger
    innermost = None if trigger is None else trigger.innermost
    if isinstance(innermost, ContinuousEventTimeTrigger) and isinstance(pipeline.window, GlobalWindows):
        raise NeverEnds(
            f"{pipeline.name}: at the final watermark {innermost!r} would fire in the global window for each "
            "of its intervals until the end "
            "of time. Leave the lineage open; its windows fire as the watermark goes on."
        )


def close(steps: Evaluator) -> LedgerRow | None:
    """Close main; None where it is closed. Raises NothingToClose, NeverEnds, and as `Evaluator.execute`."""
    runner = steps.runner
    steps.publisher.roll_forward.finish()
    refuse_endless(runner.pipeline)
    parent = runner.parent()
    if parent.row is None or parent.owner is None or parent.end_ms is None:
        name = runner.pipeline.name
        raise NothingToClose(
            f"{name} has no runs yet, so nothing is open; `slackwater run {name} --to TIME` makes the first."
        )
    if parent.owner.kind == RowKind.CLOSE:
        return None
    return steps.execute(Slice(parent.end_ms, parent.end_ms), parent, is_close=True).row
