"""Draws rows of any columns, and changes of published rows, as tables: kinds by the types of the columns,
what is nested as JSON, runs, keys and windows as links.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa
from fastapi import Request

from slackwater.inspection.answer_tables import AnswerTable
from slackwater.inspection.change_text import cause_text
from slackwater.inspection.changes.published_changes import PublishedChanges
from slackwater.inspection.rows.row_exports import json_value, rows_of
from slackwater.pages.drawing.table_view import Cell, Kind, PageColumn, TableView, table_view
from slackwater.pages.frame.links import link
from slackwater.readable import Precision, plain_text, precision_of, range_text, time_text
from slackwater.runs.restating.branches import counts_text

_LONGEST_TEXT = 400
_LONG_TEXT = 60
_COUNTS = frozenset({"elements", "firings"})


def answer_table(
    rows: pa.Table,
    caption: str,
    *,
    headings: Mapping[str, str] | None = None,
    keys: Sequence[str] = (),
    is_exact: bool = False,
    links: Mapping[str, Callable[[Mapping[str, Any]], str | None]] | None = None,
) -> TableView:
    """The rows as a table.

    Args:
        is_exact: whether times show their milliseconds; else they are written to the second, as everywhere.
        links: column → where a value leads, from the values of its row; None: nowhere.
    """
    names, headings, links = rows.schema.names, headings or {}, links or {}
    values_by_row = list(rows_of(rows))
    columns: list[PageColumn] = []
    cells_by_column: list[list[Any]] = []
    for number, column in enumerate(rows.schema):
        values = [row[number] for row in values_by_row]
        kind = _kind(column, values, is_key=column.name in keys)
        cells = _cells(column, values, is_exact=is_exact)
        if column.name in links:
            hrefs = (links[column.name](dict(zip(names, row, strict=True))) for row in values_by_row)
            cells = [
                cell if href is None else Cell(cell, href) for cell, href in zip(cells, hrefs, strict=True)
            ]
        columns.append(PageColumn(plain_text(headings.get(column.name, column.name)), kind))
        cells_by_column.append(cells)
    table_rows = list(zip(*cells_by_column, strict=True))
    return TableView(caption=caption, columns=columns, rows=table_rows)


def _kind(column: pa.Field, values: Sequence[Any], *, is_key: bool) -> Kind:
    kind = column.type
    if is_key:
        return "key"
    if pa.types.is_integer(kind):
        return (
            "duration" if column.name.endswith("_ms") else "exact" if column.name not in _COUNTS else "number"
        )
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "exact"
    if any(isinstance(value, str) and len(value) > _LONG_TEXT for value in values):
        return "code"
    return "text"


def _cells(column: pa.Field, values: Sequence[Any], *, is_exact: bool) -> list[Any]:
    if pa.types.is_timestamp(column.type) and not any(isinstance(value, str) for value in values):
        finest = Precision.MILLISECOND if is_exact else Precision.SECOND
        precision = precision_of(values, finest)
        return [None if value is None else time_text(value, precision) for value in values]
    return [_shown(value) for value in values]


def _shown(value: Any) -> Any:
    """A value as the table takes it: what is nested as text, and long texts cut."""
    if isinstance(value, list) and value and all(_is_window(item) for item in value):
        return ", ".join(range_text(item["start"], item["end"]) for item in value)
    if isinstance(value, list | dict | tuple):
        value = json.dumps(value, default=json_value, ensure_ascii=False)
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return value[:_LONGEST_TEXT] + "…"
    return value


def _is_window(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"start", "end"}


def run_link(request: Request, pipeline: str) -> Callable[[Mapping[str, Any]], str | None]:
    """Where the seq of a run leads, in its column `run_seq`."""
    return lambda row: link(request, "run", pipeline=pipeline, seq=row["run_seq"])


def window_link(
    request: Request, pipeline: str, keys: Sequence[str]
) -> Callable[[Mapping[str, Any]], str | None]:
    """Where the window of a row leads."""
    return lambda row: window_href(request, pipeline, row, key_argument([row[name] for name in keys]))


def key_argument(values: Sequence[Any]) -> str | None:
    """A key as --key and pages take it; None for windows of all rows."""
    if not values:
        return None
    texts = [_key_component(value) for value in values]
    is_plain = len(texts) == 1 and not texts[0].startswith("[")
    return texts[0] if is_plain else json.dumps(texts)


def _key_component(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)


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

    links: dict[str, Callable[[Mapping[str, Any]], str | None]] = dict.fromkeys(changes.keys, history_of_key)
    links |= dict.fromkeys(("window", "window_text"), window_link(request, pipeline, changes.keys))
    return table_view(answer, links, tone=late_tone)


def summary_text(changes: PublishedChanges) -> str:
    return counts_text(changes.counts, changes.days).replace("`", "")


def window_href(request: Request, pipeline: str, row: Mapping[str, Any], key: str | None) -> str | None:
    """The page of a window's life; of a row without a window its history. `key`: as --key takes it."""
    moment = row["window_start"] or row.get("timestamp")
    if not isinstance(moment, datetime):  # none, or text of a far time, which nobody can ask for
        return None
    page = "history" if row["window_start"] is None else "window"
    return link(request, page, {"key": key, "start": moment.isoformat()}, pipeline=pipeline)


def late_tone(column: str, row: Mapping[str, Any]) -> str | None:
    """Rows that came late are marked."""
    return "late" if column == "cause" and row["cause"] in _LATE_TEXTS else None


def cause_cell(cause: str) -> Cell:
    return Cell(cause_text(cause), tone="late" if cause in _LATE else None)
