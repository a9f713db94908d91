"""Reports on a staged slice: one line of counts, and, where validation rejected it, an error with the failing
values and the next step.
"""

from slackwater.jobs.errors import RejectedError
from slackwater.jobs.protocol.staging import validation
from slackwater.jobs.protocol.staging.staged_slice import StagedSlice


class SliceRejected(RejectedError):
    """Validation rejected a slice: it stays staged, and no reader sees it."""


def refuse_rejected(pipeline: str, staged_slice: StagedSlice) -> None:
    """End the command where validation has rejected the slice.

    Raises:
        SliceRejected: with the failing values and the next step.
    """
    if staged_slice.verdict == validation.FAILED:
        raise SliceRejected(_reason(pipeline, staged_slice))


def line_of(staged_slice: StagedSlice) -> str:
    """A slice in one line: rows read, windows fired, rows too late or quarantined, windows parked."""
    row = staged_slice.row
    assert row.slice_start is not None and row.slice_end is not None
    seconds = sum(duration_s for phase, duration_s in row.phase_seconds.items() if phase != "session")
    watermark = "none" if row.watermark_out is None else f"{row.watermark_out:%Y-%m-%dT%H:%M:%S}"
    return (
        f"[{row.slice_start:%Y-%m-%dT%H:%M}, {row.slice_end:%Y-%m-%dT%H:%M})  rows {row.rows_read:>7,}  "
        f"fired {row.windows_fired:>5,}  "
        f"refired {row.windows_refired:>5,}  too late {row.rows_late:>4,}  quarantined "
        f"{row.rows_quarantined:>4,}  "
        f"parked {row.windows_open:>5,}  watermark {watermark}  {seconds:.2f} s"
    )


def _reason(pipeline: str, staged_slice: StagedSlice) -> str:
    """The failed checks with their values, and the next step."""
    row = staged_slice.row
    assert row.slice_start is not None and row.slice_end is not None
    failing = [
        f"\n  {check.expectation}: {check.unexpected} of {check.checked} values, observed {check.observed}"
        + (f", e.g. {check.sample_json}" if check.sample_json else "")
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
