"""Reads the rows of a lineage from its source, with the watermark at the arrival of each. That tells of rows
on time as well, so that shorter bounds of out-of-orderness have a price.

Runs are read as they were replayed, from their pinned versions by their timelines. Windows must lie on a
grid, because the windows that sessions would merge to are not computed here. Starts no JVM.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.engine.rows.columns_read import ARRIVAL, EVENT
from slackwater.engine.rows.judge import Judge
from slackwater.engine.transport.in_process import InProcess
from slackwater.errors import UsageError
from slackwater.inspection.inspection import Inspection
from slackwater.inspection.late_rows.lateness_settings import LatenessSettings
from slackwater.inspection.late_rows.recorded_assignments import (
    Longs,
    RecordedAssignments,
    differs_from_before,
)
from slackwater.inspection.windows.source_rows import NeedsSpark
from slackwater.pipelines import Pipeline
from slackwater.runs.lineage.verify import recorded_slice, refuse_vacuumed
from slackwater.tables.sql import query, quoted
from slackwater.tables.warehouse import Warehouse
from slackwater.windowing.columnar.numbered_windows import NumberedWindows, windows_on
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK
from slackwater.windowing.times import to_ms

# So many rows are read at most: each takes three numbers for each of its windows.
MOST_ROWS = 5_000_000
_BEFORE_ANY_WATERMARK = -(1 << 61)


class NotFromSource(UsageError):
    """The rows can't be judged from the source: other windows, too many rows, rows that count once."""


def assignments_of_source(
    inspection: Inspection, pipeline: Pipeline, warehouse: Warehouse, settings: LatenessSettings
) -> RecordedAssignments:
    """The rows of the runs of `settings`, one entry for each window of each. Raises NotFromSource;
    NeedsSpark: a source has deletion vectors or renamed columns; CannotRepeat, SnapshotGone: a run's input,
    or the snapshot before it, is gone.
    """
    grid = None if pipeline.window is None else pipeline.window.grid
    if grid is None:
        raise NotFromSource(f"{pipeline.name}: --elements reads the source for windows on a grid alone.")
    if pipeline.distinct_by is not None:
        raise NotFromSource(f"{pipeline.name}: --elements can't tell duplicates of rows from the first ones.")
    rows = sum(run.rows_read for run in settings.runs)
    if rows > MOST_ROWS:
        raise NotFromSource(
            f"{pipeline.name}: --elements would read {rows:,} rows of the source; name fewer runs with "
            f"--last N, of at most {MOST_ROWS:,} rows."
        )
    windows = windows_on(grid, settings.lateness_ms)
    parts = [
        part
        for run in settings.runs
        for part in _entries_of_run(inspection, pipeline, warehouse, run.seq, windows)
    ]
    keys, numbers, needed_ms, is_newest = (
        np.concatenate(columns) for columns in zip(*parts, strict=True)
    ) if parts else (np.zeros(0, np.int64),) * 4  # fmt: skip
    order = np.lexsort((needed_ms, numbers, keys))
    keys, numbers, needed_ms = keys[order], numbers[order], needed_ms[order]
    is_first = differs_from_before(keys, numbers)
    whole_from = None if not settings.earlier_runs else to_ms(settings.runs[0].slice_start)
    starts = windows.starts(numbers[is_first])
    return RecordedAssignments(
        windows=np.cumsum(is_first) - 1,
        needed_ms=needed_ms,
        rows=np.ones(len(order), np.int64),
        is_taken=needed_ms <= settings.lateness_ms,
        firings=np.where(needed_ms > 0, np.arange(len(order)), -1),
        last_instants=windows.last_instants(numbers[is_first]),
        are_whole=None if whole_from is None else starts >= whole_from,
        needs_of_rows=np.sort(needed_ms[is_newest[order].astype(np.bool_)]),
    )


def _entries_of_run(
    inspection: Inspection, pipeline: Pipeline, warehouse: Warehouse, seq: int, windows: NumberedWindows
) -> Iterator[tuple[Longs, Longs, Longs, Longs]]:
    """For each batch of rows: hash of the key, number of the window, lateness needed, and whether it is the
    newest window of its row, for each window of each row.
    """
    run = inspection.run(seq)
    work = recorded_slice(pipeline, warehouse, inspection.tables, run)
    scan = work.scan()
    obstacle = scan.why_not_direct()
    if obstacle is not None:
        raise NeedsSpark(
            f"{pipeline.name}: --elements can't read the source without Spark ({obstacle}). Without "
            "--elements the advice comes from the pipeline's own tables."
        )
    refuse_vacuumed(pipeline, run, scan)
    timeline, _ = work.timeline(scan, work.progress(), InProcess())
    judge = Judge.of(pipeline, scan)
    for group in scan.groups():
        for batch in scan.read(group):
            elements = judge.judge_batch(batch, quarantine=False).elements
            if not elements.num_rows:
                continue
            arrivals = np.maximum(elements.column(ARRIVAL).to_numpy(), timeline.from_ms)
            yield _entries(
                _hashes_of_keys(elements, pipeline.keys),
                elements.column(EVENT).to_numpy(),
                timeline.at_arrival(arrivals),
                windows,
            )


def _entries(
    keys: Longs, events: Longs, watermarks: Longs, windows: NumberedWindows
) -> tuple[Longs, Longs, Longs, Longs]:
    slices = windows.slices(events)
    newest, counts = windows.newest_windows(slices), windows.windows_per_slice(slices)
    rows = np.repeat(np.arange(len(events)), counts)
    # The windows of a row are the newest one and those just before it.
    steps = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    numbers = newest[rows] - steps
    watermarks = watermarks[rows]
    needed_ms = np.where(
        watermarks == INITIAL_WATERMARK,
        _BEFORE_ANY_WATERMARK,
        watermarks - windows.last_instants(numbers) + 1,
    )
    return keys[rows], numbers, needed_ms, (steps == 0).astype(np.int64)


def _hashes_of_keys(elements: pa.Table, keys: Sequence[str]) -> Any:
    if not keys:
        return np.zeros(elements.num_rows, np.uint64)
    hashes = query(f"SELECT hash({', '.join(map(quoted, keys))}) AS key FROM elements", elements=elements)
    return hashes.column("key").to_numpy()
