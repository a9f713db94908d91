"""The rows that the live runs could not use: how many for which reason, and the newest, as in the source."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from slackwater.errors import UsageError
from slackwater.inspection.sql.views import LineageViews
from slackwater.readable import time_text
from slackwater.tables.arrow_values import python_rows

_VIEW = "quarantine_live"
# A time as it is written into `row_json`.
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\.\d{6}Z")


class NoSuchReason(UsageError):
    """No row is in quarantine for a reason that was asked for. Facts: reason, reasons."""


@dataclass(frozen=True, kw_only=True)
class QuarantinedRows:
    """The reasons, by falling number of rows; and the newest rows among the `total` that were asked for.

    A reason has a `reason_code`, its number of `rows`, a `column_name` where it is one for all of them,
    and as `first_seq` and `last_seq` the runs that read the first and the last of them.
    """

    reasons: Sequence[dict[str, Any]]
    total: int
    rows: Sequence[dict[str, Any]]


def quarantined_rows(
    views: LineageViews,
    reason: str | None = None,
    seq: int | None = None,
    *,
    limit: int | None,
    offset: int = 0,
) -> QuarantinedRows:
    """The rows of live runs in quarantine, the newest run and arrival first: `limit` rows (None: all) after
    the first `offset`; with `reason` or `seq` only rows of that reason_code or run. Raises NoSuchReason: no
    row has the reason.
    """
    is_of_run, seqs = ("true", []) if seq is None else ("run_seq = ?", [seq])
    counts = views.query(
        f"""
        SELECT reason_code, count(*) AS rows,
            CASE WHEN count(DISTINCT column_name) = 1 THEN min(column_name) END AS column_name,
            min(run_seq) AS first_seq, max(run_seq) AS last_seq
        FROM {_VIEW} WHERE {is_of_run} GROUP BY reason_code ORDER BY rows DESC, reason_code
        """,
        seqs,
    )
    reasons = counts.to_pylist()
    asked_reasons = [one for one in reasons if reason in (None, one["reason_code"])]
    if reason is not None and not asked_reasons:
        raise NoSuchReason(_no_such_reason(reason, reasons), reason=reason)
    has_reason, codes = ("true", []) if reason is None else ("reason_code = ?", [reason])
    bound = "" if limit is None else f"LIMIT {limit} OFFSET {offset}"
    rows = views.query(
        f"SELECT * FROM {_VIEW} WHERE {is_of_run} AND {has_reason} "
        f"ORDER BY run_seq DESC, arrival_time DESC, row_json {bound}",
        [*seqs, *codes],
    )
    total = sum(one["rows"] for one in asked_reasons)
    return QuarantinedRows(reasons=reasons, total=total, rows=python_rows(rows))


def row_text(row_json: str) -> str:
    """A row of the source for people: `carrier 9E, dest DTW, flight 3716`, without what is null."""
    try:
        values = json.loads(row_json)
    except ValueError:
        return row_json
    if not isinstance(values, dict):
        return row_json
    return ", ".join(
        f"{name} {_text(value) if isinstance(value, str) else value}"
        for name, value in values.items()
        if value is not None
    )


def _text(value: str) -> str:
    return value if _TIME.fullmatch(value) is None else time_text(datetime.fromisoformat(value))


def _no_such_reason(reason: str, reasons: Sequence[dict[str, Any]]) -> str:
    there_are = ", ".join(f"{one['reason_code']} ({one['rows']:,})" for one in reasons)
    return (
        f"no row is in quarantine for the reason {reason!r}; "
        f"{f'the reasons are {there_are}' if reasons else 'no row is in quarantine at all'}."
    )
