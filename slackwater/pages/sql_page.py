"""The SQL box of a pipeline: one statement, its first rows, and all of them as CSV. It answers what
`slackwater sql` answers, with a limit of time.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from slackwater.errors import RetryableError, without_credentials
from slackwater.inspection.rows.row_exports import csv_pieces
from slackwater.inspection.sql.select_statements import MEMORY_LIMIT, NotAStatement
from slackwater.inspection.sql.sql_answers import SqlAnswer, list_of_views
from slackwater.inspection.sql.statement_process import (
    StatementQuestion,
    answer_in_process,
    batches_in_process,
)
from slackwater.inspection.sql.views import LineageViews
from slackwater.pages.drawing.answer_table import answer_table
from slackwater.pages.drawing.table_view import PageColumn, TableView
from slackwater.pages.frame.links import link
from slackwater.pages.frame.rendering import render
from slackwater.pages.frame.site import PipelineInPath, PipelineView
from slackwater.pages.state_page import download
from slackwater.readable import count_text

router = APIRouter()

ROWS = 200
SECONDS = 10.0
_DOWNLOAD_SECONDS = 120.0
_LONGEST_STATEMENT = 20_000
# One statement and one download at a time: each may take as much memory as there is for all. A download waits
# for its reader, so statements do not wait for downloads.
STATEMENT_TURN, _DOWNLOAD_TURN = threading.BoundedSemaphore(1), threading.BoundedSemaphore(1)
_EXAMPLES = (
    (
        "late rows by key",
        "SELECT $KEYScount(*) AS late_rows, max(late_by_ms) AS longest_ms\n"
        "FROM late_live\nGROUP BY ALL ORDER BY late_rows DESC",
    ),
    (
        "what the newest run corrected",
        "SELECT cause, op, count(*) AS corrections\n"
        "FROM corrections\nWHERE seq = $SEQ\nGROUP BY ALL ORDER BY corrections DESC",
    ),
    (
        "rows and seconds of each run",
        "SELECT seq, slice_start, rows_read, rows_late, windows_open,\n"
        "    date_diff('second', started_at, committed_at) AS seconds\nFROM runs ORDER BY seq DESC",
    ),
    (
        "the fullest open windows",
        "SELECT $KEYSwindow_start, elements, cleanup_time\nFROM windows_now ORDER BY elements DESC LIMIT 20",
    ),
)

Statement = Annotated[str, Query(max_length=_LONGEST_STATEMENT)]
Seq = Annotated[str | None, Query(pattern=r"^\d{0,18}$")]


class StatementAtWork(RetryableError):
    """Another statement takes all the time there is."""


@router.get("/{pipeline}/sql", name="sql")
def sql_page(request: Request, view: PipelineInPath, statement: Statement = "", run: Seq = None) -> Response:
    """The box, and the answer to its statement."""
    start, result, fault = time.monotonic(), None, None
    with _views(view, run) as views:
        if statement.strip():
            try:
                with _turn(STATEMENT_TURN):
                    question = _question(view, views.row.seq, statement, SECONDS)
                    result = answer_in_process(replace(question, limit=ROWS))
            except NotAStatement as error:
                fault = without_credentials(error.message)
        examples = _examples(views)
        row, list_of_names = views.row, _views_table(views)
    return render(
        request,
        "sql.html",
        status=200 if fault is None else 400,
        pipeline=view.name,
        view=view,
        statement=statement,
        run=run,
        row=row,
        fault=fault,
        rows=None if result is None else answer_table(result.rows, "The answer", is_exact=True),
        shown=None if result is None else _shown(result, time.monotonic() - start),
        others=None if result is None else result.others,
        file=link(request, "sql_file", {"statement": statement, "run": run}, pipeline=view.name),
        examples=[
            (title, sql, link(request, "sql", {"statement": sql}, pipeline=view.name))
            for title, sql in examples
        ],
        list_of_views=list_of_names,
        seconds=SECONDS,
        memory=MEMORY_LIMIT.replace("MB", " MB"),
    )


@router.get("/{pipeline}/sql/file.csv", name="sql_file")
def sql_file(view: PipelineInPath, statement: Statement, run: Seq = None) -> Response:
    """All rows of a statement as a file, sent while they are read."""
    return download(_pieces(view, statement, run), f"{view.name}.csv", "text/csv; charset=utf-8")


def _pieces(view: PipelineView, statement: str, run: str | None) -> Iterator[bytes]:
    seq = view.inspection.run(int(run) if run else None).seq
    question = _question(view, seq, statement, _DOWNLOAD_SECONDS)
    with _turn(_DOWNLOAD_TURN), batches_in_process(question) as stream:
        yield from csv_pieces(stream)


def _question(view: PipelineView, seq: int, statement: str, seconds: float) -> StatementQuestion:
    return StatementQuestion(
        pipeline=view.name,
        warehouse=view.site.warehouse.root,
        seq=seq,
        sql=statement,
        limit=None,
        seconds=seconds,
    )


def _views(view: PipelineView, run: str | None) -> LineageViews:
    return LineageViews.over(view.inspection, view.inspection.run(int(run) if run else None))


@contextmanager
def _turn(turn: threading.BoundedSemaphore) -> Iterator[None]:
    """Wait until no other statement is at work; raises StatementAtWork where that takes too long."""
    if not turn.acquire(timeout=SECONDS):
        raise StatementAtWork("Another statement is at work; ask again in a moment.")
    try:
        yield
    finally:
        turn.release()


def _shown(result: SqlAnswer, seconds: float) -> str:
    shown = count_text(result.rows.num_rows, "row")
    if result.others is None:
        shown = f"the first {shown}; there are more"
    elif result.others:
        shown = f"the first {shown} of {result.rows.num_rows + result.others:,}"
    return f"{shown}, in {seconds:.2f} s"


def _views_table(views: LineageViews) -> TableView:
    names = list_of_views(views).to_pylist()
    return TableView(
        caption="Views",
        columns=[PageColumn("view", "code"), PageColumn("rows"), PageColumn("columns", "code")],
        rows=[(row["view"], row["rows"], _column_names(views, row["view"])) for row in names],
    )


def _column_names(views: LineageViews, view: str) -> str:
    """The columns of a view; a table function has the columns of its view, which are named there."""
    return "" if view.endswith("(seq)") else ", ".join(views.schema(view).names)


def _examples(views: LineageViews) -> Sequence[tuple[str, str]]:
    """Statements to begin with: what each answers, and the statement."""
    keys = "".join(f'"{name}", ' for name in views.inspection.key_columns())
    return tuple(
        (title, sql.replace("$KEYS", keys).replace("$SEQ", str(views.row.seq))) for title, sql in _EXAMPLES
    )
