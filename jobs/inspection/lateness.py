"""Computes how many late rows another allowed lateness would have saved: a pure function on rows of
`late_events`.

Allowed lateness does not move watermarks, so the recorded ones apply, and for windows that do not merge the
answer is exact. For a session only the row's own window is considered: a session that the row could have
joined might end later, and take the row with less lateness.

    ├── window ──┤               ▼ the watermark when a row of 12:40 arrives
    12:00    13:00             14:10

The last millisecond of this window is 12:59:59.999. It takes the row if 12:59:59.999 + lateness > 14:10, that
is with a lateness of 1 h 10 min and 2 ms.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from slackwater.windowing.times import MILLISECOND

# Latenesses as people declare them; the report goes up in these steps until every row is saved.
_STEPS = (
    *(timedelta(minutes=number) for number in (1, 5, 15, 30)),
    *(timedelta(hours=number) for number in (1, 2, 3, 4, 6, 9, 12, 18)),
    *(timedelta(days=number) for number in (1, 2, 3, 5, 7, 10, 14, 21, 30, 60, 90, 180, 365)),
)


@dataclass(frozen=True)
class SavedRows:
    """The late rows that one allowed lateness would have saved.

    Attributes:
        lateness: the allowed lateness.
        rows, share: how many of the late rows a window would have taken, and which share of all.
        restate_from, restate_to: the range of arrivals to restate with that lateness to get these rows in;
            None where no row is saved. Without a restatement they stay lost: the windows are cleaned up
            already.
    """

    lateness: timedelta
    rows: int
    share: float
    restate_from: datetime | None
    restate_to: datetime | None


def needed_lateness(windows: Sequence[dict[str, datetime]], watermark: datetime) -> timedelta:
    """The least allowed lateness with which one of `windows` would have taken a row that arrived at
    `watermark`.

    A window takes rows while (its last millisecond + lateness) > watermark.
    """
    return watermark - _last_instant(windows) + MILLISECOND


def report(late: pa.Table, reopened_from: Callable[[datetime], datetime]) -> list[SavedRows]:
    """The rows saved by each lateness, in rising order: from the greatest step that saves none to the least
    lateness that saves all. Empty where no row is late.

    `reopened_from`: last millisecond of a window → where a restatement must begin to take rows for it.
    """
    columns = (late.column(name).to_pylist() for name in ("windows", "watermark", "arrival_time"))
    late_rows = sorted(
        (needed_lateness(windows, watermark), _last_instant(windows), arrival)
        for windows, watermark, arrival in zip(*columns, strict=True)
        if windows
    )
    if not late_rows:
        return []
    least, most = late_rows[0][0], late_rows[-1][0]
    steps = [step for step in _STEPS if step < most]
    saving_none = [step for step in steps if step < least][-1:]
    saved_rows = []
    for step in [*saving_none, *(step for step in steps if step >= least), most]:
        rows = [row for row in late_rows if row[0] <= step]
        first = reopened_from(min(last for _, last, _ in rows)) if rows else None
        beyond = max(arrival for *_, arrival in rows) + MILLISECOND if rows else None
        saved_rows.append(SavedRows(step, len(rows), len(rows) / len(late_rows), first, beyond))
    return saved_rows


def _last_instant(windows: Sequence[dict[str, datetime]]) -> datetime:
    """The last millisecond of the window that ends last."""
    return max(window["end"] for window in windows) - MILLISECOND
