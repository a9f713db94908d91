"""The close of a lineage: a final watermark at the end of the last slice. Every window that waits for event
time fires; no row is read.

A close is staged, validated and published as a slice is. What waits for the clock alone stays pending.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slackwater.jobs.engines.rows.progress import Maxima, Progress, tick_maxima
from slackwater.jobs.engines.source.scan import SliceScan
from slackwater.jobs.engines.transport.in_process import Transport
from slackwater.jobs.errors import UsageError
from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.protocol.publishing.publish import Publisher
from slackwater.jobs.protocol.staging.run import PreparedRunner, StageOfSlice
from slackwater.jobs.protocol.staging.slice_replay import Pins, SliceReplay
from slackwater.jobs.protocol.staging.slices import Slice
from slackwater.jobs.protocol.staging.staged_slice import StagedSlice
from slackwater.jobs.tables.ledger.overrides import OverridesReader
from slackwater.jobs.tables.ledger.row_kinds import RowKind
from slackwater.jobs.tables.ledger.rows import LedgerRow
from slackwater.jobs.tables.run_files.snapshots import put_back
from slackwater.windowing import (
    ContinuousEventTimeTrigger,
    GlobalWindows,
)
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK, Timeline
from slackwater.windowing.java import LONG_MAX


class NothingToClose(UsageError):
    """The lineage has not run yet."""


class NeverEnds(UsageError):
    """At the final watermark the trigger would fire for ever."""


def refuse_endless(pipeline: Pipeline) -> None:
    """Refuse a trigger that fires at each multiple of its interval, in a window without an end: as in Flink,
    it would never be done.

    Raises:
        NeverEnds.
    """
    trigger = None if pipeline.window is None else pipeline.effective_trigger
    innermost = None if trigger is None else trigger.innermost
    if isinstance(innermost, ContinuousEventTimeTrigger) and isinstance(pipeline.window, GlobalWindows):
        raise NeverEnds(
            f"{pipeline.name}: at the final watermark {innermost!r} would fire in the global window for each "
            "of its intervals until the end "
            "of time. Leave the lineage open; its windows fire as the watermark goes on."
        )


def close(
    prepared: PreparedRunner, publisher: Publisher, told: Callable[[StagedSlice], None]
) -> LedgerRow | None:
    """Close main. `told` is given the staged close before it is committed. Returns its row; None where main
    is closed already.

    Raises:
        NothingToClose, NeverEnds.
        SlackwaterError: see `PreparedRunner.stage` and `Publisher.commit`; `told` may refuse what validation
            rejected.
    """
    publisher.roll_forward.finish()
    refuse_endless(prepared.runner.pipeline)
    parent = prepared.parent()
    if parent.row is None or parent.owner is None or parent.end_ms is None:
        name = prepared.runner.pipeline.name
        raise NothingToClose(
            f"{name} has no runs yet, so nothing is open; `slackwater run {name} --to TIME` makes the first."
        )
    if parent.owner.kind == RowKind.CLOSE:
        return None
    staged = _StageOfClose(prepared, parent, Slice(parent.end_ms, parent.end_ms)).run()
    told(staged)
    [row] = publisher.commit([staged.attempt], [staged.row], parent.row.seq)
    return row


def final_timeline(at_ms: int, before: Progress) -> tuple[Timeline, Progress]:
    """The final watermark alone, at the clock `at_ms`, and the progress after it: no watermark can be written
    that stands for it.
    """
    collected = INITIAL_WATERMARK if before.collected_mark is None else before.collected_mark
    timeline = Timeline(
        at_ms - 1, at_ms, 1, before.watermark, np.array([at_ms]), np.array([LONG_MAX]), collected
    )
    return timeline, Progress(before.names, before.per_partition, INITIAL_WATERMARK, at_ms)


class _StageOfClose(StageOfSlice):
    """The steps of a close, on the source as the run before has read it."""

    kind = RowKind.CLOSE

    def pin_inputs(self) -> SliceReplay:
        owner, start_ms = self.parent.owner, self.parent.start_ms
        assert owner is not None and start_ms is not None
        overrides = OverridesReader(self.tables["overrides"]).rows()
        pins = Pins.of_run(
            self.pipeline,
            self.runner.warehouse,
            owner,
            owner=owner,
            newer_reads=(),
            overrides=overrides,
            ledger=self.tables.ledger,
        )
        return FinalReplay(
            self.pipeline,
            self.prepared_runner.shape,
            self.tables,
            self.slice,
            start_ms,
            owner,
            put_back(self.tables, owner),
            pins,
        )


@dataclass(frozen=True)
class FinalReplay(SliceReplay):
    """A slice without arrivals, whose only watermark is the final one."""

    def scan(self) -> SliceScan:
        source, at_ms = self.pins.source, self.slice.to_ms
        return SliceScan(
            source,
            (),
            tuple(source.schema.names),
            self.pipeline.source.arrival_time,
            at_ms,
            at_ms,
            self.start_ms,
        )

    def timeline(
        self, scan: SliceScan, before: Progress, transport: Transport, maxima: Maxima = tick_maxima
    ) -> tuple[Timeline, Progress]:
        return final_timeline(self.slice.to_ms, before)
