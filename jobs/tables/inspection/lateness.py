"""How many late rows another allowed lateness would have saved: a pure function on rows of `late_events`.

The watermarks are as recorded, and a lateness moves none, so for windows that do not merge the answer is
exact. A session is asked for by the row's own window; one that it could have joined might have taken it with
less.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from slackwater.windowing.times import MILLISECOND

# What people declare; the table goes up in these steps until every row is saved.
_STEPS = (
    *(timedelta(minutes=number) for number in (1, 5, 15, 30)),
    *(timedelta(hours=number) for number in (1, 2, 3, 4, 6, 9, 12, 18)),
    *(timedelta(days=number) for number in (1, 2, 3, 5, 7, 10, 14, 21, 30, 60, 90, 180, 365)),
)


@dataclass(frozen=True)
class Saved:
    """With this allowed lateness, so many of the late rows would have been taken by a window; and with it
    they are, once the arrivals [restate_from, restate_to) are restated: no lateness that is declared later
    brings back what was collected. None where no row is saved."""

    lateness: timedelta
    rows: int
    share: float
    restate_from: datetime | None
    restate_to: datetime | None


def needed(windows: Sequence[dict[str, datetime]], watermark: datetime) -> timedelta:
    """The least allowed lateness with which one of `windows` would have taken a row that came at `watermark`.

    A window takes rows as long as its last millisecond + lateness > watermark.
    """
    return watermark - _last_instant(windows) + MILLISECOND


def report(late: pa.Table, reopened_from: Callable[[datetime], datetime]) -> list[Saved]:
    """Rows saved by each lateness, in rising order, from the last that saves none to the least that saves
    all. Empty where none is late.

    `reopened_from` says where a restatement has to begin to take rows for a window with that last instant.
    """
    columns = (late.column(name).to_pylist() for name in ("windows", "watermark", "arrival_time"))
    wanted = sorted(
        (needed(windows, watermark), _last_instant(windows), arrival)
        for windows, watermark, arrival in zip(*columns, strict=True)
        if windows
    )
    if not wanted:
        return []
    least, most = wanted[0][0], wanted[-1][0]
    steps = [step for step in _STEPS if step < most]
    none = [step for step in steps if step < least][-1:]
    saved = []
    for step in [*none, *(step for step in steps if step >= least), most]:
        rows = [row for row in wanted if row[0] <= step]
        first = reopened_from(min(last for _, last, _ in rows)) if rows else None
        beyond = max(arrival for *_, arrival in rows) + MILLISECOND if rows else None
        saved.append(Saved(step, len(rows), len(rows) / len(wanted), first, beyond))
    return saved


def _last_instant(windows: Sequence[dict[str, datetime]]) -> datetime:
    """The last millisecond of the window that ends last."""
    return max(window["end"] for window in windows) - MILLISECOND
