"""How a run ended, for the task that comes after it: what spark-submit's exit code cannot say stands in a
manifest.

Writes no manifest where another try may end otherwise. The form of a manifest is that of
slackwater.jobs.args.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from slackwater.jobs import args
from slackwater.jobs.errors import LostRaceError, PermanentError, RejectedError, RetryableError, UsageError
from slackwater.jobs.protocol.staging import validation
from slackwater.jobs.protocol.staging.lease import LeaseHeld
from slackwater.jobs.protocol.staging.staged_slice import StagedSlice

# What an error is called that another try would meet again, by exit code.
OUTCOMES: Mapping[int, args.Outcome] = {1: "failed", 2: "refused", 4: "rejected", 5: "lost"}


class Work(Protocol):
    """A command that replays slices: a catch-up, or a restatement."""

    @property
    def pipeline(self) -> str:
        """The pipeline's name."""

    @property
    def staged(self) -> Sequence[StagedSlice]:
        """The slices that it has replayed so far."""

    def run(self) -> object:
        """Do it."""

    def told(self) -> tuple[args.Outcome, str]:
        """How it has ended well, and a sentence for the person who reads the task's log."""


def report_to(manifest: Path, work: Work) -> None:
    """Do the work and write how it ended to `manifest`.

    Raises:
        RetryableError, Exception: it should be tried again, or crashed; then there is no manifest of this
            try.
    """
    manifest.unlink(missing_ok=True)
    try:
        work.run()
    except LeaseHeld as error:  # the other run will end, so another try may well succeed
        raise RetryableError(error.message, **error.facts) from error
    except (RejectedError, LostRaceError, UsageError, PermanentError) as error:
        args.write_manifest(_manifest(work, OUTCOMES[error.exit_code], str(error), error.exit_code), manifest)
    else:
        args.write_manifest(_manifest(work, *work.told(), 0), manifest)


def _manifest(work: Work, outcome: args.Outcome, message: str, exit_code: int) -> args.Manifest:
    rank = [validation.PASSED, validation.WARNED, validation.FAILED]
    verdicts = sorted((staged.verdict for staged in work.staged), key=rank.index)
    return args.Manifest(
        pipeline=work.pipeline,
        outcome=outcome,
        exit_code=exit_code,
        run_id=work.staged[-1].row.run_id if work.staged else None,
        run_ids=tuple(staged.row.run_id for staged in work.staged),
        verdict=verdicts[-1] if verdicts else None,  # type: ignore[arg-type]
        message=message,
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
