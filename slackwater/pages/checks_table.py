"""The checks of a run or of an attempt as a table, with samples of what broke them."""

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.pages.drawing.table_view import Cell, PageColumn, TableView

_SAMPLE_CHARACTERS = 600


def checks_table(checks: Sequence[Mapping[str, Any]]) -> TableView:
    """The checks, failed ones first."""
    return TableView(
        caption="Checks",
        columns=[
            PageColumn("check"),
            PageColumn("result"),
            PageColumn("observed"),
            *(PageColumn("broken by", "number"), PageColumn("checked", "number")),
            PageColumn("sample of what broke it"),
        ],
        rows=[
            (
                Cell(check["expectation"], tone="wrap"),
                _result_cell(check),
                Cell(check["observed"], tone="wrap"),
                check["unexpected"],
                check["checked"],
                Cell(_sample(check["sample_json"]), tone="wrap"),
            )
            for check in sorted(checks, key=lambda check: bool(check["passed"]))
        ],
        empty="No checks were recorded.",
    )


def _result_cell(check: Mapping[str, Any]) -> Cell:
    if check["passed"]:
        return Cell("passed", tone="good")
    return Cell(f"failed: {check['severity']}", tone="bad" if check["severity"] == "reject" else "late")


def _sample(text: str | None) -> str:
    if text is None:
        return ""
    return text if len(text) <= _SAMPLE_CHARACTERS else f"{text[:_SAMPLE_CHARACTERS]}…"
