"""The close of a lineage: a final watermark at the end of the last slice. Every window that waits for event
time fires; no row is read.

A close is staged, validated and published as a slice is. What waits for the clock alone stays pending.
"""

from slackwater.errors import UsageError
from slackwater.pipelines import Pipeline
from slackwater.runs.publishing.evaluator import Evaluator
from slackwater.runs.staging.slices import Slice
from slackwater.tables.ledger.row_kinds import RowKind
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.windowing import ContinuousEventTimeTrigger, GlobalWindows


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
