"""The close of a lineage: a final watermark at the end of the last slice. Every window that waits for event
time fires; no row is read.

A close is staged, validated and published as a slice is. What waits for the clock alone stays pending.
"""

from dataclasses import dataclass

import numpy as np

from slackwater.engine.rows.progress import Progress
from slackwater.engine.source.scan import SliceScan
from slackwater.engine.transport.in_process import Transport
from slackwater.errors import UsageError
from slackwater.pipelines import Pipeline
from slackwater.runs.publishing.evaluator import Evaluator
from slackwater.runs.staging.pins import Pins
from slackwater.runs.staging.run import StageOfSlice
from slackwater.runs.staging.slice_replay import SliceReplay
from slackwater.runs.staging.slices import Slice
from slackwater.tables.ledger.overrides import OverridesReader
from slackwater.tables.ledger.row_kinds import RowKind
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.run_files.snapshots import put_back
from slackwater.windowing import ContinuousEventTimeTrigger, GlobalWindows
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK, Timeline
from slackwater.windowing.java import LONG_MAX


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
    prepared_runner = steps.prepared_runner
    steps.publisher.roll_forward.finish()
    refuse_endless(prepared_runner.runner.pipeline)
    parent = prepared_runner.parent()
    if parent.row is None or parent.owner is None or parent.end_ms is None:
        name = prepared_runner.runner.pipeline.name
        raise NothingToClose(
            f"{name} has no runs yet, so nothing is open; `slackwater run {name} --to TIME` makes the first."
        )
    if parent.owner.kind == RowKind.CLOSE:
        return None
    staged_close = _StageOfClose(prepared_runner, parent, Slice(parent.end_ms, parent.end_ms)).run()
    return steps.commit(staged_close, parent).row


def final_timeline(at_ms: int, before: Progress) -> tuple[Timeline, Progress]:
    """The timeline of the final watermark alone, at the clock `at_ms`, and the progress after it. Its
    watermark is the initial one, because no table can hold the final watermark.
    """
    collected_mark = INITIAL_WATERMARK if before.collected_mark is None else before.collected_mark
    timeline = Timeline(
        from_ms=at_ms - 1,
        to_ms=at_ms,
        interval_ms=1,
        initial=before.watermark,
        tick_ends=np.array([at_ms]),
        watermarks=np.array([LONG_MAX]),
        collected_mark=collected_mark,
    )
    return timeline, Progress(
        before.names,
        before.per_partition,
        INITIAL_WATERMARK,
        at_ms,
        carried_watermarks=before.carried_watermarks,
    )


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
            newer_reads={},
            overrides=overrides,
            ledger=self.tables.ledger,
        )
        return FinalReplay(
            pipeline=self.pipeline,
            shape=self.prepared_runner.shape,
            tables=self.tables,
            slice=self.slice,
            start_ms=start_ms,
            owner=owner,
            state=put_back(self.tables, owner),
            pins=pins,
            added_results=self.declarations.added_results(owner),
        )


@dataclass(frozen=True)
class FinalReplay(SliceReplay):
    """A slice without arrivals, whose only watermark is the final one."""

    def scan(self) -> SliceScan:
        return self._scan_of([[] for _ in self.pins.source_pins], self.slice.to_ms)

    def timeline(self, scan: SliceScan, before: Progress, transport: Transport) -> tuple[Timeline, Progress]:
        return final_timeline(self.slice.to_ms, before)
