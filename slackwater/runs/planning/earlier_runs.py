"""What a plan tells of the runs before it, from their counts in the ledger: rows that functions have emitted,
and elements that no result holds.
"""

import pyarrow.compute as pc

from slackwater.pipelines import Pipeline
from slackwater.runs.planning.plan import EmittedRows
from slackwater.runs.staging.rejection import sentence_on_never_fired
from slackwater.tables.ledger.live_runs import LiveRuns


def runs_between(live: LiveRuns, from_ms: int, to_ms: int) -> LiveRuns:
    return live.where((live.times_ms("slice_start") < to_ms) & (live.times_ms("slice_end") > from_ms))


def rows_emitted_in(pipeline: Pipeline, runs: LiveRuns) -> EmittedRows | None:
    """The rows that functions have emitted in `runs`; None where no function emits rows of its own, or
    nothing has run.
    """
    if not runs or (pipeline.keyed_process is None and not pipeline.side_columns):
        return None
    rows, side_rows = runs.column("rows_emitted"), runs.column("side_rows")
    return EmittedRows(
        rows=pc.sum(rows, min_count=0).as_py(),
        side_rows=pc.sum(side_rows, min_count=0).as_py(),
        runs=len(rows),
    )


def warn_of_elements_never_fired(runs: LiveRuns) -> list[str]:
    """The warning that elements of `runs` are in no result; empty where all are."""
    if not runs:
        return []
    losses = pc.fill_null(runs.column("elements_never_fired"), 0).to_numpy()
    runs_with_losses = runs.where(losses > 0)
    if not runs_with_losses:
        return []
    newest, total, count = runs_with_losses[-1], int(losses.sum()), len(runs_with_losses)
    which = f"run {newest.seq}" if count == 1 else f"{count} runs, the newest of them run {newest.seq}"
    return [f"{sentence_on_never_fired(total)}: those of {which}"]
