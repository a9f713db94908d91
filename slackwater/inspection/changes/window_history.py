"""The history of the published rows of one key: what was published when, by which run, and why. Read from
`corrections`, newest first, only as far as it is shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.inspection.changes.change_causes import ChangeCauses
from slackwater.inspection.changes.published_change import PublishedChange
from slackwater.inspection.inspection import Inspection
from slackwater.inspection.sql.views import LineageViews
from slackwater.runs.lineage.history import horizon_of
from slackwater.tables.arrow_values import python_rows
from slackwater.windowing.times import to_datetime


@dataclass(frozen=True, kw_only=True)
class WindowHistory:
    """Some changes of the published rows of a key, newest first. `dropped_seq`: up to which run upkeep has
    dropped the changes of final windows (`keep_history`); None: none.
    """

    changes: Sequence[PublishedChange]
    has_more: bool
    dropped_seq: int | None


@dataclass(frozen=True, kw_only=True)
class HistoryQuestion:
    """Which changes are wanted: `limit` (None: all) after the first `offset`, of `key` (as --key takes it;
    None for windows of all rows), of the window with the start (or the row with the timestamp) `window_ms`,
    by the ledger row `seq`.
    """

    key: str | None
    window_ms: int | None = None
    seq: int | None = None
    limit: int | None = 50
    offset: int = 0


def history_of(inspection: Inspection, question: HistoryQuestion) -> WindowHistory:
    with LineageViews.over(inspection, inspection.run(None), question.key) as views:
        rows = _corrections(views, question)
        has_more = question.limit is not None and len(rows) > question.limit
        rows = rows[: question.limit] if has_more else rows
        changes = (
            list(ChangeCauses(views, _condition_on_key(views, question.key), rows).changes()) if rows else []
        )
    return WindowHistory(changes=changes, has_more=has_more, dropped_seq=horizon_of(inspection.tables))


def _corrections(views: LineageViews, question: HistoryQuestion) -> list[dict[str, Any]]:
    """The corrections in question, one more than the limit where there are more."""
    conditions, parameters = _condition_on_key(views, question.key)
    if question.seq is not None:
        conditions, parameters = [*conditions, "seq = ?"], [*parameters, question.seq]
    bound = "" if question.limit is None else f"LIMIT {question.limit + 1} OFFSET {question.offset}"
    order = "seq DESC, coalesce(window_start, window_end, timestamp) DESC, firing DESC, ordinal"

    def read(*window: str) -> list[dict[str, Any]]:
        where = " AND ".join([*conditions, *window]) or "true"
        moments = [] if question.window_ms is None else [to_datetime(question.window_ms)]
        sql = f"SELECT * FROM corrections WHERE {where} ORDER BY {order} {bound}"
        return python_rows(views.query(sql, [*parameters, *moments]))

    if question.window_ms is None:
        return read()
    return read("window_start = ?") or read("window_start IS NULL", "timestamp = ?")


def _condition_on_key(views: LineageViews, key: str | None) -> tuple[list[str], list[Any]]:
    if key is None:
        return [], []
    condition, parameters = views.condition_on_key(key)
    return [condition], parameters
