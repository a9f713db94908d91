"""Changes of published rows as JSON, and as the first few lines below the sentence of a publication."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slackwater.cli import printing
from slackwater.cli.printing import Output
from slackwater.inspection.change_text import change_text, window_text
from slackwater.readable import count_text, key_text

if TYPE_CHECKING:
    from slackwater.inspection.answer_tables import AnswerTable
    from slackwater.inspection.changes.published_changes import PublishedChanges
    from slackwater.runs.opened_pipeline import OpenedPipeline
    from slackwater.tables.ledger.rows import LedgerRow

# How many changes a publication shows of those that it made.
FIRST_ROWS = 5


def show(table: "AnswerTable", changes: "PublishedChanges", output: Output) -> None:
    """Print changes as a table, or as JSON."""
    rows = [json_row(row, changes.keys) for row in changes.rows] if output.is_json else table.rows
    printing.show(rows, table.columns, output, empty=table.empty, total=table.total)


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
