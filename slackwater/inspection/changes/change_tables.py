"""Changes of published rows as tables: what a row of the ledger changes, and the history of a key."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slackwater.inspection.answer_tables import AnswerTable, Column
from slackwater.inspection.change_text import cause_text, change_text, window_text
from slackwater.inspection.changes.published_change import reason_of

if TYPE_CHECKING:
    from slackwater.inspection.changes.published_change import PublishedChange
    from slackwater.inspection.changes.published_changes import PublishedChanges
    from slackwater.inspection.changes.window_history import WindowHistory


def changes_table(
    changes: "PublishedChanges",
    title: str,
    empty: str = "",
    *,
    heading: str = "change",
    has_cause: bool = True,
) -> AnswerTable:
    """Some changes by key and window. `heading`: the text above old → new."""
    return AnswerTable(
        title=title,
        columns=[
            *(Column(name, "key") for name in changes.keys),
            *_window_columns(changes.rows, changes.windows),
            Column("change", "text", heading=heading),
            *([Column("cause")] if has_cause else []),
        ],
        rows=[_table_row(row) for row in changes.rows],
        empty=empty,
        total=changes.total,
    )


def history_table(history: "WindowHistory", empty: str = "", *, is_of_window: bool) -> AnswerTable:
    """The changes of a key, or of one of its windows, the newest first."""
    changes = history.changes
    windows = list(changes[0].window) if changes else []
    return AnswerTable(
        title="Changes, the newest first",
        columns=[
            *([] if is_of_window else _window_columns([change.window for change in changes], windows)),
            Column("seq", "id", help="of the run or publication that brought the change"),
            Column("change", "text"),
            Column("why", "text"),
            Column("at", heading="published at"),
            *(Column(name, is_wide=True) for name in ("op", "cause", "kind", "firing", "revision")),
        ],
        rows=[_history_row(change) for change in changes],
        empty=empty,
    )


def _window_columns(rows: Sequence[Mapping[str, Any]], windows: Sequence[str]) -> list[Column]:
    """The window, as a range unless a row has no start, and the windows' own columns."""
    has_starts = all(row["window_start"] is not None for row in rows)
    window = Column("window", "range") if has_starts else Column("window_text", heading="window")
    return [window, *map(Column, windows[2:])]


def _table_row(row: Mapping[str, Any]) -> dict[str, Any]:
    texts = {"window_text": window_text(row), "change": change_text(row), "cause": cause_text(row["cause"])}
    return {**row, **texts}


def _history_row(change: "PublishedChange") -> dict[str, Any]:
    names = ("seq", "at", "old", "new", "op", "cause", "kind", "firing", "revision", "timestamp")
    facts = {name: getattr(change, name) for name in names}
    minute = change.at.replace(second=0, microsecond=0)
    return {**_table_row({**facts, **change.window}), "why": reason_of(change), "at": minute}
