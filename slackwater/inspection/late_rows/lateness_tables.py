"""The prices of latenesses and of bounds as tables."""

from dataclasses import asdict

from slackwater.inspection.answer_tables import AnswerTable, Column
from slackwater.inspection.late_rows.completeness import BARS, BoundAdvice, BoundPrice
from slackwater.inspection.late_rows.lateness_advice import LatenessAdvice, LatenessPrice

_LATE_ROWS = Column("late_rows", help="rows too late for every window of theirs")


def lateness_table(advice: LatenessAdvice, chosen_ms: int | None = None) -> AnswerTable:
    """The price of each lateness. `chosen_ms`: one that the reader wants to see."""
    return AnswerTable(
        title="What another allowed lateness would have done",
        columns=[
            Column("lateness_ms", "exact_duration", heading="allowed lateness"),
            Column("note", heading=""),
            _LATE_ROWS,
            Column("rows_saved", help="of the rows that were too late"),
            Column("rows_lost", is_optional=True, help="of the rows that windows took late"),
            Column("windows_refired", help="windows that fire again for late rows"),
            Column("windows_open", heading="open windows", help="at the end of a run, on average"),
            Column("state_bytes", "size", heading="state", help="what these take in storage"),
            Column("refires", help="firings for late rows"),
        ],
        rows=[
            {**asdict(price), "note": _note(price, advice, is_chosen=price.lateness_ms == chosen_ms)}
            for price in advice.prices
        ],
    )


def bound_table(advice: BoundAdvice | None, chosen_ms: int | None = None) -> AnswerTable | None:
    """The price of each bound; None where none is known. `chosen_ms`: one that the reader wants to see."""
    if advice is None or not advice.current.windows:
        return None
    return AnswerTable(
        title="How complete windows would have been under another bound",
        columns=[
            Column("bound_ms", "exact_duration", heading="bound"),
            Column("note", heading=""),
            Column("delay_ms", "exact_duration", heading="fires later by"),
            Column(
                "complete_share",
                "share",
                heading="complete windows",
                help="windows that had all their rows when they first fired",
            ),
            Column("row_share", "share", heading="rows at first firing", help="of all rows of these windows"),
            Column(
                "least_complete",
                "share",
                heading="least complete 5 %",
                help="how complete the least complete windows were at most",
            ),
            _LATE_ROWS,
        ],
        rows=[
            {
                **asdict(price),
                "complete_share": price.complete_share,
                "row_share": price.row_share,
                "least_complete": price.quantiles.get(0.05),
                "bars": {str(least): windows for least, windows in zip(BARS, price.bars, strict=True)},
                "note": _note(price, advice, is_chosen=price.bound_ms == chosen_ms),
            }
            for price in advice.prices
        ],
    )


def _note(price: LatenessPrice | BoundPrice, advice: LatenessAdvice | BoundAdvice, *, is_chosen: bool) -> str:
    if price == advice.current:
        return "declared"
    if price == advice.suggestion:
        return "suggested"
    return "chosen" if is_chosen else ""
