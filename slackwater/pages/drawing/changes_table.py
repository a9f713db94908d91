"""Draws changes of published rows as a table: key, window, old → new. Keys lead to their history, windows to
their life.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from fastapi import Request
from starlette.routing import NoMatchFound

from slackwater.inspection.answer_tables import AnswerTable
from slackwater.inspection.change_text import cause_text
from slackwater.inspection.changes.published_changes import PublishedChanges
from slackwater.pages.drawing.answer_table import key_argument
from slackwater.pages.drawing.table_view import Cell, TableView, table_view
from slackwater.pages.frame.links import link
from slackwater.runs.restating.branches import counts_text

# Causes that are marked: rows that came late.
_LATE = frozenset({"late", "redrive"})
_LATE_TEXTS = frozenset(map(cause_text, _LATE))


def changes_view(
    request: Request, pipeline: str, changes: PublishedChanges, answer: AnswerTable
) -> TableView:
    """A table of changes; keys lead to their history, windows to their life."""

    def history_of_key(row: Mapping[str, Any]) -> str:
        query = {"key": key_argument([row[name] for name in changes.keys])}
        return link(request, "history", query, pipeline=pipeline)

    def life_of_window(row: Mapping[str, Any]) -> str | None:
        return window_href(request, pipeline, row, key_argument([row[name] for name in changes.keys]))

    links = {"window": life_of_window, "window_text": life_of_window}
    return table_view(answer, {**dict.fromkeys(changes.keys, history_of_key), **links}, tone=late_tone)


def summary_text(changes: PublishedChanges) -> str:
    return counts_text(changes.counts, changes.days).replace("`", "")


def window_href(request: Request, pipeline: str, row: Mapping[str, Any], key: str | None) -> str | None:
    """The page of a window's life, where there is one; else its history. `key`: as --key takes it."""
    moment = row["window_start"] or row["timestamp"]
    if not isinstance(moment, datetime):  # none, or text of a far time, which nobody can ask for
        return None
    query = {"key": key, "start": moment.isoformat()}
    if row["window_start"] is not None:
        with suppress(NoMatchFound):
            return link(request, "window", query, pipeline=pipeline)
    return link(request, "history", query, pipeline=pipeline)


def late_tone(column: str, row: Mapping[str, Any]) -> str | None:
    """Rows that came late are marked."""
    return "late" if column == "cause" and row["cause"] in _LATE_TEXTS else None


def cause_cell(cause: str) -> Cell:
    return Cell(cause_text(cause), tone="late" if cause in _LATE else None)
