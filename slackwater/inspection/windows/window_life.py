"""The life of one window: what went into it, what came out of it and why, what changed, how it is parked, and
what it waits for. Each part is a file of its own. Reads the pipeline's tables, and its source only where that
is asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import Any

from slackwater.errors import UsageError
from slackwater.inspection.inspection import Inspection
from slackwater.inspection.windows.lineage_as_of import KeyRows, LineageAsOf
from slackwater.inspection.windows.window_elements import (
    HeldElements,
    ParkedWindow,
    WindowElements,
    held_by_run,
    late_rows_of,
    parked_window,
    row_of,
)
from slackwater.inspection.windows.window_firings import (
    AbsorbedWindow,
    WindowFiring,
    absorbed_windows,
    corrections_of,
    firings_of,
    published_rows,
)
from slackwater.inspection.windows.window_search import WindowName, find_window, merges
from slackwater.inspection.windows.window_waiting import WaitsFor, timers_of, waits_for
from slackwater.pipelines import Pipeline
from slackwater.tables.ledger.rows import MAIN, LedgerRow
from slackwater.tables.warehouse import Warehouse
from slackwater.windowing.times import MILLISECOND

# How many late rows are shown unless more are asked for.
SHOWN_ROWS = 20


class WindowStatus(StrEnum):
    """Where a window is in its life.

    Attributes:
        OPEN: it holds elements and has not fired.
        HAS_FIRED: it has fired, and elements may still make it fire again.
        IS_COLLECTED: it has fired, and takes no elements any more.
        NEVER_FIRED: it was collected without a firing; its elements are in no result.
        ON_BRANCH: only runs of a branch that is not published have fired it.
        IS_REPLACED: only runs that no longer count have fired it.
        LATE_ROWS_ONLY: it has never been open: all of its rows came too late.
    """

    OPEN = "open"
    HAS_FIRED = "fired"
    IS_COLLECTED = "collected"
    NEVER_FIRED = "never fired"
    ON_BRANCH = "on a branch"
    IS_REPLACED = "replaced"
    LATE_ROWS_ONLY = "late rows only"


@dataclass(frozen=True, kw_only=True)
class AskedWindow:
    """The window that is explained.

    Attributes:
        key, columns: key column → value; window column → value: its bounds, and what its class declares.
        instant: the instant by which it was asked for, where that is not its start: it lies in a session.
        cleanup_time: the watermark at which it is collected; None for never.
        collected_by: seq of the run that collected it; None where it is open, or where that is not known.
    """

    pipeline: str
    key: Mapping[str, Any]
    columns: Mapping[str, Any]
    instant: datetime | None
    status: WindowStatus
    trigger: str
    cleanup_time: datetime | None
    collected_by: int | None


@dataclass(frozen=True, kw_only=True)
class StoppedSlice:
    """The newest attempt at the next slice, not committed, which keeps the window from moving on."""

    run_id: str
    slice_start: datetime
    slice_end: datetime
    outcome: str
    step: str | None
    error: str | None


@dataclass(frozen=True, order=True)
class WatermarkPoint:
    clock: datetime
    watermark: datetime


@dataclass(frozen=True, kw_only=True)
class WindowExplanation:
    """The life of one window as of a ledger row.

    Attributes:
        unpublished_seqs: how many ledger rows `published` lags behind.
        firings, replaced_firings: its panes that count, oldest first, and those that do not: other runs count
            instead, or they are on a branch.
        absorbed_windows: windows that had fired and are part of it since a merge.
        published_rows: its rows that readers see now.
        parked_state: its state in the snapshot; None where it is not open.
        watermarks: the course of the watermark during its life, as far as it is recorded.
        stopped_slice: why no run comes next, if one was tried.
    """

    seq: int
    branch: str
    unpublished_seqs: int
    window: AskedWindow
    elements: WindowElements
    firings: Sequence[WindowFiring]
    replaced_firings: Sequence[WindowFiring]
    absorbed_windows: Sequence[AbsorbedWindow]
    corrections: Sequence[Mapping[str, Any]]
    published_rows: Sequence[Mapping[str, Any]]
    parked_state: ParkedWindow | None
    waits_for: WaitsFor
    watermarks: Sequence[WatermarkPoint]
    stopped_slice: StoppedSlice | None

    def as_json(self) -> dict[str, Any]:
        values = _plain(self)
        return {name: values[name] for name in _FIRST_IN_JSON} | values


_FIRST_IN_JSON = ("window", "waits_for", "elements", "firings", "corrections")


@dataclass(frozen=True, kw_only=True)
class WindowQuestion:
    """Which window is asked about, by key as a person writes it (None for windows of all rows) and by name;
    as of a seq or a branch, or main's head. `row_limit`: how many rows of elements are wanted; None: all.
    """

    key: str | None
    name: WindowName
    at: str | None = None
    reads_source: bool = False
    row_limit: int | None = SHOWN_ROWS


def explain_window(
    pipeline: Pipeline, warehouse_uri: str | None, question: WindowQuestion
) -> WindowExplanation:
    """The life of the window that `question` names; raises UsageError or NoRuns, and SnapshotGone."""
    _refuse_without_windows(pipeline)
    inspection = Inspection.of(pipeline.name, warehouse_uri)
    lineage = _lineage(pipeline, inspection, question)
    head = lineage.head
    columns = find_window(lineage, question.name)
    lineage = lineage.from_window(columns["window_start"])
    row = row_of(lineage, columns)
    timers = [] if row is None else timers_of(lineage, columns)
    corrections = corrections_of(lineage, columns)
    firings = firings_of(lineage, columns, corrections)
    live_firings = [firing for firing in firings if firing.standing == "live"]
    own_firings = [firing for firing in live_firings if dict(firing.window) == columns]
    cleanup_time = _cleanup_time(pipeline, columns) if row is None else row["cleanup_time"]
    held_elements = held_by_run(lineage, columns, cleanup_time)
    window = AskedWindow(
        pipeline=pipeline.name,
        key=dict(lineage.key_rows.values),
        columns=columns,
        instant=_instant_within(lineage, question.name.instant, columns),
        status=_status(row, own_firings, held_elements, firings),
        trigger=type(pipeline.effective_trigger).__name__,
        cleanup_time=cleanup_time,
        collected_by=None if row is not None else _collected_by(lineage, cleanup_time, held_elements),
    )
    elements = _elements(lineage, columns, own_firings, held_elements, question.row_limit)
    if question.reads_source:
        elements = _with_source_rows(elements, lineage, warehouse_uri, window)
    is_main = head.branch == MAIN and question.at is None
    return WindowExplanation(
        seq=head.seq,
        branch=head.branch,
        unpublished_seqs=max(0, head.seq - inspection.published_seq()) if is_main else 0,
        window=window,
        elements=elements,
        firings=live_firings,
        replaced_firings=[firing for firing in firings if firing.standing != "live"],
        absorbed_windows=tuple(absorbed_windows(firings, columns)),
        corrections=corrections,
        published_rows=published_rows(lineage, columns) if is_main else (),
        parked_state=None if row is None else parked_window(lineage, row, timers),
        waits_for=waits_for(lineage, row, timers),
        watermarks=watermark_points(lineage, columns["window_start"], cleanup_time, live_firings, elements),
        stopped_slice=_stopped_slice(lineage, head) if is_main and row is not None else None,
    )


def _refuse_without_windows(pipeline: Pipeline) -> None:
    if pipeline.window is None:
        raise UsageError(
            f"{pipeline.name} has no windows: a KeyedProcessFunction runs in it. `slackwater state keyed "
            f"{pipeline.name} --key K` and `slackwater state timers {pipeline.name} --key K` show what it "
            "keeps for a key and what it waits for."
        )


def _lineage(pipeline: Pipeline, inspection: Inspection, question: WindowQuestion) -> LineageAsOf:
    head = inspection.run(None) if question.at is None else inspection.at(question.at)
    key_rows = KeyRows.of(inspection.tables, inspection.key_columns(), question.key, pipeline.max_parallelism)
    newest = inspection.tables.ledger.newest() if question.at is None else head
    lineage = LineageAsOf(pipeline, head, key_rows, (newest or head).seq)
    return lineage.from_window(question.name.instant)


def _with_source_rows(
    elements: WindowElements, lineage: LineageAsOf, warehouse_uri: str | None, window: AskedWindow
) -> WindowElements:
    # What replays a slice takes as long to import as the rest of an explanation takes.
    from slackwater.inspection.windows.source_rows import rows_of_window

    warehouse, first = Warehouse.at(warehouse_uri), elements.first_arrival
    return replace(
        elements, rows=rows_of_window(lineage, warehouse, window.columns, first, window.collected_by)
    )


def _status(
    row: Mapping[str, Any] | None,
    firings: Sequence[WindowFiring],
    held_elements: Sequence[HeldElements],
    all_firings: Sequence[WindowFiring],
) -> WindowStatus:
    if row is not None:
        return WindowStatus.HAS_FIRED if row["firings"] else WindowStatus.OPEN
    if firings:
        return WindowStatus.IS_COLLECTED
    if held_elements:
        return WindowStatus.NEVER_FIRED
    standings = {firing.standing for firing in all_firings}
    if "replaced" in standings:
        return WindowStatus.IS_REPLACED
    return WindowStatus.ON_BRANCH if standings - {"live"} else WindowStatus.LATE_ROWS_ONLY


def _instant_within(
    lineage: LineageAsOf, instant: datetime | None, columns: Mapping[str, Any]
) -> datetime | None:
    start = columns["window_start"]
    return instant if merges(lineage) and start is not None and instant != start else None


def _cleanup_time(pipeline: Pipeline, columns: Mapping[str, Any]) -> datetime | None:
    """When a window that is not open was collected, by the allowed lateness declared today."""
    end: datetime | None = columns["window_end"]
    if end is None:
        return None
    return end - MILLISECOND + (pipeline.allowed_lateness if pipeline.windows.is_event_time else timedelta())


def _collected_by(
    lineage: LineageAsOf, cleanup_time: datetime | None, held_elements: Sequence[HeldElements]
) -> int | None:
    """The first run at whose end the watermark, or the clock, had reached the window's cleanup time."""
    if cleanup_time is None:
        return None
    by_clock = not lineage.pipeline.windows.is_event_time
    newest_holder = held_elements[-1].slice_end if held_elements else None
    for run in lineage.live_runs:
        progress = run.slice_end if by_clock else run.watermark_out
        is_later = newest_holder is None or run.slice_end is None or run.slice_end > newest_holder
        if progress is not None and progress >= cleanup_time and is_later:
            return run.seq
    return None


def _elements(
    lineage: LineageAsOf,
    columns: Mapping[str, Any],
    firings: Sequence[WindowFiring],
    held_elements: Sequence[HeldElements],
    row_limit: int | None,
) -> WindowElements:
    late_rows = late_rows_of(lineage, columns)
    counts = [firing.elements for firing in firings if firing.elements is not None]
    counts = [*counts, *(one.elements for one in held_elements[-1:])]
    arrivals = [one.first_arrival for one in held_elements if one.first_arrival is not None]
    lasts = [one.last_arrival for one in held_elements if one.last_arrival is not None]
    return WindowElements(
        accepted_count=max(counts, default=None),
        first_arrival=min(arrivals, default=None),
        last_arrival=max(lasts, default=None),
        by_run=held_elements,
        late=len(late_rows),
        late_rows=late_rows if row_limit is None else late_rows[:row_limit],
    )


def _stopped_slice(lineage: LineageAsOf, head: LedgerRow) -> StoppedSlice | None:
    if head.slice_end is None:
        return None
    attempts = lineage.tables.attempts.starting_at(head.slice_end)
    newest = attempts[-1] if attempts else None
    if newest is None or newest.outcome in ("committed", "lost"):
        return None
    return StoppedSlice(**{field.name: getattr(newest, field.name) for field in fields(StoppedSlice)})


def _plain(value: Any) -> Any:
    """Records as objects, durations as milliseconds in `…_ms`; other values as they are."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain({field.name: getattr(value, field.name) for field in fields(value)})
    if isinstance(value, Mapping):
        return {
            f"{name}_ms" if isinstance(item, timedelta) else name: _plain(item)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value // MILLISECOND if isinstance(value, timedelta) else value


# Of a window that is open for long the newest runs.
_MOST_RUNS = 60


def watermark_points(
    lineage: LineageAsOf,
    start: datetime | None,
    cleanup_time: datetime | None,
    firings: Sequence[WindowFiring],
    elements: WindowElements,
) -> list[WatermarkPoint]:
    """The recorded watermarks from the first run that may have held the window to the one that collected it,
    in order of the clock.
    """
    moments = [
        *_points_of_runs(lineage, start, cleanup_time),
        *((firing.clock, firing.watermark) for firing in firings),
        *((row.arrival_time, row.watermark) for row in elements.late_rows),
        *((row.arrival_time, row.watermark) for row in elements.rows or ()),
    ]
    points = {
        WatermarkPoint(clock, watermark)
        for clock, watermark in moments
        if clock is not None and watermark is not None
    }
    return sorted(points)


def _points_of_runs(
    lineage: LineageAsOf, start: datetime | None, cleanup_time: datetime | None
) -> Iterator[tuple[datetime | None, datetime | None]]:
    runs = list(islice(lineage.runs_that_may_hold(start, None), _MOST_RUNS))[::-1]
    for run in runs:
        yield run.slice_start, run.watermark_in
        yield run.slice_end, run.watermark_out
        watermark = run.watermark_out
        if cleanup_time is not None and watermark is not None and watermark >= cleanup_time:
            return
