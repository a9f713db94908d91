"""Prints changes of published rows: as rows of a table, and as the first few lines below what a publication
says.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slackwater.cli import printing
from slackwater.cli.table_layout import Column
from slackwater.inspection.changes.change_text import cause_text, change_text, window_text
from slackwater.readable import count_text, key_text

if TYPE_CHECKING:
    from slackwater.inspection.changes.published_changes import PublishedChanges
    from slackwater.runs.opened_pipeline import OpenedPipeline
    from slackwater.tables.ledger.rows import LedgerRow

# How many changes a publication shows of those that it made.
FIRST_ROWS = 5


def columns(keys: Sequence[str], windows: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """The columns of a table of changes, as `table_row` makes its rows: key, window, and the windows' own
    columns. A window is shown as a range, unless a row has no start.
    """
    has_starts = all(row["window_start"] is not None for row in rows)
    window = Column("window", "range") if has_starts else Column("window_text", heading="window")
    return [*printing.keys(keys), window, *(Column(name) for name in windows[2:])]


def table_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A correction as a row of a table: its columns, the window as a text, and what it did to the results."""
    return {
        **row,
        "window_text": window_text(row),
        "change": change_text(row),
        "cause": cause_text(row["cause"]),
    }


def json_row(row: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """A correction as JSON: its key as an object of its own, because a key column may have any name."""
    others = {name: value for name, value in row.items() if name not in keys and name != "key_group"}
    return {"key": {name: row[name] for name in keys}, **others}


def first_lines(opened_pipeline: "OpenedPipeline", row: "LedgerRow") -> list[str]:
    """Lines that say which rows a publication has changed first, and which command shows the others."""
    from slackwater.inspection.changes.published_changes import PublishedChanges
    from slackwater.inspection.inspection import Inspection

    inspection = Inspection(opened_pipeline.name, opened_pipeline.tables)
    changes = PublishedChanges.of_row(inspection, row, FIRST_ROWS)
    lines = [f"  {line}" for line in _lines(changes)]
    if changes.total > len(changes.rows):
        lines.append(
            f"  {count_text(changes.total - len(changes.rows), 'more row')}: "
            f"slackwater history {opened_pipeline.name} --run {row.seq}"
        )
    return lines


def _lines(changes: "PublishedChanges") -> list[str]:
    """Each change as `key  window  what changed`, in columns."""
    cells = [
        (
            key_text([row[name] for name in changes.keys]),
            " ".join([window_text(row), *(str(row[name]) for name in changes.windows[2:])]),
            change_text(row),
        )
        for row in changes.rows
    ]
    widths = [max((len(cell[place]) for cell in cells), default=0) for place in (0, 1)]
    return [
        "  ".join([key.ljust(widths[0]), window.ljust(widths[1]), change]).strip()
        for key, window, change in cells
    ]
