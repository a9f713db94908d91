"""The page of an attempt at a run, by its run id: rejected, failed, killed, or waiting for its publication. A
committed run has a page of its own.
"""

from collections.abc import Iterator
from datetime import datetime

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from slackwater.pages.drawing.flow_drawing import rows_flow
from slackwater.pages.drawing.run_tables import checks_table
from slackwater.pages.drawing.table_view import Cell, TableView, page_columns
from slackwater.pages.frame.links import link
from slackwater.pages.frame.rendering import render
from slackwater.pages.frame.site import PipelineInPath, PipelineView
from slackwater.readable import duration_text, time_text
from slackwater.runs.staging.slices import iso
from slackwater.tables.ledger.attempts import OPEN, Attempt
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.run_files.staging import unpack
from slackwater.windowing.times import to_ms

router = APIRouter()

_TONES = {"rejected": "bad", "failed": "bad", "staged": "accent"}


@router.get("/{pipeline}/attempts/{run_id}", name="attempt")
def attempt_page(request: Request, view: PipelineInPath, run_id: str) -> Response:
    tables = view.inspection.tables
    row = tables.ledger.by_run_id(run_id)
    if row is not None:
        return RedirectResponse(link(request, "run", pipeline=view.name, seq=row.seq), status_code=303)
    attempt = tables.attempts.find(run_id)
    if attempt is None or attempt.is_upkeep:
        raise HTTPException(404, f"{view.name} has no run with the id {run_id!r}, and no attempt at one.")
    staged_row = None if attempt.ledger_row is None else unpack(attempt.ledger_row)[1]
    return render(
        request,
        "attempt.html",
        pipeline=view.name,
        attempt=attempt,
        tone=_TONES.get(attempt.outcome, "late"),
        standing=_standing(attempt),
        run=staged_row,
        flow=None if staged_row is None else rows_flow(staged_row),
        checks=checks_table(view.inspection.checks_of(run_id)),
        record=list(_record(attempt, staged_row)),
        commands=list(_commands(view, attempt)),
    )


def attempts_table(
    request: Request, view: PipelineView, head: LedgerRow | None, head_end: datetime | None
) -> TableView:
    """The attempts after the head of main that have not become runs, newest first."""
    tables = view.inspection.tables
    attempts = [
        attempt
        for attempt in tables.attempts.since(head, head_end)
        if tables.ledger.by_run_id(attempt.run_id) is None
    ]
    return TableView(
        caption="Attempts without a run so far, newest first",
        columns=page_columns(
            {
                **{"slice": "range", "outcome": "text", "attempt": "number"},
                **{"last sign of life": "time", "error": "text"},
            }
        ),
        rows=[
            (
                (attempt.slice_start, attempt.slice_end),
                Cell(
                    attempt.outcome,
                    link(request, "attempt", pipeline=view.name, run_id=attempt.run_id),
                    tone=_TONES.get(attempt.outcome, "late"),
                ),
                attempt.attempt,
                attempt.at.replace(microsecond=0),
                Cell(attempt.error or "", tone="wrap"),
            )
            for attempt in reversed(attempts)
        ],
        empty="None.",
    )


def _standing(attempt: Attempt) -> str:
    """What has become of an attempt, as a sentence."""
    match attempt.outcome:
        case "rejected":
            return "It was rejected by its checks. Nothing of it was published, and the state is as it was."
        case "staged":
            return "It is staged and waits for its publication. Until then readers see what they saw before."
        case "failed":
            return f"It failed at the step {attempt.step or 'that began it'}. Nothing of it was published."
        case "lost":
            return "Another run was first. Nothing of it was published."
        case outcome if outcome == OPEN:
            return f"It is at work, or was killed: its lease ends at {time_text(attempt.expires_at)}."
        case outcome:
            return f"It was {outcome}."


def _record(attempt: Attempt, run: LedgerRow | None) -> Iterator[tuple[str, str]]:
    yield "run id", attempt.run_id
    yield "after ledger row", "–" if attempt.parent_seq is None else str(attempt.parent_seq)
    yield "attempt", str(attempt.attempt)
    yield "by", attempt.owner or "–"
    yield "claimed", time_text(attempt.claimed_at)
    yield "last sign of life", time_text(attempt.at)
    if attempt.claimed_at is not None:
        yield "took", duration_text(attempt.at - attempt.claimed_at)
    if run is not None:
        yield "watermark before", time_text(run.watermark_in)
        yield "watermark after", time_text(run.watermark_out)
    if attempt.exit_code is not None:
        yield "exit code", str(attempt.exit_code)


def _commands(view: PipelineView, attempt: Attempt) -> Iterator[tuple[str, str]]:
    if attempt.outcome == "staged":
        yield view.command("publish", attempt.run_id), "Publish it: this writes"
    if attempt.outcome == "rejected":
        to = iso(to_ms(attempt.slice_end))
        yield view.command("run", "--to", to), "Run again, once the source is mended: this writes"
        yield (
            view.command("publish", attempt.run_id, "--accept", "why it is right after all"),
            "Publish it in spite of its checks: this writes, and records the reason",
        )
    yield view.command("runs"), "The runs on a terminal, and attempts without a run"
