"""Runs that are not part of the lineage: rejected, failed, killed, or staged and waiting. And runs that the
schedule asks for and the lineage lacks.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import attrgetter

import pyarrow.compute as pc

from slackwater.inspection.health.findings import Colour, Finding, Subject, colour_of, needing_declaration
from slackwater.pipelines import Pipeline
from slackwater.pipelines.cron import Cron
from slackwater.readable import duration_text, plain_text, range_text, time_text
from slackwater.tables.delta.stored_files import Within
from slackwater.tables.ledger.attempts import OPEN, Attempt, is_dead

# A run that has lost the race was made by another process.
_ENDS = ("committed", "lost")
_RETRY = 3  # the exit code of a failure that another try may heal
_MANY_FAILURES = 3
# More missed data intervals than these are not counted.
_COUNTED_INTERVALS = 1000


def judge_attempts(subject: Subject) -> Finding:
    attempts = sorted(
        subject.tables.attempts.since(subject.head, subject.head_end), key=attrgetter("slice_start")
    )
    attempts_by_slice = groupby(attempts, key=attrgetter("slice_start"))
    answers = [_judge_slice(subject, list(attempts)) for _, attempts in attempts_by_slice]
    answers.append(_judge_usable_rows(subject))
    findings = [finding for finding in answers if finding is not None]
    findings.sort(key=lambda finding: finding.rank, reverse=True)
    if not findings:
        return Finding(Colour.GREEN, "no run was rejected or left unfinished", value=0)
    is_bad = [finding for finding in findings if finding.colour is not Colour.GREEN]
    first = findings[0]
    others = f"; and {len(is_bad) - 1} more" if len(is_bad) > 1 else ""
    return Finding(first.colour, first.text + others, first.command, len(is_bad))


def _judge_usable_rows(subject: Subject) -> Finding | None:
    counts = [(run, run.rows_read - run.rows_filtered) for run in subject.runs]
    run, rows = next(((run, rows) for run, rows in reversed(counts) if rows), (None, 0))
    if run is None or run.rows_quarantined < rows or run.slice_start is None or run.slice_end is None:
        return None
    return Finding(
        Colour.RED,
        f"the run of {range_text(run.slice_start, run.slice_end)} could use none of its {rows:,} rows: all "
        "were quarantined",
        f"slackwater quarantine list {subject.pipeline}",
    )


def _judge_slice(subject: Subject, attempts: Sequence[Attempt]) -> Finding | None:
    newest = attempts[-1]
    if newest.outcome in _ENDS or subject.tables.ledger.by_run_id(newest.run_id) is not None:
        return None
    zone = UTC if subject.declaration is None else subject.declaration.zone
    slice_text = range_text(newest.slice_start, newest.slice_end, zone=zone)
    is_restatement = subject.head_end is not None and newest.slice_start < subject.head_end
    what = f"the restatement of {slice_text}" if is_restatement else f"the run of {slice_text}"
    command = f"slackwater runs {subject.pipeline}"
    if newest.outcome == OPEN:
        has_expired = newest.expires_at is not None and newest.expires_at <= subject.now
        if not has_expired and not is_dead(newest.owner or ""):
            return Finding(Colour.GREEN, f"{what} is at work")
        since = duration_text(subject.now - newest.at)
        return Finding(Colour.YELLOW, f"{what} stopped {since} ago without a result: it was killed", command)
    if newest.outcome == "rejected":
        colour = Colour.YELLOW if is_restatement else Colour.RED
        return Finding(colour, f"{what} was rejected: {_failed_checks(subject, newest)}", command)
    if newest.outcome == "failed":
        failures = sum(attempt.outcome == "failed" for attempt in attempts)
        is_final = newest.exit_code != _RETRY or failures >= _MANY_FAILURES
        colour = Colour.RED if is_final and not is_restatement else Colour.YELLOW
        reason = newest.reason or f"at {newest.step or 'its start'}"
        times = "" if failures == 1 else f" {failures} times"
        return Finding(colour, f"{what} failed{times}: {plain_text(reason)}", command)
    age = max(subject.now - newest.at, timedelta(0))  # the clock that wrote it may be ahead of this one
    return Finding(
        min(Colour.YELLOW, colour_of(age, subject.thresholds.backlog), key=lambda colour: colour.rank),
        f"{what} has been staged for {duration_text(age)} and is not published",
        f"slackwater publish {subject.pipeline} {newest.run_id}",
    )


def _failed_checks(subject: Subject, attempt: Attempt) -> str:
    rows = subject.tables["validations"].read(
        ["expectation", "severity", "passed"],
        pc.field("run_id") == attempt.run_id,
        Within.only("run_id", attempt.run_id),
    )
    failed_rows = rows.filter((pc.field("severity") == "reject") & ~pc.field("passed"))
    return plain_text(", ".join(failed_rows.column("expectation").to_pylist())) or "by validation"


@needing_declaration("the schedule is")
def judge_schedule(subject: Subject, declaration: Pipeline) -> Finding:
    head_end = subject.head_end
    if subject.is_closed:
        return Finding(Colour.GREEN, "the lineage is closed")
    if declaration.schedule is None:
        return Finding(Colour.GREEN, "it has no schedule")
    cron = Cron(declaration.schedule, declaration.zone)
    if head_end is None:
        command = f"slackwater run {subject.pipeline} --to TIME"
        return Finding(Colour.YELLOW, "it has a schedule and no committed run", command)
    if not follows_the_clock(subject, cron):
        text = f"it replays history: it has come to {time_text(head_end)}, and was never up to date"
        return Finding(Colour.GREEN, text)
    due = cron.next_after(head_end)
    overdue = timedelta(0) if due is None else subject.now - due - declaration.settle
    if due is None or overdue <= timedelta(0):
        until = "" if due is None else f", and the next run is due at {time_text(due + declaration.settle)}"
        return Finding(Colour.GREEN, f"the head is at {time_text(head_end)}{until}", value=0)
    missing_runs = _missing_runs_text(cron, due, subject.now - declaration.settle)
    return Finding(
        colour_of(overdue, subject.thresholds.overdue),
        f"the head is at {time_text(head_end)}: {missing_runs}, overdue by {duration_text(overdue)}",
        f"slackwater plan {subject.pipeline}",
        overdue.total_seconds(),
    )


def follows_the_clock(subject: Subject, cron: Cron) -> bool:
    """Whether one of the runs was committed before the second data interval after its slice had ended. Runs
    that replay history were all committed later.
    """
    assert subject.declaration is not None
    for run in reversed(subject.series):
        after = cron.next_after(run.slice_end)
        second = None if after is None else cron.next_after(after)
        if run.committed_at is None or second is None:
            continue
        if run.committed_at < second + subject.declaration.settle:
            return True
    return False


def _missing_runs_text(cron: Cron, first: datetime, until: datetime) -> str:
    count, time = 0, first
    while time <= until and count < _COUNTED_INTERVALS:
        count += 1
        following = cron.next_after(time)
        if following is None:
            break
        time = following
    if count == 1:
        return "a run is missing"
    return f"{count:,} runs are missing" if count < _COUNTED_INTERVALS else f"over {count:,} runs are missing"
