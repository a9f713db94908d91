"""Makes a branch live: one ledger row on main by compare-and-swap, the roll-forward, and the end of the
branch. Says beforehand what that would change in `published`.

Which of main's later runs may stay behind it is decided by `why_not_converged`; replaying what is missing is
a restatement's business.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from slackwater.errors import LostRaceError, SlackwaterError, UsageError
from slackwater.pipelines import Pipeline
from slackwater.pipelines.registry import config_hash
from slackwater.runs.lineage.history import while_history_stays
from slackwater.runs.lineage.moves import find_branch
from slackwater.runs.publishing.pane_changes import parts_of
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.restating.branches import ReadAgain, is_preview
from slackwater.runs.restating.restatement import OTHER_CODE, run_ending_at, runs_behind, why_not_converged
from slackwater.runs.staging import validation
from slackwater.runs.staging.declarations import Declarations
from slackwater.runs.staging.evolution import SettingsChanged
from slackwater.runs.staging.run import wall_clock
from slackwater.runs.staging.slices import end_of, iso, start_of
from slackwater.runs.staging.staged_slice import LineageClosed, refuse_closed
from slackwater.tables.ledger.lineage_rows import drop_row, publish_row
from slackwater.tables.ledger.overrides import OverridesReader, arrival_in, moved_rows_on
from slackwater.tables.ledger.rows import MAIN, Branch, LedgerRow
from slackwater.tables.ledger.spans import count_of, in_common, seqs_of
from slackwater.tables.ledger.writer import LedgerWriter
from slackwater.tables.run_files.snapshots import put_back_around
from slackwater.tables.warehouse import Tables, Warehouse
from slackwater.windowing.times import to_ms

log = logging.getLogger("slackwater")


class NothingOnBranch(UsageError):
    """The branch has run nothing."""


class ForkedFromAnotherPast(UsageError):
    """Main was restated or restored before the point where the branch forks."""


class BranchBehind(UsageError):
    """Main has runs that the branch would throw away. Facts: branch, reason."""


class ChangedSinceShown(UsageError):
    """Main or the branch has moved since what the publication changes was shown. Facts: branch, seq."""


@dataclass(frozen=True, kw_only=True)
class BranchPublication:
    """The runs that are live once a branch is published, on `main`, main's head.

    Attributes:
        later_runs: main's runs that stay live behind `branch_runs`; none where the branch reaches main's end.
        obstacle: why the branch can't be published as it is; `later_runs` then are all of main's runs behind
            it.
    """

    main: LedgerRow
    branch: Branch
    branch_runs: Sequence[LedgerRow]
    later_runs: Sequence[LedgerRow]
    obstacle: SlackwaterError | None = None

    @property
    def as_of(self) -> int:
        """The newest row of main and of the branch: what the publication changes depends on it."""
        return max(self.main.seq, self.branch.head.seq)

    @property
    def arguments(self) -> tuple[str | int, ...]:
        """What `slackwater publish PIPELINE` takes behind the pipeline to publish this and nothing else."""
        name = self.branch.name
        is_understood = is_preview(self.branch) and self.as_of == self.branch.head.seq
        return (name,) if is_understood else (name, "--as-of", self.as_of)

    def refuse_unseen(self, pipeline: str, seq: int) -> None:
        """Refuse with `ChangedSinceShown` where main or the branch has moved since the ledger's row `seq`."""
        if self.as_of == seq:
            return
        name = self.branch.name
        mover = f"the branch {name}" if self.branch.head.seq > self.main.seq else "main"
        raise ChangedSinceShown(
            f"{pipeline}: nothing was published. Since row {seq} of the ledger {mover} has moved to row "
            f"{self.as_of}, so publishing the branch {name} may change other rows than were shown. Look at "
            f"`slackwater diff {pipeline} --branch {name}` again; `slackwater publish {pipeline} {name} "
            f"--as-of {self.as_of}` publishes what it shows.",
            branch=name,
            seq=self.as_of,
        )


@dataclass(frozen=True)
class BranchPublisher:
    pipeline: Pipeline
    warehouse: Warehouse
    tables: Tables
    roll_forward: RollForward
    clock: Callable[[], datetime] = wall_clock

    @property
    def name(self) -> str:
        return self.pipeline.name

    @property
    def ledger(self) -> LedgerWriter:
        return self.tables.ledger_writer

    def publish(self, publication: BranchPublication, notes: Sequence[str] = ()) -> LedgerRow:
        """Make a branch live in place of main's runs; returns main's new head. `notes` go behind the verdict.
        Raises HistoryDropped: it forks before dropped history; LostRaceError: a head moved, nothing was
        changed.
        """
        main, branch = publication.main, publication.branch
        row, live = self._row_of(publication, notes), seqs_of(branch.head.live)
        drops_history = self.pipeline.keep_history is not None
        with while_history_stays(self.name, self.tables, live, self.clock, drops_history=drops_history):
            with put_back_around(self.tables, _owner_after(publication)):
                [new_head] = self.ledger.commit(
                    MAIN, main.seq, [row], self.clock, other_heads={branch.name: branch.head.seq}
                )
            log.info("publish", extra={"pipeline": self.name, "seq": new_head.seq, "run_id": new_head.run_id})
            self.conclude(branch)
        return new_head

    def changes(self, publication: BranchPublication) -> Iterator[pa.Table]:
        """The corrections that publishing a branch would write, portion by portion."""
        return parts_of(self.roll_forward.pane_changes.for_lineage(self._row_of(publication)))

    def _row_of(self, publication: BranchPublication, notes: Sequence[str] = ()) -> LedgerRow:
        branch_runs, later_runs = publication.branch_runs, publication.later_runs
        start, end = branch_runs[0].slice_start, branch_runs[-1].slice_end
        assert start is not None and end is not None
        verdicts = {row.verdict or validation.FAILED for row in branch_runs} - {validation.PASSED}
        return publish_row(
            publication.main,
            publication.branch,
            _owner_after(publication),
            restated_range=(start, end),
            resume_from=later_runs[0].seq if later_runs else None,
            verdict="; ".join((min(verdicts, default=validation.PASSED), *notes)),
            redrives=self._redrives(publication.main, branch_runs),
        )

    def _redrives(self, main: LedgerRow, branch_runs: Sequence[LedgerRow]) -> bool:
        """Whether the branch has taken in redriven rows that main has not: the cause of its corrections."""
        overrides = OverridesReader(self.tables["overrides"]).rows()
        on_main, on_branch = (moved_rows_on(self.ledger, head, overrides) for head in (main, branch_runs[-1]))
        first_ms, end_ms = start_of(branch_runs[0]), end_of(branch_runs[-1])
        return any(
            first_ms <= to_ms(arrival) < end_ms
            for override in on_branch.values()
            if (before := arrival_in(on_main, override)) != override.arrival_time
            for arrival in (before, override.arrival_time)
        )

    def conclude(self, branch: Branch) -> None:
        """Roll forward, and end the branch, unless somebody has run on it meanwhile."""
        self.roll_forward.finish()
        try:
            self.ledger.commit(branch.name, branch.head.seq, [drop_row(branch)], self.clock)
        except LostRaceError:
            log.info(f"the branch {branch.name} has moved and is kept", extra={"pipeline": self.name})

    def publish_as_it_is(self, name: str, as_of: int | None = None) -> LedgerRow | None:
        """Make the branch `name` live, if nothing has to be replayed for it. Returns main's new head; None
        where main has all its runs.

        Main and the branch must be as they were after the ledger's row `as_of`, so that what `diff` has shown
        is published; for a preview that is its own last row.

        Raises:
            BranchBehind, LineageClosed, ChangedSinceShown.
            SettingsChanged: the branch was declared with other rules than today's.
            LostRaceError: main or the branch moved meanwhile.
            NoBranch, NothingOnBranch, ForkedFromAnotherPast.
        """
        self.roll_forward.finish()
        publication = self.publication_of(name)
        if publication is None:
            self.conclude(find_branch(self.ledger, self.name, name))
            return None
        if publication.obstacle is not None:
            raise publication.obstacle
        if as_of is None and is_preview(publication.branch):
            as_of = publication.branch.head.seq
        if as_of is not None:
            publication.refuse_unseen(self.name, as_of)
        return self.publish(publication)

    def publication_of(self, name: str) -> BranchPublication | None:
        """What publishing the branch `name` would make live; None where main has all its runs. Changes
        nothing. Raises NoBranch, NothingOnBranch, ForkedFromAnotherPast.
        """
        branch, main = find_branch(self.ledger, self.name, name), self.ledger.head()
        if not branch.own_seqs or main is None:
            raise NothingOnBranch(
                f"{self.name}: the branch {name} has run nothing; `slackwater run {self.name} "
                f"--branch {name} --to TIME` does.",
                branch=name,
            )
        branch_runs = self.ledger.runs_on(branch)
        if set(seqs_of(main.live)).issuperset(branch.own_seqs):
            return None
        if in_common(branch.fork.live, main.live) < count_of(branch.fork.live):
            raise ForkedFromAnotherPast(
                f"{self.name}: main was restated or restored before the point where the branch {name} "
                "forks: its past is another one. Fork again; "
                f"`slackwater branches drop {self.name} {name}` ends it.",
                branch=name,
            )
        later_runs = runs_behind(self.ledger.live_runs(main), end_of(branch_runs[-1]))
        obstacle: SlackwaterError | None = None
        try:
            declarations = Declarations(self.pipeline, config_hash(self.pipeline), self.tables)
            declarations.refuse_other_rules(branch_runs[-1])
            self._refuse_behind(main, branch, branch_runs)
        except (SettingsChanged, LineageClosed, BranchBehind) as error:
            obstacle = error
        return BranchPublication(
            main=main, branch=branch, branch_runs=branch_runs, later_runs=later_runs, obstacle=obstacle
        )

    def _refuse_behind(self, main: LedgerRow, branch: Branch, branch_runs: Sequence[LedgerRow]) -> None:
        live, boundary = self.ledger.live_runs(main), end_of(branch_runs[-1])
        later_runs = runs_behind(live, boundary)
        if not later_runs and end_of(live[-1]) <= boundary:
            return
        run_at_boundary = run_ending_at(live, boundary)
        reason: str | None = "no slice of main ends there"
        if run_at_boundary is not None:
            start_ms = to_ms(self.ledger.start_of(main))
            rows_read_again = ReadAgain(self.pipeline, self.warehouse, live, start_ms, self.tables)
            reason = why_not_converged(
                branch_runs,
                run_at_boundary,
                later_runs,
                rows_read_again.before(boundary, branch_runs[-1]),
            )
        if reason is None:
            return
        refuse_closed(self.name, live[-1])
        if reason == OTHER_CODE:
            reason += " (a `backfill --until-converged` publishes its branch all the same)"
        raise BranchBehind(
            f"{self.name}: the branch {branch.name} ends at {iso(boundary)}, main at "
            f"{iso(end_of(live[-1]))}, and main's runs behind "
            f"the branch can't stay: {reason}. Go on first with `slackwater run {self.name} --branch "
            f"{branch.name} --to {iso(end_of(live[-1]))}`, which may change more rows; then look again at "
            f"`slackwater diff {self.name} --branch {branch.name}`.",
            branch=branch.name,
            reason=reason,
        )


def _owner_after(publication: BranchPublication) -> LedgerRow:
    return (publication.later_runs or publication.branch_runs)[-1]
