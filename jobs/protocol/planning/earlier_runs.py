"""What a plan tells of the runs before it, from their counts in the ledger: rows that functions have emitted,
and elements that no result holds.
"""

from collections.abc import Sequence

from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.protocol.planning.plan import EmittedRows
from slackwater.jobs.protocol.staging.rejection import sentence_on_never_fired
from slackwater.jobs.protocol.staging.slices import end_of, start_of
from slackwater.jobs.tables.ledger.rows import LedgerRow


def runs_between(live: Sequence[LedgerRow], from_ms: int, to_ms: int) -> list[LedgerRow]:
    """The runs of `live` that have arrivals in [from, to)."""
    return [row for row in live if start_of(row) < to_ms and end_of(row) > from_ms]


def rows_emitted_in(pipeline: Pipeline, runs: Sequence[LedgerRow]) -> EmittedRows | None:
    """What functions have emitted in `runs`; None where the pipeline has no function that emits rows of its
    own, or nothing has run.
    """
    if not runs or (pipeline.keyed_process is None and not pipeline.side_columns):
        return None
    counted_runs = [row for row in runs if row.rows_emitted is not None]
    return EmittedRows(
        rows=sum(row.rows_emitted or 0 for row in counted_runs),
        side_rows=sum(row.side_rows or 0 for row in counted_runs),
        runs=len(counted_runs),
        runs_without_counts=len(runs) - len(counted_runs),
    )


def warn_of_elements_never_fired(runs: Sequence[LedgerRow]) -> list[str]:
    """The warning that elements of `runs` are in no result; empty where all are."""
    runs_with_losses = [row for row in runs if row.elements_never_fired]
    if not runs_with_losses:
        return []
    newest = runs_with_losses[-1]
    total = sum(row.elements_never_fired for row in runs_with_losses)
    count = len(runs_with_losses)
    which = f"run {newest.seq}" if count == 1 else f"{count} runs, the newest of them run {newest.seq}"
    return [f"{sentence_on_never_fired(total)}: those of {which}"]
