"""What a plan says of parked state: the windows that rows of its range touch; rows that are late only because
their windows were collected under a smaller allowed lateness; and settings that differ from the continued
run's: what they mean for windows that are open, and which restatement gives these, or all windows, what
today's settings say.

    main       |-- run 1 --|-- run 2 --|-- run 3 --|  next slice, with one more result
    windows                     [ opened in run 2, open ............ ]     no value of it
                                                     [ opened here ]       a value
    restated               |-- run 4 --|-- run 5 --|  from the snapshot before the oldest open window
                                [ ................................. ]      a value

Reads the snapshot and the ledger, and writes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.rows.progress import Progress
from slackwater.pipelines import Pipeline
from slackwater.pipelines.window_columns import all_columns
from slackwater.runs.planning import touched_windows
from slackwater.runs.planning.source_reads import PlanInputs
from slackwater.runs.planning.touched_windows import KeyGroupSample
from slackwater.runs.restating import restatement
from slackwater.runs.staging.collected_mark import (
    LiveMarks,
    advice_on_rows_late_by_mark,
    collects,
    mark_of,
    newest_last_instants,
)
from slackwater.runs.staging.evolution import Difference
from slackwater.runs.staging.slices import iso
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.run_files.snapshots import is_kept, snapshot_files, stored_snapshot
from slackwater.tables.run_files.staging import count_staged, read_staged
from slackwater.windowing.times import to_ms


@dataclass(frozen=True)
class TouchedWindows:
    """How many windows a snapshot holds, and how many of them and of `published` a plan's rows touch, by
    an estimate from the key groups of `sample` (None: they are counted).
    """

    parked_windows: int
    touched_parked_windows: int
    touched_published_windows: int
    sample: KeyGroupSample | None = None


def count_touched_windows(
    inputs: PlanInputs, owner: LedgerRow | None, points: Sequence[pa.Table], sample: KeyGroupSample
) -> TouchedWindows:
    tables, pipeline = inputs.tables, inputs.pipeline
    if tables is None or pipeline.window is None:
        return TouchedWindows(0, 0, 0)
    keys, reach_ms = list(pipeline.keys), _reach_ms(pipeline)
    columns = [*keys, *all_columns(pipeline)]
    times = touched_windows.times_of(points)
    candidates = [
        touched_windows.files_at(files, times, reach_ms)
        for files in (stored_snapshot(tables["window_state"], owner), tables["published"].files())
    ]
    sample = sample.for_rows(max(files.rows for files in candidates))
    points = [pa.concat_tables(sample.take(part) for part in points)] if points else []
    parked_windows, published_windows = (
        touched_windows.windows_at(sample.files(files), columns, times, reach_ms, sample.where)
        for files in candidates
    )
    return TouchedWindows(
        count_staged(tables, "window_state", snapshot_files(tables, "window_state", owner)),
        sample.count_of_all(touched_windows.count(keys, parked_windows, points, reach_ms)),
        sample.count_of_all(touched_windows.count(keys, published_windows, points, reach_ms)),
        None if sample.is_whole else sample,
    )


def warn_of_sample(windows: TouchedWindows) -> list[str]:
    sample = windows.sample
    if sample is None:
        return []
    return [
        f"there are many rows or windows: how many windows are touched is estimated from {sample.groups} of "
        f"the {sample.max_parallelism} key groups"
    ]


def count_remembered_rows(inputs: PlanInputs, owner: LedgerRow | None) -> int:
    """How many rows deduplication remembers in the snapshot of `owner`, at most."""
    if inputs.tables is None or inputs.pipeline.distinct_by is None:
        return 0
    return count_staged(inputs.tables, "keyed_state", snapshot_files(inputs.tables, "keyed_state", owner))


def warn_of_collected_windows(
    inputs: PlanInputs, owner: LedgerRow | None, points: Sequence[pa.Table], restated_to_ms: int | None
) -> list[str]:
    """The restatement that saves rows which would be late only because their windows were collected, up to
    `restated_to_ms`, the end of a planned restatement, or (None, before a planned run) to main's end.
    """
    tables, pipeline = inputs.tables, inputs.pipeline
    if tables is None or owner is None or not collects(pipeline):
        return []
    progress = Progress.from_table(
        read_staged(tables, "source_progress", snapshot_files(tables, "source_progress", owner))
    )
    mark = mark_of(tables, pipeline, owner, progress)
    # Windows up to here are collected by today's allowed lateness as well.
    collected_today = progress.watermark - pipeline.allowed_lateness_ms
    if mark is None or mark <= collected_today:
        return []
    last_instants = np.concatenate(
        [
            *(newest_last_instants(pipeline, part.column(touched_windows.TIME_COLUMN)) for part in points),
            np.zeros(0, np.int64),
        ]
    )
    last_instants = last_instants[(last_instants > collected_today) & (last_instants <= mark)]
    if not len(last_instants):
        return []
    from_ms = LiveMarks.of(tables, inputs.live, pipeline).reopened_from(int(last_instants.min()))
    to_ms = inputs.end_ms if restated_to_ms is None else restated_to_ms
    sentence = advice_on_rows_late_by_mark(pipeline.name, "rows of the range are", from_ms, to_ms)
    return [sentence + ("" if restated_to_ms is not None else "; do that before the run")]


def _reach_ms(pipeline: Pipeline) -> int:
    return int(getattr(pipeline.window, "gap_ms", 0))


@dataclass(frozen=True)
class _OpenWindows:
    """The windows of a snapshot, and the first arrival of all in milliseconds (None: there are none)."""

    count: int
    since_ms: int | None


def sentences_on_changes(
    inputs: PlanInputs, owner: LedgerRow | None, changes: Sequence[Difference]
) -> tuple[str, ...]:
    """One sentence for each changed setting, and one with the restatements that there are, if any helps."""
    if owner is None or not changes:
        return ()
    open_windows = _open_windows(inputs, owner)
    name = inputs.pipeline.name
    sentences = [f"{change}: {_meaning(change, name, open_windows)}" for change in changes]
    if any(_can_be_restated(change) for change in changes):
        sentences.append(_restatements(inputs, open_windows))
    return tuple(sentences)


def _can_be_restated(change: Difference) -> bool:
    return change.path in ("where", "output") or change.adds_result


def _meaning(change: Difference, pipeline: str, open_windows: _OpenWindows) -> str:
    count = open_windows.count
    windows = f"the {count:,} window{'' if count == 1 else 's'} that {'is' if count == 1 else 'are'} open now"
    if change.adds_result:
        return f"from here on; null in {windows}, and in all rows of before"
    if change.removes_result:
        return "its column stays, and is null in new rows"
    if change.path == "output":
        return (
            "from here on; a new column is null in all rows of before, the column of one that was removed "
            f"stays, and is null in new rows. What {windows} emit is up to the function, which finds there "
            "what was parked"
        )
    if change.kind == "published":
        return f"of what is published from here on; of all by `slackwater publish {pipeline} --results`"
    if change.path == "where":
        return f"from here on; {windows} hold what the condition of before has let in"
    return "from here on"


def _restatements(inputs: PlanInputs, open_windows: _OpenWindows) -> str:
    name, start_ms, end_ms = inputs.pipeline.name, inputs.start_ms, inputs.end_ms
    command = f"slackwater backfill {name} --from {{}} --to {iso(end_ms)}"
    everything = f"all of it by `{command.format(iso(start_ms))}`"
    if open_windows.since_ms is None or inputs.tables is None:
        return f"by today's settings restates {everything}"
    range_ = restatement.restate(
        name,
        inputs.live,
        min(max(open_windows.since_ms, start_ms), end_ms - 1),
        end_ms,
        partial(is_kept, inputs.tables),
    )
    if range_.owner is None:
        return (
            "what is open reaches back to the start of the lineage; by today's settings restates "
            f"{everything}"
        )
    return (
        f"by today's settings restates what is open, from the snapshot before its first element: "
        f"`{command.format(iso(range_.from_ms))}`; {everything}"
    )


def _open_windows(inputs: PlanInputs, owner: LedgerRow) -> _OpenWindows:
    if inputs.tables is None or inputs.pipeline.window is None:
        return _OpenWindows(0, None)
    count, firsts = 0, list[datetime]()
    for rows in stored_snapshot(inputs.tables["window_state"], owner).scan(["first_arrival"], None, 1 << 20):
        count += rows.num_rows
        if (first := pc.min(rows.column("first_arrival")).as_py()) is not None:
            firsts.append(first)
    return _OpenWindows(count, to_ms(min(firsts)) if firsts else None)
