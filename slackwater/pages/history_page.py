"""The page of a key's history: what was published when, old → new, and why; or all that one run or
publication has changed.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from slackwater.inspection.changes.change_reason import reason_of
from slackwater.inspection.changes.change_text import change_text, source_row_text
from slackwater.inspection.changes.published_change import PublishedChange
from slackwater.inspection.changes.published_changes import PublishedChanges
from slackwater.inspection.changes.window_history import HistoryQuestion, history_of
from slackwater.pages.drawing.changes_table import cause_cell, changes_table, summary_text, window_cell
from slackwater.pages.drawing.table_view import Cell, PageColumn, TableView
from slackwater.pages.frame.links import link, same_page
from slackwater.pages.frame.query_times import moment_of
from slackwater.pages.frame.rendering import render
from slackwater.pages.frame.site import PipelineInPath, PipelineView
from slackwater.windowing.times import to_ms

router = APIRouter()
ROWS = 50

PageNumber = Annotated[int, Query(ge=1, le=1_000_000)]
Run = Annotated[str | None, Query(pattern=r"^\d{0,18}$")]


@router.get("/{pipeline}/history", name="history")
def history_page(
    request: Request,
    view: PipelineInPath,
    *,
    key: str | None = None,
    start: str | None = None,
    run: Run = None,
    page: PageNumber = 1,
) -> Response:
    keys, seq = view.inspection.key_columns(), int(run) if run else None
    window_ms, offset = _window_ms(start), (page - 1) * ROWS
    answer: Mapping[str, Any] = {}
    if key or not keys:
        question = HistoryQuestion(
            key=key if keys else None, window_ms=window_ms, seq=seq, limit=ROWS, offset=offset
        )
        answer = _history(request, view, question)
    elif seq is not None:
        answer = _changes_of_row(request, view, seq, offset)
    values = {"rows": None, "moved_rows": None, "summary": "", "has_more": False, "dropped_seq": None} | {
        **answer
    }
    return render(
        request,
        "history.html",
        pipeline=view.name,
        view=view,
        keys=keys,
        asked={"key": key or "", "start": start or "", "run": run or ""},
        page=page,
        shown=f"changes {offset + 1:,} to {offset + len(values['rows'].rows):,}" if values["rows"] else "",
        previous_page=same_page(request, page=page - 1) if page > 1 else "",
        next_page=same_page(request, page=page + 1) if values["has_more"] else "",
        verb=_verb(view, key, start, run),
        **values,
    )


def _history(request: Request, view: PipelineView, question: HistoryQuestion) -> Mapping[str, Any]:
    history = history_of(view.inspection, question)
    is_of_window = question.window_ms is not None
    return {
        "rows": TableView(
            caption="Changes, the newest first",
            columns=[
                PageColumn("Published at", "time"),
                PageColumn("Seq", help="of the run or publication that brought the change"),
                *([] if is_of_window else [PageColumn("Window")]),
                PageColumn("Change"),
                PageColumn("Why"),
                PageColumn("Cause"),
            ],
            rows=[
                _change_row(request, view.name, change, is_of_window=is_of_window)
                for change in history.changes
            ],
            empty="Nothing was published there.",
        ),
        "moved_rows": _moved_rows(request, view.name, history.changes),
        "has_more": history.has_more,
        "dropped_seq": history.dropped_seq,
    }


def _change_row(request: Request, pipeline: str, change: PublishedChange, *, is_of_window: bool) -> list[Any]:
    row = {**change.key, **change.window, "timestamp": change.timestamp}
    text = change_text({"old": change.old, "new": change.new, "firing": change.firing, "kind": change.kind})
    return [
        change.at.replace(microsecond=0),
        Cell(change.seq, link(request, "run", pipeline=pipeline, seq=change.seq)),
        *([] if is_of_window else [window_cell(request, pipeline, row, list(change.key))]),
        Cell(text, tone="wrap"),
        Cell(reason_of(change), tone="wrap"),
        cause_cell(change.cause),
    ]


def _moved_rows(request: Request, pipeline: str, changes: Sequence[PublishedChange]) -> TableView | None:
    """The late rows that changes have taken in or left out."""
    rows = [
        (
            Cell(change.seq, link(request, "run", pipeline=pipeline, seq=change.seq)),
            "taken in" if row.is_taken else "left out",
            row.event_time,
            row.arrival_time,
            Cell(source_row_text(row.values), tone="wrap"),
        )
        for change in changes
        for row in change.moved_rows
    ]
    if not rows:
        return None
    return TableView(
        caption="Late rows that a change has taken in or left out",
        columns=[
            *(PageColumn("Seq"), PageColumn("What became of it"), PageColumn("Event time", "time")),
            *(PageColumn("Arrival", "time"), PageColumn("Row")),
        ],
        rows=rows,
    )


def _changes_of_row(request: Request, view: PipelineView, seq: int, offset: int) -> Mapping[str, Any]:
    row = view.inspection.run(seq)
    changes = PublishedChanges.of_row(view.inspection, row, ROWS, offset)
    return {
        "rows": changes_table(request, view.name, changes, caption=f"What row {seq} has changed"),
        "summary": f"{summary_text(changes)}.",
        "has_more": changes.total > offset + len(changes.rows),
    }


def _window_ms(start: str | None) -> int | None:
    moment = moment_of(start)
    return None if moment is None else to_ms(moment)


def _verb(view: PipelineView, key: str | None, start: str | None, run: str | None) -> str:
    """The command that shows the same on a terminal."""
    options = (("--key", key), ("--window", start), ("--run", run))
    return view.command("history", *(word for name, value in options if value for word in (name, value)))
