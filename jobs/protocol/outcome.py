"""How a run ended, for the task that comes after it: what spark-submit's exit code cannot say stands in a manifest.

Writes no manifest where another try may end otherwise. The form of a manifest is that of jobs.args.
"""

from collections.abc import Mapping
from pathlib import Path

from jobs import args
from jobs.errors import LostRaceError, PermanentError, RejectedError, RetryableError, SlackwaterError, UsageError
from jobs.protocol import validation
from jobs.protocol.catch_up import CatchUp
from jobs.protocol.run import LeaseHeld
from jobs.protocol.slices import iso

# What an error is called that another try would meet again, by exit code.
OUTCOMES: Mapping[int, args.Outcome] = {1: "failed", 2: "refused", 4: "rejected", 5: "lost"}


def report_to(manifest: Path, work: CatchUp) -> None:
    """Do the work and write how it ended to `manifest`.

    Raises:
        RetryableError, Exception: it should be tried again, or crashed; then there is no manifest of this try.
    """
    manifest.unlink(missing_ok=True)
    try:
        work.run()
    except LeaseHeld as error:  # the other run will end, so another try may well succeed
        raise RetryableError(error.message, **error.facts) from error
    except (RejectedError, LostRaceError, UsageError, PermanentError) as error:
        args.write_manifest(_manifest(work, OUTCOMES[error.exit_code], error), manifest)
    else:
        args.write_manifest(_manifest(work, "staged" if work.staged else "nothing", None), manifest)


def _manifest(work: CatchUp, outcome: args.Outcome, error: SlackwaterError | None) -> args.Manifest:
    rank = [validation.PASSED, validation.WARNED, validation.FAILED]
    verdicts = sorted((staged.verdict for staged in work.staged), key=rank.index)
    return args.Manifest(
        pipeline=work.request.pipeline,
        outcome=outcome,
        exit_code=0 if error is None else error.exit_code,
        run_id=work.staged[-1].row.run_id if work.staged else None,
        run_ids=tuple(staged.row.run_id for staged in work.staged),
        verdict=verdicts[-1] if verdicts else None,  # type: ignore[arg-type]
        message=_told(work) if error is None else str(error),
        failures=tuple(
            args.Failure(
                run_id=staged.row.run_id,
                expectation=check.expectation,
                column_name=check.column_name,
                severity=check.severity,
                observed=check.observed,
                unexpected=check.unexpected,
                checked=check.checked,
            )
            for staged in work.staged
            for check in staged.checks
            if not check.passed
        ),
        slices=tuple(
            (staged.row.slice_start.isoformat(), staged.row.slice_end.isoformat())
            for staged in work.staged
            if staged.row.slice_start is not None and staged.row.slice_end is not None
        ),
    )


def _told(work: CatchUp) -> str:
    count = len(work.staged)
    if count == 0:
        return f"nothing to do: the lineage covers everything up to {iso(work.request.to_ms)}"
    return f"{count} slice{'' if count == 1 else 's'} {'published' if work.request.publish else 'staged'}"
