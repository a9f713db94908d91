"""The elements of a window: how many came when, from the pipeline's own tables; and the rows themselves, from
the source, for those who ask for them.

The tables say how much a window held at the end of each run and which rows were too late for it. The source
is read only by `source_rows`, between the first arrival that the window may have and the run that collected
it: sources are not keyed, so it reads every row that arrived in that time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from slackwater.inspection.windows.lineage_as_of import LineageAsOf, live_rows
from slackwater.inspection.windows.window_search import (
    WindowColumns,
    as_columns,
    condition_of,
    condition_within,
    late_reach,
    merges,
)
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.windowing.times import MILLISECOND

# So many snapshots that hold the window are looked at.
_SNAPSHOTS_LOOKED_AT = 5
_HELD_COLUMNS = ("elements", "firings", "first_arrival", "last_arrival")
_LATE_COLUMNS = ("event_time", "arrival_time", "windows", "late_by_ms", "watermark")


@dataclass(frozen=True, kw_only=True)
class HeldElements:
    """What the window held at a run's end: elements and firings so far, and its elements' arrivals."""

    seq: int
    slice_start: datetime
    slice_end: datetime
    elements: int
    firings: int
    first_arrival: datetime | None
    last_arrival: datetime | None


@dataclass(frozen=True, kw_only=True)
class LateRow:
    """A row that came too late for the window, and the run that read it.

    Attributes:
        watermark: when it arrived.
        missing_lateness: how much more allowed lateness would have saved it.
        values: the other columns of the source.
    """

    seq: int
    event_time: datetime
    arrival_time: datetime
    watermark: datetime | None
    missing_lateness: timedelta | None
    values: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class WindowElements:
    """The elements of a window.

    Attributes:
        accepted_count: how many the window has accepted, as far as firings and snapshots show.
        first_arrival, last_arrival: None where no snapshot that holds the window is kept.
        by_run: what it held at the end of each run, oldest first; of the newest runs that parked it.
        late, late_rows: how many rows were too late for it, and the first of them, by arrival.
        rows: its rows of the source, by arrival; None where the source was not read.
    """

    accepted_count: int | None
    first_arrival: datetime | None
    last_arrival: datetime | None
    by_run: Sequence[HeldElements]
    late: int
    late_rows: Sequence[LateRow]
    rows: Sequence[Any] | None = None


def growth(by_run: Sequence[HeldElements]) -> list[HeldElements]:
    return [
        after
        for before, after in zip((None, *by_run), by_run, strict=False)
        if before is None or (before.elements, before.firings) != (after.elements, after.firings)
    ]


def held_by_run(
    lineage: LineageAsOf, window: WindowColumns, cleanup_time: datetime | None
) -> list[HeldElements]:
    """What the window held at the ends of runs, oldest first, from the snapshots that are kept. For a window
    that merges it is the sum over the windows that it covers.
    """
    condition, _ = condition_within(window) if merges(lineage) else condition_of(window)
    held_elements: list[HeldElements] = []
    misses = 0
    for run in lineage.runs_that_may_hold(window["window_start"], cleanup_time):
        if not lineage.key_rows.is_in_log("window_state", run):
            continue
        parked_rows = lineage.key_rows.parked_rows("window_state", run, condition, _HELD_COLUMNS)
        rows = parked_rows.to_pylist()
        misses = 0 if rows else misses + 1
        if (
            len(held_elements) == _SNAPSHOTS_LOOKED_AT
            or (held_elements and misses)
            or misses == _SNAPSHOTS_LOOKED_AT
        ):
            break
        if rows:
            held_elements.append(_held_at(run, rows))
    return held_elements[::-1]


def _held_at(run: LedgerRow, rows: Sequence[Mapping[str, Any]]) -> HeldElements:
    assert run.slice_start is not None and run.slice_end is not None
    firsts = [row["first_arrival"] for row in rows if row["first_arrival"] is not None]
    lasts = [row["last_arrival"] for row in rows if row["last_arrival"] is not None]
    return HeldElements(
        seq=run.seq,
        slice_start=run.slice_start,
        slice_end=run.slice_end,
        elements=sum(row["elements"] for row in rows),
        firings=sum(row["firings"] for row in rows),
        first_arrival=min(firsts, default=None),
        last_arrival=max(lasts, default=None),
    )


def late_rows_of(lineage: LineageAsOf, window: WindowColumns) -> list[LateRow]:
    """The rows of live runs that were too late for the window, by arrival. For a session these are rows whose
    own window overlaps it.
    """
    condition, *bounds = late_reach(lineage, window["window_start"], window["window_end"])
    rows = live_rows(lineage, lineage.key_rows.read("late_events", condition, *bounds))
    names = {*_LATE_COLUMNS, "run_id", "key_group", "place", *lineage.key_rows.values}
    late_rows = []
    for row in rows:
        missed_windows = [one for one in as_columns(row["windows"]) if _is_of(lineage, one, window)]
        if not missed_windows:
            continue
        end = max(
            (one["window_end"] for one in missed_windows if one["window_end"] is not None), default=None
        )
        lateness = None if None in (end, row["watermark"]) else row["watermark"] - end + 2 * MILLISECOND
        late_rows.append(
            LateRow(
                seq=lineage.live_runs[row["place"]].seq,
                event_time=row["event_time"],
                arrival_time=row["arrival_time"],
                watermark=row["watermark"],
                missing_lateness=None if lateness is None else lateness - lineage.pipeline.allowed_lateness,
                values={name: value for name, value in row.items() if name not in names},
            )
        )
    return sorted(late_rows, key=lambda row: (row.arrival_time, row.event_time))


def _is_of(lineage: LineageAsOf, missed_window: WindowColumns, window: WindowColumns) -> bool:
    if not merges(lineage):
        return dict(missed_window) == dict(window)
    others_match = all(
        missed_window[name] == value for name, value in window.items() if not name.startswith("window_")
    )
    return bool(
        others_match
        and missed_window["window_start"] <= window["window_end"]
        and missed_window["window_end"] >= window["window_start"]
    )
