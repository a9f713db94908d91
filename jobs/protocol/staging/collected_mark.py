"""The collected mark of a lineage: the event time up to which its runs have collected windows.

    mark of a run = max(watermark - allowed lateness) over the runs of its lineage up to it

A window whose last instant is at or before the mark is not created again, even if the allowed lateness has
been raised since (`Timeline.collected`): its published result, which is complete, would be replaced by one
of the late elements alone. A restatement from a snapshot whose mark lies before the window brings it back.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from slackwater.jobs.engines.replaying.replay import Outcome
from slackwater.jobs.engines.rows.progress import Progress, collected_by
from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.pipelines.registry import config_hash
from slackwater.jobs.protocol.staging.slices import end_of, iso, start_of
from slackwater.jobs.tables.ledger.attempts import AttemptsReader
from slackwater.jobs.tables.ledger.rows import LedgerRow
from slackwater.jobs.tables.run_files.staging import declaration_of
from slackwater.jobs.tables.sql import query
from slackwater.jobs.tables.warehouse import Tables
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.fixed_windows import FixedWindows
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK
from slackwater.windowing.times import duration_ms, to_ms

# Runs of earlier formats knew no mark: they created windows again, and so does a replay of them.
FIRST_FORMAT = 2


def collects(pipeline: Pipeline) -> bool:
    """Whether the watermark collects the pipeline's windows, so that a mark means something."""
    return pipeline.window is not None and pipeline.window.is_event_time


def mark_of(tables: Tables, pipeline: Pipeline, owner: LedgerRow, parked: Progress) -> int | None:
    """The collected mark of the snapshot of `owner`, in milliseconds; None where nothing was collected, or
    nothing is by the watermark.

    What a snapshot does not say follows from its run's watermark and lateness. Where runs of the first format
    stand among those that led to it, it follows from the ledger.
    """
    if not collects(pipeline):
        return None
    latenesses = Latenesses(tables.attempts, pipeline)
    if parked.collected is not None or owner.format_version >= FIRST_FORMAT:
        return parked.mark(latenesses.of(owner))
    return marks(tables.ledger.live_runs(owner) or [owner], latenesses)[-1]


def marks(live: Sequence[LedgerRow], latenesses: "Latenesses") -> list[int | None]:
    """The collected mark after each of `live`, the first runs of a lineage in slice order."""
    own = [
        None if row.watermark_out is None else collected_by(to_ms(row.watermark_out), latenesses.of(row))
        for row in live
    ]
    reached = accumulate((INITIAL_WATERMARK if mark is None else mark for mark in own), max)
    return [None if mark == INITIAL_WATERMARK else mark for mark in reached]


@dataclass(frozen=True)
class LiveMarks:
    """The live runs of a branch, at least one, in slice order, and the collected mark after each."""

    live: Sequence[LedgerRow]
    marks: Sequence[int | None]

    @classmethod
    def of(cls, tables: Tables, live: Sequence[LedgerRow], pipeline: Pipeline | None = None) -> "LiveMarks":
        """By the recorded declarations; `pipeline` as in `Latenesses`."""
        return cls(live, marks(live, Latenesses(tables.attempts, pipeline)))

    def reopened_from(self, last_instant: int) -> int:
        """Where a restatement has to begin, at the latest, to take rows for a window with this last instant:
        at the end of the newest run that had not collected it. In milliseconds."""
        ends = [
            end_of(row)
            for row, mark in zip(self.live, self.marks, strict=True)
            if mark is None or mark < last_instant
        ]
        return ends[-1] if ends else start_of(self.live[0])

    def restated_from(self, arrival: int, last_instant: int) -> int:
        """Where a restatement has to begin for a row that is given this arrival: there, unless the snapshot
        before it has collected the window."""
        forks = [start_of(self.live[0]), *(end_of(row) for row in self.live if end_of(row) <= arrival)]
        return (
            min(arrival, reopened) if (reopened := self.reopened_from(last_instant)) < forks[-1] else arrival
        )


def late_by_mark(late: pa.Table | pads.Dataset, lateness_ms: int) -> tuple[int, int, int] | None:
    """Of rows of `late_events` those that would not be late by the watermark and the allowed lateness alone:
    how many they are, the least last instant of a window that would have taken one, and the greatest arrival,
    in milliseconds. None where there are none."""
    last = """epoch_ms(list_max(list_transform(windows, lambda missed: missed."end"))) - 1"""
    sql = f"""
        SELECT count(*) AS rows, min(last) AS last, max(arrival) AS arrival
        FROM (SELECT {last} AS last, epoch_ms(arrival_time) AS arrival, epoch_ms(watermark) AS watermark
            FROM late)
        WHERE last + {lateness_ms} > watermark
    """
    [bounds] = query(sql, late=late).to_pylist()
    return (bounds["rows"], bounds["last"], bounds["arrival"]) if bounds["rows"] else None


def earliest_fired(outcome: Outcome) -> int | None:
    """The least last instant of any window that has fired in a slice, in milliseconds, from the rows that
    came back and what the log will say of files. None where none has an end."""
    ends = [pc.min(rows.column("window_end")).as_py() for rows in outcome.rows.get("panes", [])]
    bounds = (
        json.loads(file.statistics)["minValues"].get("window_end") for file in outcome.files.get("panes", [])
    )
    ends += [None if bound is None else datetime.fromisoformat(bound) for bound in bounds]
    return min((to_ms(end) - 1 for end in ends if end is not None), default=None)


def newest_last_instants(pipeline: Pipeline, times: pa.ChunkedArray) -> Longs:
    """int64[n]: the last instant of the newest window of elements with these timestamps, in milliseconds; of
    an assigner that only its own code knows, the timestamp, behind which such a window ends."""
    moments: Longs = np.floor_divide(times.cast(pa.int64()).to_numpy(), 1000)
    grid, gap_ms = pipeline.windows.grid, pipeline.windows.session_gap_ms
    if grid is not None:
        fixed = FixedWindows(*grid, pipeline.allowed_lateness_ms)
        return fixed.last_instants(fixed.newest_windows(fixed.slices(moments)))
    return moments if gap_ms is None else moments + (gap_ms - 1)


def told(pipeline: str, rows: str, from_ms: int, to_ms_: int) -> str:
    """What saves `rows`, which only the mark makes late."""
    return (
        f"{rows} for windows that were collected under a smaller allowed lateness, and late for that alone; "
        f"`slackwater backfill {pipeline} --from {iso(from_ms)} --to {iso(to_ms_)}` takes them in"
    )


class Latenesses:
    """The allowed lateness of each run, as recorded with it.

    Args:
        attempts: they hold the declarations.
        pipeline: as declared today, which is what a run counts as that has recorded no declarations; None:
            such a run allowed none.
    """

    def __init__(self, attempts: AttemptsReader, pipeline: Pipeline | None) -> None:
        self._attempts = attempts
        self._today_ms = 0 if pipeline is None else pipeline.allowed_lateness_ms
        self._by_config: dict[str | None, int] = (
            {} if pipeline is None else {config_hash(pipeline): self._today_ms}
        )

    def of(self, row: LedgerRow) -> int:
        """In milliseconds. The declarations are read once for all runs that have the same."""
        if row.config_hash not in self._by_config:
            declared = declaration_of(self._attempts, row.run_id)
            lateness = (
                None
                if declared is None
                else timedelta(microseconds=declared["allowed_lateness"]["microseconds"])
            )
            self._by_config[row.config_hash] = self._today_ms if lateness is None else duration_ms(lateness)
        return self._by_config[row.config_hash]
