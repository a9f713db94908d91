"""Tables of runs: the checks of one, with samples of what broke them, and the figures of two groups of runs
side by side: two runs, or the runs of a branch and the runs of main that it would replace.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.pages.drawing.table_view import Cell, PageColumn, TableView, page_columns
from slackwater.readable import duration_text, value_text
from slackwater.tables.ledger.rows import RUN_KINDS, LedgerRow

_SAMPLE_CHARACTERS = 600
# Names of figures by the columns of `runs`: sums over a group of runs, and what its last run leaves behind.
_COUNTS = {
    "rows_read": "rows read",
    "rows_accepted": "accepted",
    "rows_late": "too late",
    "rows_quarantined": "quarantined",
    "windows_fired": "windows fired",
    "windows_refired": "windows refired",
}
_LEFT_BEHIND = {
    "windows_open": "windows left open",
    "timers_pending": "timers pending",
    "watermark_out": "watermark",
}
_HASHES = {"config_hash": "settings", "code_hash": "code", "state_hash": "state"}


def checks_table(checks: Sequence[Mapping[str, Any]]) -> TableView:
    """The checks, failed ones first."""
    return TableView(
        caption="Checks",
        columns=page_columns(
            {
                **{"check": "text", "result": "text", "observed": "text", "broken by": "number"},
                **{"checked": "number", "sample of what broke it": "text"},
            }
        ),
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


def figures_table(
    left: Sequence[LedgerRow], right: Sequence[LedgerRow], left_title: str, right_title: str
) -> TableView | None:
    """The figures of two groups of runs, with their differences; None where these are no runs."""
    sides = [[row for row in rows if row.kind in RUN_KINDS] for rows in (left, right)]
    if not all(sides):
        return None
    figures = zip(*map(_figures, sides), strict=True)
    return TableView(
        caption="Figures of the runs side by side",
        columns=[PageColumn(heading) for heading in ("Figure", left_title, right_title, "Difference")],
        rows=[
            (name, _text(first, name), _text(second, name), _difference(first, second, name))
            for (name, first), (_, second) in figures
        ],
    )


def _figures(runs: Sequence[LedgerRow]) -> list[tuple[str, Any]]:
    last = runs[-1]
    return [
        ("runs", _seqs_text(runs)),
        ("from", runs[0].slice_start),
        ("to", last.slice_end),
        ("source versions", _versions(runs)),
        *((name, sum(getattr(run, column) for run in runs)) for column, name in _COUNTS.items()),
        *((name, getattr(last, column)) for column, name in _LEFT_BEHIND.items()),
        *((name, _short_hash(getattr(last, column))) for column, name in _HASHES.items()),
        (_TOOK, 1000 * sum(sum(run.phase_seconds.values()) for run in runs)),
    ]


def _short_hash(value: str | None) -> str | None:
    return None if value is None else value[:12]


_TOOK = "took"  # a duration, in milliseconds


def _seqs_text(runs: Sequence[LedgerRow]) -> str:
    seqs = [str(run.seq) for run in runs]
    return ", ".join(seqs if len(seqs) <= 4 else [*seqs[:2], "…", seqs[-1]])


def _versions(runs: Sequence[LedgerRow]) -> str:
    """The versions of each source that the runs have read: `events 1–3`."""
    versions: dict[str, set[int]] = {}
    for run in runs:
        for item in run.inputs:
            versions.setdefault(item.table, set()).add(item.version)
    return ", ".join(
        f"{table} {min(numbers)}" + (f"–{max(numbers)}" if len(numbers) > 1 else "")
        for table, numbers in versions.items()
    )


def _text(value: Any, name: str) -> str:
    return duration_text(value) if name == _TOOK else value_text(value)


def _difference(left: Any, right: Any, name: str) -> str:
    if left == right:
        return "the same"
    if isinstance(left, int | float) and isinstance(right, int | float):
        return f"{'+' if right > left else '−'}{_text(abs(right - left), name)}"
    return "differs"
