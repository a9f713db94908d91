"""The page of a key's history: what was published when, old → new, and why; or all that one run or
publication has changed.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from slackwater.inspection.change_text import source_row_text
from slackwater.inspection.changes.change_tables import changes_table, history_table
from slackwater.inspection.changes.published_change import PublishedChange
from slackwater.inspection.changes.published_changes import PublishedChanges
from slackwater.inspection.changes.window_history import HistoryQuestion, history_of
from slackwater.pages.drawing.answer_table import changes_view, late_tone, summary_text, window_href
from slackwater.pages.drawing.table_view import Cell, TableView, page_columns, table_view
from slackwater.pages.frame.links import link, moment_of, same_page
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
        verb=view.command("history", options={"--key": key, "--window": start, "--run": run}),
        **values,
    )


def _history(request: Request, view: PipelineView, question: HistoryQuestion) -> Mapping[str, Any]:
    history = history_of(view.inspection, question)
    is_of_window = question.window_ms is not None
    answer = history_table(history, "Nothing was published there.", is_of_window=is_of_window)

    def life_of_window(row: Mapping[str, Any]) -> str | None:
        return window_href(request, view.name, row, question.key)

    links = {
        "seq": lambda row: link(request, "run", pipeline=view.name, seq=row["seq"]),
        "window": life_of_window,
        "window_text": life_of_window,
    }
    return {
        "rows": table_view(answer, links, also=("cause",), tone=late_tone),
        "moved_rows": _moved_rows(request, view.name, history.changes),
        "has_more": history.has_more,
        "dropped_seq": history.dropped_seq,
    }


def _moved_rows(request: Request, pipeline: str, changes: Sequence[PublishedChange]) -> TableView | None:
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
        columns=page_columns(
            {
                **{"Seq": "text", "What became of it": "text"},
                **{"Event time": "time", "Arrival": "time", "Row": "text"},
            }
        ),
        rows=rows,
    )


def _changes_of_row(request: Request, view: PipelineView, seq: int, offset: int) -> Mapping[str, Any]:
    row = view.inspection.run(seq)
    changes = PublishedChanges.of_row(view.inspection, row, ROWS, offset)
    return {
        "rows": changes_view(
            request, view.name, changes, changes_table(changes, f"What row {seq} has changed")
        ),
        "summary": f"{summary_text(changes)}.",
        "has_more": changes.total > offset + len(changes.rows),
    }


def _window_ms(start: str | None) -> int | None:
    moment = moment_of(start)
    return None if moment is None else to_ms(moment)
