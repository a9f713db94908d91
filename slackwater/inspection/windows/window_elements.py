"""The elements of a window: how many came when and what it holds in the snapshot, from the pipeline's own
tables; and the rows themselves, from the source, for those who ask for them.

The tables say how much a window held at the end of each run and which rows were too late for it, and of an
open one its accumulators, the state of its trigger and of the user's function. The source is read only by
`source_rows`, between the first arrival that the window may have and the run that collected it: sources are
not keyed, so it reads every row that arrived in that time.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow.compute as pc

from slackwater.inspection.windows.lineage_as_of import LineageAsOf, live_rows
from slackwater.inspection.windows.window_search import (
    BOUNDS,
    WindowColumns,
    as_columns,
    condition_of,
    condition_within,
    late_reach,
    merges,
)
from slackwater.tables.arrow_values import python_rows
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


_OWN_COLUMNS = ("elements", "firings", "last_fired_at", "cleanup_time", "first_arrival", "last_arrival")


@dataclass(frozen=True, kw_only=True)
class KeptState:
    """State of a window in `keyed_state`: its descriptor's name, and in how many rows it is."""

    state_name: str
    rows: int


@dataclass(frozen=True, kw_only=True)
class ParkedWindow:
    """The window's row of `window_state`, and what belongs to it in the other tables of the snapshot of run
    `seq`.

    Attributes:
        elements: in the window's contents; 0 for one that is purged.
        accumulators: the parts of results that are accumulated, by column.
        contents, trigger_state, user_state: values of JSON; None where there is no such state.
        timers: pending, the next ones first.
        states: state of the window in `keyed_state`.
    """

    seq: int
    elements: int
    firings: int
    last_fired_at: datetime | None
    cleanup_time: datetime | None
    first_arrival: datetime | None
    last_arrival: datetime | None
    accumulators: Mapping[str, Any]
    contents: Any
    trigger_state: Any
    user_state: Any
    timers: Sequence[Mapping[str, Any]]
    states: Sequence[KeptState]

    def readable_parts(self) -> Iterator[tuple[str, Any]]:
        """Name and value of each accumulated part that people can read, unlike exact sums and sketches."""
        for name, value in self.accumulators.items():
            if not isinstance(value, bytes):
                yield name.replace("__", " · "), value


def row_of(lineage: LineageAsOf, window: WindowColumns) -> dict[str, Any] | None:
    rows = lineage.key_rows.parked_rows("window_state", lineage.owner, condition_of(window)[0])
    return next(iter(python_rows(rows)), None)


def parked_window(
    lineage: LineageAsOf, row: Mapping[str, Any], timers: Sequence[Mapping[str, Any]]
) -> ParkedWindow:
    assert lineage.owner is not None, "a window is parked in the snapshot of a run"
    return ParkedWindow(
        seq=lineage.owner.seq,
        accumulators={name: value for name, value in row.items() if "__" in name and value is not None},
        contents=_value_of_json(row["contents"]),
        trigger_state=_value_of_json(row["trigger_state"]),
        user_state=_value_of_json(row["user_state"]),
        timers=tuple(timers),
        states=tuple(_states(lineage, {name: row[name] for name in lineage.window_columns})),
        **{name: row[name] for name in _OWN_COLUMNS},
    )


def _states(lineage: LineageAsOf, window: WindowColumns) -> list[KeptState]:
    if all(value is None for value in window.values()):
        return []
    condition, _ = condition_of(
        {
            f"namespace_{name.removeprefix('window_') if name in BOUNDS else name}": value
            for name, value in window.items()
        }
    )
    rows = lineage.key_rows.parked_rows("keyed_state", lineage.owner, condition)
    counts = pc.value_counts(rows.column("state_name")).to_pylist()
    return [KeptState(state_name=count["values"], rows=count["counts"]) for count in counts]


def _value_of_json(text: str | None) -> Any:
    return None if text is None else json.loads(text)
