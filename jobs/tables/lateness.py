"""How many late rows another allowed lateness would have saved: a pure function on rows of `late_events`.

The watermarks are as recorded, and a lateness moves none, so for windows that do not merge the answer is exact. A session is asked for by
the row's own window; one that it could have joined might have taken it with less.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

MILLISECOND = timedelta(milliseconds=1)
# What people declare; the table goes up in these steps until every row is saved.
_STEPS = (
    *(timedelta(minutes=number) for number in (1, 5, 15, 30)),
    *(timedelta(hours=number) for number in (1, 2, 3, 4, 6, 9, 12, 18)),
    *(timedelta(days=number) for number in (1, 2, 3, 5, 7, 10, 14, 21, 30, 60, 90, 180, 365)),
)


@dataclass(frozen=True)
class Saved:
    """With this allowed lateness, so many of the late rows would have been taken by a window."""

    lateness: timedelta
    rows: int
    share: float


def needed(windows: Sequence[dict[str, datetime]], watermark: datetime) -> timedelta:
    """The least allowed lateness with which one of `windows` would have taken a row that came at `watermark`.

    A window takes rows as long as its last millisecond + lateness > watermark.
    """
    last = max(window["end"] for window in windows) - MILLISECOND
    return watermark - last + MILLISECOND


def report(late: pa.Table) -> list[Saved]:
    """Rows saved by each lateness, in rising order, from the last that saves none to the least that saves all. Empty where none is late."""
    columns = (late.column("windows").to_pylist(), late.column("watermark").to_pylist())
    wanted = sorted(needed(windows, watermark) for windows, watermark in zip(*columns, strict=True) if windows)
    if not wanted:
        return []
    steps = [step for step in _STEPS if step < wanted[-1]]
    none = [step for step in steps if step < wanted[0]][-1:]
    found = [*none, *(step for step in steps if step >= wanted[0]), wanted[-1]]
    return [Saved(step, count := sum(need <= step for need in wanted), count / len(wanted)) for step in found]
