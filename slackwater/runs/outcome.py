"""Writes the manifest of a command: how it ended, for the Airflow task that comes after it, because
spark-submit's exit code can't say it.

No manifest is written where another try may end otherwise. `slackwater.args` defines its form.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from slackwater import args
from slackwater.errors import LostRaceError, PermanentError, RejectedError, RetryableError, UsageError
from slackwater.runs.staging import validation
from slackwater.runs.staging.lease import LeaseHeld
from slackwater.runs.staging.slices import iso
from slackwater.tables.files_by_uri import delete, local_path, write_text

if TYPE_CHECKING:
    from slackwater.runs.lineage.catch_up import CatchUp
    from slackwater.runs.restating.backfill import Backfill

# A command that replays slices.
Work: TypeAlias = "CatchUp | Backfill"
# The outcome by exit code, of errors that another try would meet again.
OUTCOMES: Mapping[int, args.Outcome] = {1: "failed", 2: "refused", 4: "rejected", 5: "lost"}

_COUNTS = ("rows_read", "windows_fired", "windows_refired", "rows_late", "rows_quarantined")


@contextmanager
def report_to(manifest: str | Path | None, work: Work) -> Iterator[None]:
    """Run `work` in a block; write how it ended to `manifest` (path or URI), and end the errors there that
    another try would meet again. Other errors, and without `manifest` all, leave the block.
    """
    if manifest is None:
        yield
        return
    location = str(manifest)
    _remove(location)
    try:
        yield
    except LeaseHeld as error:  # the other run will end, so another try may well succeed
        raise RetryableError(error.message, **error.facts) from error
    except (RejectedError, LostRaceError, UsageError, PermanentError) as error:
        _write(_manifest(work, OUTCOMES[error.exit_code], str(error), error.exit_code), location)
    else:
        _write(_manifest(work, *work.outcome(), 0), location)


def _remove(location: str) -> None:
    file = local_path(location)
    if file is None:
        delete(location)
    else:
        file.unlink(missing_ok=True)


def _write(manifest: args.Manifest, location: str) -> None:
    file = local_path(location)
    if file is None:
        write_text(location, args.manifest_text(manifest))
    else:
        args.write_manifest(manifest, file)


def _manifest(work: Work, outcome: args.Outcome, message: str, exit_code: int) -> args.Manifest:
    rank = [validation.PASSED, validation.WARNED, validation.FAILED]
    verdicts = [validation.WARNED if item.is_accepted else item.verdict for item in work.staged_slices]
    return args.Manifest(
        pipeline=work.pipeline,
        outcome=outcome,
        exit_code=exit_code,
        run_id=work.staged_slices[-1].row.run_id if work.staged_slices else None,
        run_ids=tuple(item.row.run_id for item in work.staged_slices),
        verdict=max(verdicts, key=rank.index, default=None),  # type: ignore[arg-type]
        message=message,
        failures=tuple(
            args.Failure(
                run_id=item.row.run_id,
                expectation=check.expectation,
                column_name=check.column_name,
                severity=check.severity,
                observed=check.observed,
                unexpected=check.unexpected,
                checked=check.checked,
                samples=check.sample_json,
            )
            for item in work.staged_slices
            for check in item.checks
            if not check.passed
        ),
        slices=tuple(
            (item.row.slice_start.isoformat(), item.row.slice_end.isoformat())
            for item in work.staged_slices
            if item.row.slice_start is not None and item.row.slice_end is not None
        ),
        stale=tuple((iso(item.from_ms), iso(item.to_ms)) for item in work.stale_slices),
        counts={name: sum(getattr(item.row, name) for item in work.staged_slices) for name in _COUNTS},
        seconds=sum(sum(item.row.phase_seconds.values()) for item in work.staged_slices),
    )
