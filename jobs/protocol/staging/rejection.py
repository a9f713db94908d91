"""Reports on a staged slice: a line of counts, a note on elements that no result holds, and, where validation
rejected it, an error with the failing values and the next step.
"""

from slackwater.jobs.errors import RejectedError
from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.protocol.staging import validation
from slackwater.jobs.protocol.staging.staged_slice import StagedSlice
from slackwater.jobs.tables.ledger.rows import LedgerRow


class SliceRejected(RejectedError):
    """Validation rejected a slice: it stays staged, and no reader sees it."""


def refuse_rejected(pipeline: str, staged_slice: StagedSlice) -> None:
    """End the command where validation has rejected the slice.

    Raises:
        SliceRejected: with the failing values and the next step.
    """
    if staged_slice.verdict == validation.FAILED:
        raise SliceRejected(_reason(pipeline, staged_slice))


def lines_of(pipeline: Pipeline, staged_slice: StagedSlice) -> list[str]:
    """What a command prints of a slice: its counts, and a note on elements that no result holds."""
    lines = [_line_of_counts(pipeline, staged_slice.row)]
    never_fired = staged_slice.row.elements_never_fired
    if never_fired:
        lines.append(f"  note: {sentence_on_never_fired(never_fired)}")
    return lines


def sentence_on_never_fired(count: int) -> str:
    """That `count` elements were cleaned up without a firing that held them."""
    elements = "1 element is" if count == 1 else f"{count:,} elements are"
    return (
        f"{elements} in no result, because the trigger did not fire again before the window was cleaned up "
        "(elements_never_fired)"
    )


def _line_of_counts(pipeline: Pipeline, row: LedgerRow) -> str:
    """Rows read; windows fired, rows too late and windows parked, or what a process function has emitted."""
    assert row.slice_start is not None and row.slice_end is not None
    seconds = sum(duration_s for phase, duration_s in row.phase_seconds.items() if phase != "session")
    watermark = "none" if row.watermark_out is None else f"{row.watermark_out:%Y-%m-%dT%H:%M:%S}"
    begins = f"[{row.slice_start:%Y-%m-%dT%H:%M}, {row.slice_end:%Y-%m-%dT%H:%M})  rows {row.rows_read:>7,}  "
    ends = f"watermark {watermark}  {seconds:.2f} s"
    side_rows = f"side outputs {row.side_rows or 0:>4,}  " if pipeline.side_columns else ""
    if pipeline.keyed_process is not None:
        return (
            f"{begins}emitted {row.rows_emitted or 0:>5,}  {side_rows}"
            f"quarantined {row.rows_quarantined:>4,}  timers {row.timers_pending:>5,}  {ends}"
        )
    return (
        f"{begins}fired {row.windows_fired:>5,}  refired {row.windows_refired:>5,}  {side_rows}"
        f"too late {row.rows_late:>4,}  quarantined {row.rows_quarantined:>4,}  "
        f"parked {row.windows_open:>5,}  {ends}"
    )


def _failure(check: validation.Check) -> str:
    """A failed check: of a column with the values that break it, of a run with what was observed."""
    if check.column_name is None:
        return f"{check.expectation}: {check.observed}"
    samples = f", e.g. {check.sample_json}" if check.sample_json else ""
    return (
        f"{check.expectation}: {check.unexpected} of {check.checked} values, observed "
        f"{check.observed}{samples}"
    )


def _reason(pipeline: str, staged_slice: StagedSlice) -> str:
    """The failed checks with their values, and the next step."""
    row = staged_slice.row
    assert row.slice_start is not None and row.slice_end is not None
    failing = [
        f"\n  {_failure(check)}"
        for check in staged_slice.checks
        if not check.passed and check.severity == "reject"
    ]
    return (
        f"{pipeline}: the slice [{row.slice_start:%Y-%m-%dT%H:%M}, {row.slice_end:%Y-%m-%dT%H:%M}) was "
        "rejected by validation; nothing was "
        f"moved.{''.join(failing)}\nIts panes stand in the table `panes` under run_id {row.run_id}. Mend the "
        "source or the expectation and "
        f"run again, or publish it all the same with `slackwater publish {pipeline} {row.run_id} --accept "
        "REASON`."
    )
