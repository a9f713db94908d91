"""Draws where the rows went that a run read, and what became of the windows that were open."""

from typing import NamedTuple

from markupsafe import Markup

from slackwater.inspection.runs.run_account import Account, rows_account, windows_account
from slackwater.pages.drawing.flow_drawing import flow_drawing
from slackwater.tables.ledger.rows import LedgerRow

_NAMES = {
    "rows_read": "read",
    "rows_accepted": "accepted",
    "rows_late": "too late",
    "rows_unassigned": "unassigned",
    "rows_quarantined": "quarantined",
    "rows_filtered": "filtered",
    "rows_duplicate": "duplicate",
    "windows_before": "open before",
    "windows_opened": "opened",
    "windows_open": "open after",
    "windows_cleaned": "cleaned up",
    "windows_merged": "merged away",
}


class Flow(NamedTuple):
    """An account as a drawing (None where there is nothing to draw) and as numbers: `924 read = 919 accepted
    + 2 too late + 3 quarantined`, and what is missing in it.
    """

    title: str
    drawing: Markup | None
    equation: str
    difference: int


def rows_flow(run: LedgerRow) -> Flow:
    return _flow("Rows", rows_account(run))


def windows_flow(run: LedgerRow, before: LedgerRow | None) -> Flow:
    return _flow("Windows", windows_account(run, before))


def _flow(title: str, account: Account) -> Flow:
    equation = " = ".join(
        " + ".join(f"{part.amount:,} {_NAMES[part.name]}" for part in parts)
        for parts in (account.sources, account.outcomes)
    )
    drawing = flow_drawing(account, _NAMES, equation) if account.total else None
    return Flow(title, drawing, equation, account.difference)
