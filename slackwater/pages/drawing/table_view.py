"""A table of a page as HTML. Written here and not by a template, because pages have thousands of cells. Every
value is escaped; control characters are shown, not sent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from markupsafe import Markup, escape

from slackwater import readable
from slackwater.inspection.answer_tables import AnswerTable, Column, Row
from slackwater.pages.frame.directions import isolate
from slackwater.readable import Precision

# `text` takes what any column may hold; `exact` is a number with all its digits and no separators; `duration`
# is in milliseconds or a timedelta, `share` between 0 and 1, `size` in bytes, `range` a pair of times, `key`
# one component or all of them, `code` in fixed width.
Kind = Literal["text", "key", "number", "exact", "share", "time", "duration", "size", "range", "code"]
_TEXTS: dict[str, Callable[[Any], str]] = {
    "key": readable.key_text,
    "number": readable.number_text,
    "exact": lambda value: readable.NOTHING if value is None else str(value),
    "share": readable.share_text,
    "duration": readable.duration_text,
    "size": readable.size_text,
    "range": lambda bounds: readable.range_text(*bounds),
}
_RIGHT = frozenset({"number", "exact", "share", "duration", "size"})


class PageColumn(NamedTuple):
    """A column of a table; `help` says what its heading does not."""

    heading: str
    kind: Kind = "text"
    help: str = ""


def page_columns(kinds: Mapping[str, Kind]) -> list[PageColumn]:
    """Columns by their headings."""
    return [PageColumn(heading, kind) for heading, kind in kinds.items()]


class Cell(NamedTuple):
    """A value that leads somewhere or stands out: `tone` is a class of the style sheet ("late", "bad",
    "good", "muted", "wrap"), `title` is shown when the pointer rests on it.
    """

    value: Any
    href: str | None = None
    tone: str | None = None
    title: str | None = None


@dataclass(frozen=True, kw_only=True)
class TableView:
    """Rows under columns; the first column names the row. Screen readers say the caption, and `shows_caption`
    shows it. A row has a value or a `Cell` for each column.
    """

    caption: str
    columns: Sequence[PageColumn]
    rows: Sequence[Sequence[Any]]
    empty: str = "Nothing to show."
    shows_caption: bool = False

    def __html__(self) -> str:
        return html_of(self)


# Kind of a column of an answer → how a page writes its values, where the two differ.
_KINDS: Mapping[str, Kind] = {"value": "text", "id": "exact"}


def table_view(
    answer: AnswerTable,
    links: Mapping[str, Callable[[Row], str | None]] | None = None,
    *,
    also: Sequence[str] = (),
    tone: Callable[[str, Row], str | None] = lambda name, row: None,
) -> TableView:
    """A table of an answer as a page shows it.

    Args:
        links: column → where a value leads, from its row; None: nowhere.
        also: columns that are shown though they are wide.
        tone: the tone of a cell, from its column and its row.
    """
    links, rows = links or {}, answer.rows
    columns = [
        column
        for column in answer.columns
        if (not column.is_wide or column.name in also) and (not column.is_optional or column.has_values(rows))
    ]
    cells = []
    for column in columns:
        values = _values_of_column(column, rows)
        hrefs = [links[column.name](row) if column.name in links else None for row in rows]
        tones = [tone(column.name, row) or ("wrap" if column.kind == "text" else None) for row in rows]
        cells.append([Cell(*cell) for cell in zip(values, hrefs, tones, strict=True)])
    return TableView(
        caption=answer.title,
        columns=[PageColumn(one.title or one.name, _kind(one, rows), one.help) for one in columns],
        rows=list(zip(*cells, strict=True)),
        empty=answer.empty,
    )


def _kind(column: Column, rows: Sequence[Row]) -> Kind:
    values = [value for value in map(column.value, rows) if value is not None]
    is_number = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    if column.kind == "value" and values and is_number:
        return "number"
    kind = "text" if column.kind == "exact_duration" else column.kind
    return _KINDS.get(kind, kind)  # type: ignore[arg-type]


def _values_of_column(column: Column, rows: Sequence[Row]) -> list[Any]:
    """The values of a column; times as texts of one precision, as on a terminal."""
    values = [column.value(row) for row in rows]
    if column.kind == "exact_duration":
        return [readable.exact_duration_text(value) for value in values]
    moments = [value for value in values if isinstance(value, datetime)]
    if column.kind != "value" or not moments:
        return values
    precision = readable.precision_of(moments, finest=Precision.SECOND)
    return [readable.time_text(value, precision) if value in moments else value for value in values]


def html_of(table: TableView) -> Markup:
    """The table as HTML, in a box of its own that scrolls."""
    if not table.rows:
        return Markup('<p class="empty">{}</p>').format(table.empty)
    writers = [
        _writer(column, [_value(row[place]) for row in table.rows])
        for place, column in enumerate(table.columns)
    ]
    parts = [
        f'<div class="table-box" tabindex="0" role="region" aria-label="{escape(table.caption)}"><table>',
        f"<caption{'' if table.shows_caption else ' class=unseen'}>{escape(table.caption)}</caption>",
        "<thead><tr>",
        *map(_heading, table.columns),
        "</tr></thead><tbody>",
    ]
    classes = [_class_of(column) for column in table.columns]
    for row in table.rows:
        parts.append("<tr>")
        parts += [_cell(value, write, kind) for value, write, kind in zip(row, writers, classes, strict=True)]
        parts.append("</tr>")
    parts.append("</tbody></table></div>")
    return Markup("".join(parts))


def value_text(value: Any) -> str:
    """A value of any column of a user's table, for people; Markup is left as it is."""
    return value if isinstance(value, Markup) else readable.value_text(value)


def _value(value: Any) -> Any:
    return value.value if isinstance(value, Cell) else value


def _writer(column: PageColumn, values: Sequence[Any]) -> Callable[[Any], str]:
    if column.kind == "time":
        precision = readable.precision_of(values, finest=Precision.MILLISECOND)
        return lambda value: readable.time_text(value, precision)
    return _TEXTS.get(column.kind, value_text)


def _class_of(column: PageColumn) -> str:
    if column.kind in _RIGHT:
        return "num"
    return "code" if column.kind == "code" else ""


def _heading(column: PageColumn) -> str:
    kind = ' class="num"' if column.kind in _RIGHT else ""
    title = f' title="{escape(column.help)}"' if column.help else ""
    return f'<th scope="col"{kind}{title}>{escape(column.heading)}</th>'


def _text(text: str) -> Markup:
    return escape(text) if text.isascii() or isinstance(text, Markup) else isolate(text)


def _cell(value: Any, write: Callable[[Any], str], kind: str) -> str:
    if not isinstance(value, Cell):
        text = _text(write(value))
        title = f' title="{escape(write(value))}"' if kind == "code" else ""  # its line may be cut
        return f'<td class="{kind}"{title}>{text}</td>' if kind else f"<td>{text}</td>"
    classes = " ".join(filter(None, (kind, value.tone)))
    title = f' title="{escape(value.title)}"' if value.title else ""
    text = _text(write(value.value))
    inner = f'<a href="{escape(value.href)}">{text}</a>' if value.href else text
    return f'<td class="{classes}"{title}>{inner}</td>'
