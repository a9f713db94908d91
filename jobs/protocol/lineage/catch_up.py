"""Slice after slice: the verb `run`.

Stages, validates and publishes each slice with a ledger commit of its own; a rejected slice stops it and the
earlier ones stay.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from slackwater.jobs import args
from slackwater.jobs.errors import UsageError
from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.protocol.lineage.moves import find_branch
from slackwater.jobs.protocol.publishing.publish import Publisher
from slackwater.jobs.protocol.publishing.roll_forward import RollForward
from slackwater.jobs.protocol.staging import validation
from slackwater.jobs.protocol.staging.closed_lineage import refuse_closed
from slackwater.jobs.protocol.staging.rejection import line_of, refuse_rejected
from slackwater.jobs.protocol.staging.run import PreparedRunner, Runner
from slackwater.jobs.protocol.staging.slices import Lineage, Slice, choose, iso
from slackwater.jobs.protocol.staging.staged_slice import Parent, StagedSlice
from slackwater.jobs.tables.ledger.rows import MAIN, LedgerRow
from slackwater.windowing.times import duration_ms


@dataclass(frozen=True)
class Request:
    """What `slackwater run` was asked for; times in milliseconds of UTC.

    Attributes:
        pipeline: its name.
        to_ms: where the last slice ends.
        from_ms: start of the one slice wanted; None to catch up from the head.
        start_ms: where an empty lineage begins instead of `Pipeline.start`.
        publish: whether slices are made live one by one, or only staged.
        everything: whether `max_catch_up` is lifted.
        branch: where to run; its head is what the first slice continues.
        engine, ranges: overrides of the planner's choice; None for its own.
    """

    pipeline: str
    to_ms: int
    from_ms: int | None = None
    start_ms: int | None = None
    publish: bool = True
    everything: bool = False
    engine: str | None = None
    ranges: int | None = None
    branch: str = MAIN


@dataclass
class CatchUp:
    """Runs what a request asks for.

    Attributes:
        runner: makes a runner when there is work to do; Spark starts only then.
        lines: where a line for each slice goes.
        staged: the slices staged so far.
    """

    request: Request
    runner: Callable[[], Runner]
    lines: Callable[[str], object] = print
    staged: list[StagedSlice] = field(default_factory=list)

    def run(self) -> list[LedgerRow]:
        """Stage, and unless asked otherwise publish, slice after slice. Returns the rows committed.

        Raises:
            SliceRejected: validation said no; the message has the failing values.
            SlackwaterError: see `PreparedRunner.stage` and `Publisher.commit`.
        """
        runner = self.runner()
        prepared = runner.prepare()
        publish = Publisher(
            runner.pipeline.name,
            prepared.tables,
            RollForward.of(runner.pipeline, prepared.tables, prepared.shape),
            runner.clock,
        )
        publish.roll_forward.finish()
        # One look at the head: slices chosen by one head and run on a newer one would be run twice.
        parent = self._parent(prepared)
        if parent.row is not None and self.request.start_ms is not None:
            raise UsageError(
                f"{runner.pipeline.name}: --start is for an empty lineage; this one has runs already. Leave "
                "it out."
            )
        lineage = prepared.lineage(parent, self.request.start_ms)
        slices = self._slices(runner.pipeline, lineage)
        if slices and runner.pipeline.expect:
            threading.Thread(target=_load_judge, name="great expectations", daemon=True).start()
        if not slices:
            self.lines(f"{runner.pipeline.name}: nothing to do; the lineage covers everything up to there.")
        committed: list[LedgerRow] = []
        for slice_ in slices:
            staged = prepared.stage(parent, slice_)
            self.staged.append(staged)
            self.lines(line_of(staged))
            for check in staged.checks:
                if not check.passed and check.severity == "warn":
                    self.lines(f"  warning: {check.expectation}: {check.observed}")
            refuse_rejected(runner.pipeline.name, staged)
            if self.request.publish:
                [row] = publish.commit(
                    [staged.attempt],
                    [staged.row],
                    None if parent.row is None else parent.row.seq,
                    self.request.branch,
                )
                committed.append(row)
            else:
                row = staged.row
            parent = Parent(row, row, lineage.start_ms, parent.restated)
        return committed

    def _parent(self, prepared: PreparedRunner) -> Parent:
        """What the first slice continues."""
        name, branch = self.request.pipeline, self.request.branch
        if branch != MAIN:
            if not self.request.publish:
                raise UsageError(
                    f"{name}: --no-publish is for main; what runs on a branch changes nothing that readers "
                    "see."
                )
            find_branch(prepared.tables.ledger, name, branch)
        parent = prepared.parent(branch)
        refuse_closed(name, parent.owner)
        return parent

    @property
    def pipeline(self) -> str:
        """The pipeline's name."""
        return self.request.pipeline

    def told(self) -> tuple[args.Outcome, str]:
        """How it has ended well, and a sentence on it."""
        count = len(self.staged)
        if count == 0:
            return "nothing", f"nothing to do: the lineage covers everything up to {iso(self.request.to_ms)}"
        return (
            "staged",
            f"{count} slice{'' if count == 1 else 's'} {'published' if self.request.publish else 'staged'}",
        )

    def _slices(self, pipeline: Pipeline, lineage: Lineage) -> list[Slice]:
        most = None if self.request.everything else pipeline.max_catch_up
        return choose(
            pipeline.name,
            lineage,
            self.request.from_ms,
            self.request.to_ms,
            duration_ms(pipeline.slice),
            most,
        )


def _load_judge() -> None:
    with suppress(ImportError):  # who needs it and finds it missing says so
        validation.load_judge()
