"""Draws changes of published rows as a table: key, window, old → new; keys lead to their history, windows to
their life.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from fastapi import Request
from starlette.routing import NoMatchFound

from slackwater.inspection.changes.change_text import cause_text, change_text, window_text
from slackwater.inspection.changes.published_changes import PublishedChanges
from slackwater.pages.drawing.answer_table import key_argument
from slackwater.pages.drawing.table_view import Cell, PageColumn, TableView
from slackwater.pages.frame.links import link
from slackwater.readable import key_text
from slackwater.runs.restating.branches import counts_text

# Causes that stand out: rows that came late.
_LATE = frozenset({"late", "redrive"})


def changes_table(
    request: Request,
    pipeline: str,
    changes: PublishedChanges,
    *,
    caption: str,
    change_heading: str = "Change",
) -> TableView:
    """The rows of some changes. `change_heading`: what stands above old → new."""
    has_key = bool(changes.keys)
    columns = [
        *([PageColumn("Key", help="leads to its history")] if has_key else []),
        PageColumn("Window"),
        *(PageColumn(name) for name in changes.windows[2:]),
        PageColumn(change_heading),
        PageColumn("Cause"),
    ]
    return TableView(
        caption=caption,
        columns=columns,
        rows=[
            (
                *([key_cell(request, pipeline, row, changes.keys)] if has_key else []),
                window_cell(request, pipeline, row, changes.keys),
                *(row[name] for name in changes.windows[2:]),
                Cell(change_text(row), tone="wrap"),
                cause_cell(row["cause"]),
            )
            for row in changes.rows
        ],
    )


def summary_text(changes: PublishedChanges) -> str:
    """How many published rows change."""
    return counts_text(changes.counts, changes.days).replace("`", "")


def key_cell(request: Request, pipeline: str, row: Mapping[str, Any], keys: Sequence[str]) -> Cell:
    """A key, which leads to its history."""
    values = [row[name] for name in keys]
    href = link(request, "history", {"key": key_argument(values)}, pipeline=pipeline)
    return Cell(key_text(values), href)


def window_cell(request: Request, pipeline: str, row: Mapping[str, Any], keys: Sequence[str]) -> Cell:
    """A window, which leads to the page of its life, where there is one; else to its history."""
    moment = row["window_start"] or row["timestamp"]
    if not isinstance(moment, datetime):  # none, or text of a far time, which nobody can ask for
        return Cell(window_text(row))
    query = {"key": key_argument([row[name] for name in keys]), "start": moment.isoformat()}
    href = link(request, "history", query, pipeline=pipeline)
    if row["window_start"] is not None:
        with suppress(NoMatchFound):
            href = link(request, "window", query, pipeline=pipeline)
    return Cell(window_text(row), href)


def cause_cell(cause: str) -> Cell:
    """The cause of a change."""
    return Cell(cause_text(cause), tone="late" if cause in _LATE else None)
