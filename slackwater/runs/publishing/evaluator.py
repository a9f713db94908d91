"""Executes the steps of a command: slices, each staged on the one before it, reviewed, and committed.

    stage -> report -> commit on the branch -> the next slice continues it
                 \\-> stop, where validation has rejected it; the slices before it stay

`run`, `backfill` and `state close` hand their slices to it one by one. `plan` and `--dry-run` print these
slices: they come from `slices.choose` for a run, from `restatement.slices_from` for a restatement.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from slackwater.pipelines import Pipeline
from slackwater.runs.publishing.portion_tasks import PortionTasks
from slackwater.runs.publishing.publish import Publisher
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.staging.run import Runner
from slackwater.runs.staging.slices import Slice, slice_of, start_of
from slackwater.runs.staging.staged_slice import Parent, StagedSlice, lines_of, refuse_rejected
from slackwater.tables.ledger.rows import MAIN, LedgerRow

log = logging.getLogger("slackwater")


@dataclass
class Evaluator:
    """Executes slices of one pipeline; commits them if it `publishes`. `report` makes the lines about one."""

    runner: Runner
    lines: Callable[[str], object]
    publishes: bool = True
    report: Callable[[Pipeline, StagedSlice], Iterable[str]] = lines_of
    staged_slices: list[StagedSlice] = field(default_factory=list)
    committed_rows: list[LedgerRow] = field(default_factory=list)

    @cached_property
    def publisher(self) -> Publisher:
        runner, tables = self.runner, self.runner.tables
        roll_forward = RollForward.of(runner.pipeline, tables, runner.shape, PortionTasks(runner.transport))
        return Publisher(runner.pipeline.name, tables, roll_forward, runner.clock)

    def execute(
        self,
        slice_: Slice,
        parent: Parent,
        branch: str = MAIN,
        accept: str | None = None,
        *,
        is_close: bool = False,
    ) -> Parent:
        """Stage a slice on `parent`, the head of `branch`, report on it and commit it. Returns it as the
        parent of the next slice. Raises as `Runner.stage`; SliceRejected: validation said no; the message has
        the failing values.
        """
        staged_slice = self.runner.stage(parent, slice_, accept, is_close=is_close)
        pipeline, row = self.runner.pipeline, staged_slice.row
        self.staged_slices.append(staged_slice)
        log.debug("staged", extra={"rows": row.rows_read})
        for line in self.report(pipeline, staged_slice):
            self.lines(line)
        refuse_rejected(pipeline, staged_slice)
        if self.publishes:
            facts = {"pipeline": pipeline.name, "slice": str(slice_of(row)), "zone": pipeline.zone}
            log.debug("publish", extra={**facts, "begins": True})
            parent_seq = None if parent.row is None else parent.row.seq
            [row] = self.publisher.commit([staged_slice.attempt], [row], parent_seq, branch)
            self.committed_rows.append(row)
        start_ms = start_of(row) if parent.start_ms is None else parent.start_ms
        return replace(parent, row=row, owner=row, start_ms=start_ms)
