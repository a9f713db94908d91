"""Draws the figures of two groups of runs side by side, with their differences."""

from collections.abc import Sequence
from typing import Any

from slackwater.inspection.changes.run_comparison import FigurePair, compare_runs
from slackwater.pages.drawing.table_view import PageColumn, TableView
from slackwater.readable import duration_text, value_text
from slackwater.tables.ledger.rows import RUN_KINDS, LedgerRow


def figures_table(
    left: Sequence[LedgerRow], right: Sequence[LedgerRow], left_title: str, right_title: str
) -> TableView | None:
    """The figures of two groups of runs; None where these are no runs."""
    sides = [[row for row in rows if row.kind in RUN_KINDS] for rows in (left, right)]
    if not all(sides):
        return None
    return TableView(
        caption="Figures of the runs side by side",
        columns=[
            *(PageColumn("Figure"), PageColumn(left_title), PageColumn(right_title)),
            PageColumn("Difference"),
        ],
        rows=[_figure_row(pair) for pair in compare_runs(*sides)],
    )


def _figure_row(pair: FigurePair) -> list[Any]:
    cells = [_figure_text(value, pair.kind) for value in (pair.left, pair.right)]
    return [pair.name, *cells, _difference(pair)]


def _figure_text(value: Any, kind: str) -> str:
    return duration_text(value) if kind == "duration" else value_text(value)


def _difference(pair: FigurePair) -> str:
    left, right = pair.left, pair.right
    if not pair.is_different:
        return "the same"
    if (
        pair.kind in ("number", "duration")
        and isinstance(left, int | float)
        and isinstance(right, int | float)
    ):
        return f"{'+' if right > left else '−'}{_figure_text(abs(right - left), pair.kind)}"
    return "differs"
