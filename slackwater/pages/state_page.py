"""The pages of parked, late and unusable rows: windows, timers, keyed state, late rows, quarantine; page by
page, by key and time, and as a file.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import Response, StreamingResponse

from slackwater.inspection.rows.row_exports import csv_pieces, parquet_pieces
from slackwater.inspection.rows.row_pages import (
    OPTIONAL_COLUMNS,
    PAGE_ROWS,
    STATE_TABLES,
    PagedView,
    RowFilter,
    RowPage,
    RowPlace,
    StateTable,
)
from slackwater.inspection.sql.views import LineageViews
from slackwater.pages.drawing.answer_table import answer_table, run_link, window_link
from slackwater.pages.drawing.table_view import TableView
from slackwater.pages.frame.links import link, moment_of, same_page
from slackwater.pages.frame.rendering import render
from slackwater.pages.frame.site import PipelineInPath, PipelineView

router = APIRouter()

Form = Literal["csv", "parquet"]
_PIECES = {"csv": csv_pieces, "parquet": parquet_pieces}
_MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


@dataclass(frozen=True, kw_only=True)
class Question:
    """The part of a table that a URL asks for: of a key, a range of time, as of a ledger row (None: main's
    head), and a page by its number and its place.
    """

    key: str | None = None
    start: Annotated[str | None, Query(alias="from")] = None
    end: Annotated[str | None, Query(alias="to")] = None
    run: Annotated[str | None, Query(pattern=r"^\d{0,18}$")] = None
    page: Annotated[int, Query(ge=1, le=2**63 - 1)] = 1
    after: str | None = None
    before: str | None = None

    @property
    def seq(self) -> int | None:
        return int(self.run) if self.run else None

    def row_filter(self, table: StateTable) -> RowFilter:
        return RowFilter(
            key=self.key or None,
            time_column=table.time_column,
            start=moment_of(self.start),
            end=moment_of(self.end),
        )

    @property
    def place(self) -> RowPlace | None:
        if self.before:
            return RowPlace.from_text(self.before, is_backward=True)
        return RowPlace.from_text(self.after) if self.after else None

    def views(self, view: PipelineView) -> LineageViews:
        return LineageViews.over(view.inspection, view.inspection.run(self.seq), self.key or None)


def _table(table: str) -> StateTable:
    if table not in STATE_TABLES:
        raise HTTPException(404, f"There is no table {table!r} here; there are {', '.join(STATE_TABLES)}.")
    return STATE_TABLES[table]


QuestionInQuery = Annotated[Question, Depends()]
TableInPath = Annotated[StateTable, Depends(_table)]


@router.get("/{pipeline}/state/{table}", name="state")
def state_page(
    request: Request, view: PipelineInPath, table: TableInPath, question: QuestionInQuery
) -> Response:
    with question.views(view) as views:
        rows_in_order = table.paged_view(views)
        page = rows_in_order.page(question.row_filter(table), question.place)
        rows = _rows_table(request, view.name, table, rows_in_order, page)
        row = views.row
    number = 1 if page.is_first else question.page
    first = (number - 1) * PAGE_ROWS + 1
    query = {"key": question.key, "from": question.start, "to": question.end, "run": question.seq}
    return render(
        request,
        "state.html",
        pipeline=view.name,
        view=view,
        table=table,
        tables=[
            (one.title, link(request, "state", query, pipeline=view.name, table=name), name == table.name)
            for name, one in STATE_TABLES.items()
        ],
        question=question,
        has_keys=bool(rows_in_order.views.inspection.key_columns()),
        key_example=", ".join(rows_in_order.views.inspection.key_columns()),
        run=row,
        rows=rows,
        total=page.total,
        first=first,
        last=first + page.rows.num_rows - 1,
        next_page=_beside(request, page.next_place, number + 1),
        previous_page=_beside(request, page.previous_place, max(1, number - 1)),
        downloads=[
            (form, link(request, "state_file", query, pipeline=view.name, table=table.name, form=form))
            for form in _PIECES
        ],
        verb=_verb(view, table, question),
    )


@router.get("/{pipeline}/state/{table}/file.{form}", name="state_file")
def state_file(view: PipelineInPath, table: TableInPath, question: QuestionInQuery, form: Form) -> Response:
    """All rows as a file, sent while they are read."""
    return download(
        _pieces(view, table, question, form), f"{view.name}-{table.name}.{form}", _MEDIA_TYPES[form]
    )


def download(pieces: Iterator[bytes], file_name: str, media_type: str) -> Response:
    """A file to keep, sent piece by piece. An error before the first piece becomes a page."""
    first_piece = next(pieces, b"")
    return StreamingResponse(
        chain([first_piece], pieces),
        media_type=media_type,
        headers={"Content-Disposition": f'attachment; filename="{file_name}"', "Cache-Control": "no-store"},
    )


def _pieces(view: PipelineView, table: StateTable, question: Question, form: Form) -> Iterator[bytes]:
    with (
        question.views(view) as views,
        table.paged_view(views).batches(question.row_filter(table)) as stream,
    ):
        yield from _PIECES[form](stream)


def _rows_table(
    request: Request, pipeline: str, table: StateTable, rows_in_order: PagedView, page: RowPage
) -> TableView:
    rows = page.rows.select(list(table.columns(rows_in_order.views)))
    shown_columns = [
        name
        for name in rows.schema.names
        if name not in OPTIONAL_COLUMNS or rows.column(name).null_count < rows.num_rows
    ]
    rows = rows.select(shown_columns)
    keys = rows_in_order.views.inspection.key_columns()
    links = {}
    if "run_seq" in shown_columns:
        links["run_seq"] = run_link(request, pipeline)
    if "window_start" in shown_columns and set(keys) <= set(shown_columns):
        links["window_start"] = window_link(request, pipeline, keys)
    headings = {
        name: name.removesuffix("_ms").replace("__", " · ").replace("_", " ") for name in shown_columns
    }
    headings |= {"run_seq": "seq"}
    return answer_table(rows, table.title, headings=headings, keys=keys, links=links)


def _beside(request: Request, place: RowPlace | None, number: int) -> str:
    """The URL of a page beside this one; empty where there is none."""
    if place is None:
        return ""
    text = place.to_text()
    is_backward = place.is_backward
    return same_page(
        request,
        page=number,
        after=None if is_backward else text,
        before=text if is_backward else None,
    )


def _verb(view: PipelineView, table: StateTable, question: Question) -> str:
    """The command that shows the same on a terminal."""
    verb = {"late": "late list", "quarantine": "quarantine list"}.get(table.name, f"state {table.name}")
    return view.command(verb, options={"--key": question.key, "--run": question.seq})
