"""The restatement: replays a range on a branch, slice after slice, until the branch converges with main,
and makes the branch live.

    fork -> replay a slice -> commit it on the branch -> converged, or at main's end? -> publish
                  ^                                        | no           ^                | main has moved
                  +----------------------------------------+              +-- catch up <---+

Every finished slice is a commit on the branch: a killed restatement is resumed behind it. Main changes
once, at the publication. `restatement` cuts the range and decides, `publish_branch` commits.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from slackwater import args
from slackwater.errors import LostRaceError, PermanentError, RetryableError, UsageError
from slackwater.runs.lineage.history import require_history
from slackwater.runs.publishing.evaluator import Evaluator
from slackwater.runs.restating import branches, restatement
from slackwater.runs.restating.branches import Origin, is_preview
from slackwater.runs.restating.publish_branch import BranchPublication, BranchPublisher
from slackwater.runs.restating.restatement import Restatement, runs_behind, slices_from
from slackwater.runs.staging.run import Runner
from slackwater.runs.staging.slices import Slice, end_of, iso
from slackwater.runs.staging.staged_slice import Parent, StagedSlice
from slackwater.tables.ledger.lineage_rows import drop_row, fork_row
from slackwater.tables.ledger.rows import MAIN, Branch, LedgerRow
from slackwater.tables.ledger.spans import count_of, in_common, rest_behind, seqs_of, up_to
from slackwater.tables.run_files.snapshots import is_kept, put_back_around
from slackwater.windowing.times import to_ms

log = logging.getLogger("slackwater")

LOSSES = 3


class MainMoved(RetryableError):
    """Main kept moving, or is no longer what the branch was forked from. The branch is kept."""


@dataclass(frozen=True)
class BackfillRequest:
    """What `slackwater backfill` was asked for; times and lengths in milliseconds. `whatever_the_code`: equal
    state alone is convergence (`--until-converged`); without `publish` the branch is left as a preview;
    `slice_ms`: length of the branch's slices (None: main's own cuts).
    """

    pipeline: str
    from_ms: int
    to_ms: int
    whatever_the_code: bool = False
    publish: bool = True
    slice_ms: int | None = None
    reason: str | None = None
    engine: str | None = None
    ranges: int | None = None


@dataclass(frozen=True)
class _BranchTip:
    """The branch's last run, and main's runs that stay live behind it; none at main's end."""

    parent: Parent
    later_runs: Sequence[LedgerRow]


@dataclass
class Backfill:
    """Restates what a request asks for.

    Attributes:
        branch_rows: the ledger rows of the slices run by this process.
        publication: the row that made the branch live.
        message: the last line, without the pipeline's name.
    """

    request: BackfillRequest
    runner: Callable[[], Runner]
    lines: Callable[[str], object] = print
    staged_slices: list[StagedSlice] = field(default_factory=list)
    branch_rows: list[LedgerRow] = field(default_factory=list)
    publication: LedgerRow | None = None
    message: str = ""

    @property
    def pipeline(self) -> str:
        return self.request.pipeline

    @property
    def stale_slices(self) -> Sequence[Slice]:
        """None: what is restated is as the source is now."""
        return ()

    @property
    def publications(self) -> list[LedgerRow]:
        return [] if self.publication is None else [self.publication]

    def say(self, sentence: str) -> None:
        self.message = sentence
        self.lines(f"{self.pipeline}: {sentence}")

    def outcome(self) -> tuple[args.Outcome, str]:
        return "kept" if self.publication is None else "published", self.message

    def run(self) -> LedgerRow | None:
        """Replay the range on a branch and make it live. Returns the row that did; None for an unpublished
        preview. Raises MainMoved: try again, what was replayed is kept; SliceRejected: main and slices before
        it stay.
        """
        self.publication = _Restating(self, self.runner()).run()
        return self.publication


class _Restating:
    """The steps of one backfill."""

    def __init__(self, backfill: Backfill, runner: Runner) -> None:
        self.backfill, self.request = backfill, backfill.request
        self.runner, self.tables, self.pipeline = runner, runner.tables, runner.pipeline
        self.name = self.pipeline.name
        self.ledger = self.tables.ledger_writer
        self.steps = Evaluator(
            runner,
            backfill.lines,
            staged_slices=backfill.staged_slices,
            committed_rows=backfill.branch_rows,
        )
        self.roll_forward = self.steps.publisher.roll_forward
        self._branches = BranchPublisher(
            self.pipeline, runner.warehouse, self.tables, self.roll_forward, runner.clock
        )

    def run(self) -> LedgerRow | None:
        self.roll_forward.finish()
        main = self.ledger.head(MAIN)
        live = () if main is None else self.ledger.live_runs(main)
        range_ = restatement.restate(
            self.name, live, self.request.from_ms, self.request.to_ms, partial(is_kept, self.tables)
        )
        assert main is not None, "of no runs there is nothing to restate"
        for sentence in range_.adjustments:
            self.backfill.say(f"{sentence}.")
        origin = Origin(self.runner, main, range_, self.request.slice_ms, is_preview=not self.request.publish)
        live_branch = origin.live_branch()
        if live_branch is not None:  # an earlier process died between its publication and the branch's end
            self._branches.conclude(live_branch)
            self._say_what_changed(main)
            return main
        require_history(
            self.name,
            self.tables,
            () if range_.owner is None else seqs_of(up_to(main.live, range_.owner.seq)),
        )
        branch = origin.resumable() or self._fork(origin)
        if branch.own_seqs:
            self.backfill.say(
                f"goes on with the branch {branch.name} behind its {len(branch.own_seqs)} finished slices."
            )
        try:
            return self._until_published(range_, branch)
        except (PermanentError, UsageError):
            self._drop_if_empty(branch.name)
            raise

    def _drop_if_empty(self, name: str) -> None:
        """End a branch on which nothing could be run: nobody can go on with it."""
        branch = self.ledger.branch(name)
        if branch is not None and not branch.own_seqs:
            self.ledger.commit(name, branch.head.seq, [drop_row(branch)], self.runner.clock)

    def _until_published(self, range_: Restatement, branch: Branch) -> LedgerRow | None:
        if self.ledger.branch(branch.name) is None:
            raise self._branch_has_ended(branch.name)
        parent = self.runner.parent(branch.name)
        for _ in range(LOSSES):
            main = self.ledger.head(MAIN)
            assert main is not None, "no row of the ledger is ever removed"
            _refuse_other_past(self.name, branch, main)
            tip = self._advance(range_, branch.name, parent, self.ledger.live_runs(main))
            parent = tip.parent
            if not self.request.publish:
                self._leave(branch.name, parent)
                self._say_what_waits(range_, parent)
                return None
            if is_preview(branch):
                self._publication(main, branch.name, range_, tip).refuse_unseen(self.name, branch.head.seq)
            row = self._publish(main, branch.name, range_, tip)
            if row is not None:
                self._say_what_waits(range_, parent)
                return row
            self.backfill.say(f"main has moved meanwhile; the branch {branch.name} catches up.")
        raise MainMoved(
            f"{self.name}: main has moved {LOSSES} times while the branch {branch.name} was about to be "
            "published. The branch is kept; run the same command again to go on with it.",
            branch=branch.name,
        )

    def _fork(self, origin: Origin) -> Branch:
        start_ms = to_ms(self.ledger.start_of(origin.main))
        self.runner.declarations.changes(origin.range.owner, origin.range.from_ms, start_ms)
        name, dropped_seq = origin.free_name()
        row = fork_row(name, origin.main, origin.range.owner, self.ledger.start_of(origin.main))
        with put_back_around(self.tables, origin.range.owner):
            self.ledger.commit(name, dropped_seq, [row], self.runner.clock)
        self.backfill.say(f"restates {origin.range} on the branch {name}.")
        branch = self.ledger.branch(name)
        if branch is None:
            raise self._branch_has_ended(name)
        return branch

    def _branch_has_ended(self, name: str) -> MainMoved:
        return MainMoved(
            f"{self.name}: the branch {name} was published or dropped meanwhile; run the same command again.",
            branch=name,
        )

    def _advance(
        self, range_: Restatement, name: str, parent: Parent, live: Sequence[LedgerRow]
    ) -> _BranchTip:
        """Replay slice after slice, until main's runs behind the branch may stay, or there are none."""
        assert parent.row is not None and parent.start_ms is not None
        rows_read_again = branches.ReadAgain(
            self.pipeline,
            self.runner.warehouse,
            live,
            parent.start_ms,
            self.tables,
        )
        at_ms = range_.from_ms if parent.end_ms is None else parent.end_ms
        slices = slices_from(range_, live, at_ms, self.request.slice_ms, parent.start_ms)
        log.debug("slices", extra={"slices": len(self.backfill.staged_slices) + len(slices)})
        for slice_ in slices:
            branch_runs = self._branch_runs(range_, parent)
            if branch_runs and slice_.from_ms >= range_.to_ms:
                later_runs = runs_behind(live, slice_.from_ms)
                if self._has_converged(
                    branch_runs, restatement.run_ending_at(live, slice_.from_ms), later_runs, rows_read_again
                ):
                    return _BranchTip(parent, later_runs)
            parent = self.steps.execute(slice_, parent, name)
        return _BranchTip(parent, ())

    def _branch_runs(self, range_: Restatement, parent: Parent) -> Sequence[LedgerRow]:
        assert parent.row is not None
        live = parent.row.live
        own_spans = live if range_.owner is None else rest_behind(live, range_.owner.seq)
        return self.ledger.live_runs(replace(parent.row, live=own_spans))

    def _has_converged(
        self,
        branch_runs: Sequence[LedgerRow],
        run_at_boundary: LedgerRow | None,
        later_runs: Sequence[LedgerRow],
        rows_read_again: "branches.ReadAgain",
    ) -> bool:
        """Whether main's `later_runs` may stay live behind the branch, which ends at `run_at_boundary`."""
        if run_at_boundary is None:
            return False
        boundary = end_of(run_at_boundary)
        reason = restatement.why_not_converged(
            branch_runs,
            run_at_boundary,
            later_runs,
            rows_read_again.before(boundary, branch_runs[-1]),
            whatever_the_code=self.request.whatever_the_code,
        )
        if reason is None and self.request.whatever_the_code:
            reason = self.runner.declarations.why_not_continued(later_runs[-1])
        verb = "has converged" if reason is None else "has not converged"
        self.backfill.say(f"at {iso(boundary)} the branch {verb}{'' if reason is None else f': {reason}'}.")
        return reason is None

    def _leave(self, name: str, parent: Parent) -> None:
        assert parent.end_ms is not None
        self.backfill.say(
            f"the branch {name} ends at {iso(parent.end_ms)} and is not live. `slackwater diff {self.name} "
            f"--branch {name}` shows, to the row, what publishing it changes; the same command without "
            f"--preview publishes it, and `slackwater branches drop {self.name} {name}` gives it up."
        )

    def _publication(
        self, main: LedgerRow, name: str, range_: Restatement, tip: _BranchTip
    ) -> BranchPublication:
        branch = self.ledger.branch(name)
        if branch is None:
            raise self._branch_has_ended(name)
        return BranchPublication(
            main=main,
            branch=branch,
            branch_runs=self._branch_runs(range_, tip.parent),
            later_runs=tip.later_runs,
        )

    def _publish(self, main: LedgerRow, name: str, range_: Restatement, tip: _BranchTip) -> LedgerRow | None:
        """Make the branch live; None where main has moved."""
        publication = self._publication(main, name, range_, tip)
        try:
            row = self._branches.publish(publication, self._notes(keeps_later_runs=bool(tip.later_runs)))
        except LostRaceError:
            return None
        self._say_what_changed(row)
        return row

    def _notes(self, *, keeps_later_runs: bool) -> list[str]:
        """What the publication records: a check that the request waived, and its reason."""
        notes = []
        if keeps_later_runs and self.request.whatever_the_code:
            notes.append("until converged: code and settings were not compared")
        if self.request.reason:
            notes.append(f"reason: {self.request.reason}")
        return notes

    def _say_what_waits(self, range_: Restatement, tip: Parent) -> None:
        sentence = branches.rows_left_waiting(self.tables, self.name, self._branch_runs(range_, tip))
        if sentence is not None:
            self.backfill.say(sentence)

    def _say_what_changed(self, row: LedgerRow) -> None:
        self.backfill.say(f"published as run {row.seq}; {branches.changed_by(self.tables, row.seq)}")


def _refuse_other_past(pipeline: str, branch: Branch, main: LedgerRow) -> None:
    """Refuse a branch whose beginning a restatement or a restore has replaced on main."""
    if in_common(branch.fork.live, main.live) < count_of(branch.fork.live):
        raise MainMoved(
            f"{pipeline}: main was restated or restored before the point where the branch {branch.name} "
            "forks. The branch is kept; run the same command again to restate from what is live now.",
            branch=branch.name,
        )
