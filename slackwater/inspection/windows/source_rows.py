"""Reads the rows of one window from the source: for each run that may have given it elements the rows of the
key, judged and timed as the run did. Starts no JVM; a source that only Spark can read is refused.
"""

from collections import Counter, namedtuple
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.rows.carried_timeline import CarriedTimeline
from slackwater.engine.rows.columns_read import ARRIVAL, EVENT, element_columns, source_columns
from slackwater.engine.rows.element_order import in_order
from slackwater.engine.rows.judge import Judge
from slackwater.engine.rows.python_values import to_user_values
from slackwater.engine.source.scan import SliceScan
from slackwater.engine.transport.in_process import InProcess
from slackwater.errors import UsageError
from slackwater.inspection.windows.lineage_as_of import LineageAsOf, live_rows
from slackwater.inspection.windows.window_search import WindowColumns, merges
from slackwater.pipelines import Pipeline
from slackwater.runs.lineage.verify import recorded_slice, refuse_vacuumed
from slackwater.tables.arrow_values import python_rows
from slackwater.tables.ledger.rows import LedgerRow, RowKind
from slackwater.tables.warehouse import Warehouse
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK, Timeline
from slackwater.windowing.own_windows import declares_columns
from slackwater.windowing.times import to_datetime, to_ms
from slackwater.windowing.windows import GLOBAL_WINDOW


@dataclass(frozen=True, kw_only=True)
class RowOfWindow:
    """A row of the source that belongs to the window, and the run that took it in.

    Attributes:
        arrival_time, event_time: a row that was redriven or folded counts by its new arrival.
        is_late: whether it came too late for the window and is not in it.
        watermark: when it arrived; None before the first.
        values: the other columns.
    """

    seq: int
    arrival_time: datetime
    event_time: datetime
    is_late: bool
    watermark: datetime | None
    values: Mapping[str, Any]


class NeedsSpark(UsageError):
    """The rows of the source can't be read without Spark."""


def rows_of_window(
    lineage: LineageAsOf,
    warehouse: Warehouse,
    window: WindowColumns,
    first_arrival: datetime | None,
    collected_by: int | None,
) -> list[RowOfWindow]:
    """The rows of the window in the order in which the pipeline takes them, without rows that `where` leaves
    out, unusable ones, and rows that arrived after the run that collected the window: `late_events` has the
    late ones.

    Raises:
        NeedsSpark: a source has deletion vectors or renamed columns.
        CannotRepeat, SnapshotGone: the input of a run, or the snapshot before it, is gone.
    """
    rows: list[RowOfWindow] = []
    for run in _runs_to_read(lineage, window, first_arrival, collected_by):
        rows += rows_of_run(lineage, warehouse, run, window)
    return rows


def _runs_to_read(
    lineage: LineageAsOf, window: WindowColumns, first_arrival: datetime | None, collected_by: int | None
) -> list[LedgerRow]:
    start: datetime | None = window["window_start"]
    first = first_arrival or (None if start is None else start - lineage.pipeline.max_ahead)
    runs = []
    for run in lineage.live_runs:
        if run.kind == RowKind.RUN and (first is None or run.slice_end is None or run.slice_end > first):
            runs.append(run)
        if run.seq == collected_by:
            break
    return runs


def rows_of_run(
    lineage: LineageAsOf, warehouse: Warehouse, run: LedgerRow, window: WindowColumns
) -> list[RowOfWindow]:
    """The rows of the window that one run has read, late ones included. Raises as `rows_of_window`."""
    pipeline = lineage.pipeline
    work = recorded_slice(pipeline, warehouse, lineage.tables, run)
    scan = work.scan()
    obstacle = scan.why_not_direct()
    if obstacle is not None:
        raise NeedsSpark(
            f"{pipeline.name}: --elements can't read the source without Spark ({obstacle}). Without "
            "--elements the counts come from the pipeline's own tables."
        )
    refuse_vacuumed(pipeline, run, scan)
    elements = _elements_of_key(lineage, scan)
    if elements is None:
        return []
    elements = elements.filter(pa.array(_is_in_window(lineage, elements, window)))
    if not elements.num_rows:
        return []
    elements = in_order(pipeline, elements)
    timeline, _ = work.timeline(scan, work.progress(), InProcess())
    watermarks = _watermarks(lineage, timeline, elements)
    is_late = _is_late(lineage, elements, window, watermarks, timeline.collected_mark)
    return [
        RowOfWindow(
            seq=run.seq,
            arrival_time=to_datetime(arrival),
            event_time=to_datetime(event),
            is_late=late,
            watermark=None if watermark == INITIAL_WATERMARK else to_datetime(watermark),
            values=row,
        )
        for arrival, event, late, watermark, row in zip(
            elements.column(ARRIVAL).to_pylist(),
            elements.column(EVENT).to_pylist(),
            is_late,
            watermarks,
            _other_values(pipeline, elements),
            strict=True,
        )
    ]


def _other_values(pipeline: Pipeline, elements: pa.Table) -> list[dict[str, Any]]:
    own_names = {pipeline.roles.event_time, pipeline.roles.arrival_time, *pipeline.keys}
    names = [name for name in source_columns(elements.column_names) if name not in own_names]
    return python_rows(elements.select(names))


def _elements_of_key(lineage: LineageAsOf, scan: SliceScan) -> pa.Table | None:
    judge, parts = Judge.of(lineage.pipeline, scan), []
    for group in scan.groups():
        for batch in scan.read(group):
            elements = judge.judge_batch(batch, quarantine=False).elements
            for name, value in lineage.key_rows.scalars.items():
                elements = elements.filter(pc.equal(elements.column(name), value))
            parts.append(elements)
    return pa.concat_tables(parts) if parts else None


def _is_in_window(lineage: LineageAsOf, elements: pa.Table, window: WindowColumns) -> np.ndarray:
    """For each element, whether it belongs to the window: by the span of a session, its place in the grid of
    other windows, or the answer of the assigner.
    """
    assigner = lineage.pipeline.windows
    times = elements.column(EVENT if assigner.is_event_time else ARRIVAL).to_numpy()
    start, end = window["window_start"], window["window_end"]
    if not declares_columns(assigner.window_type):
        if start is None or end is None:
            return np.ones(len(times), np.bool_)
        last = to_ms(end) - (assigner.session_gap_ms or 1)
        return (times >= to_ms(start)) & (times <= last)
    windows = _assigned_windows(lineage, elements, times)
    return np.array(
        [any(_is_same(lineage, one, window) for one in row_windows) for row_windows in windows], np.bool_
    )


def _assigned_windows(lineage: LineageAsOf, elements: pa.Table, times: np.ndarray) -> Iterator[Sequence[Any]]:
    assigner = lineage.pipeline.windows
    names = element_columns(lineage.pipeline, elements.column_names)
    element_class: Any = namedtuple("Element", names)  # type: ignore[misc]
    columns = [to_user_values(elements.column(name)) for name in names]
    values = zip(*columns, strict=True) if names else iter([()] * elements.num_rows)
    arrivals = elements.column(ARRIVAL).to_pylist()
    for row, time, arrival in zip(values, times.tolist(), arrivals, strict=True):
        yield assigner.assign_windows(element_class(*row), time, _Clock(arrival))


@dataclass(frozen=True)
class _Clock:
    current_processing_time: int


def _is_same(lineage: LineageAsOf, assigned_window: Any, window: WindowColumns) -> bool:
    if assigned_window is GLOBAL_WINDOW:
        return window["window_end"] is None
    start, end = window["window_start"], window["window_end"]
    if any(
        getattr(assigned_window, name) != value
        for name, value in window.items()
        if name not in ("window_start", "window_end")
    ):
        return False
    if merges(lineage) and start is not None:
        return bool(to_ms(start) <= assigned_window.start and assigned_window.end <= to_ms(end))
    same_start = start is None or getattr(assigned_window, "start", None) == to_ms(start)
    return same_start and (end is None or assigned_window.max_timestamp() == to_ms(end) - 1)


def _watermarks(lineage: LineageAsOf, timeline: Timeline, elements: pa.Table) -> list[int]:
    if isinstance(timeline, CarriedTimeline):
        return [int(value) for value in timeline.watermarks_of(lineage.pipeline, elements)]
    # A row that was folded in arrived before the slice, and is processed at its start.
    arrivals = np.maximum(elements.column(ARRIVAL).to_numpy(), timeline.from_ms)
    return [int(value) for value in timeline.at_arrival(arrivals)]


def _is_late(
    lineage: LineageAsOf,
    elements: pa.Table,
    window: WindowColumns,
    watermarks: Sequence[int],
    collected_mark: int,
) -> list[bool]:
    """Whether each element came too late for the window. A window that merges may grow and take an element
    after all, so there the recorded late rows decide.
    """
    pipeline, end = lineage.pipeline, window["window_end"]
    if end is None or not pipeline.windows.is_event_time:
        return [False] * elements.num_rows
    if not merges(lineage):
        last_instant = to_ms(end) - 1
        closes_at = last_instant + pipeline.allowed_lateness_ms
        return [closes_at <= watermark or last_instant <= collected_mark for watermark in watermarks]
    late = lineage.key_rows.read("late_events", columns=["run_id", "event_time", "arrival_time"])
    counts = Counter(
        (to_ms(row["event_time"]), to_ms(row["arrival_time"])) for row in live_rows(lineage, late)
    )
    is_late = []
    for times in zip(elements.column(EVENT).to_pylist(), elements.column(ARRIVAL).to_pylist(), strict=True):
        is_late.append(counts[times] > 0)
        counts[times] -= 1
    return is_late
