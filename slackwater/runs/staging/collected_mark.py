"""The collected mark of a lineage: the event time up to which its runs have collected windows.

    mark of a run = max(watermark - allowed lateness) over the runs of its lineage up to it

A window whose last instant is at or before the mark is not created again, even if the allowed lateness has
been raised since (`Timeline.collected_mark`): the parked elements of the window are gone, so its published
result, which is complete, would be replaced by one of the late elements alone:

    allowed lateness      1 h                    raised to 3 h
    watermark             12:00                  12:30
    mark                  11:00                  11:00 (the maximum; 09:30 by today's lateness)
    window [09:00, 10:00) collected              an element of 09:40 is late, though 13:00 is not reached

A restatement from a snapshot whose mark lies before the window brings the window back.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.rows.progress import Progress, collected_by
from slackwater.pipelines import Pipeline
from slackwater.pipelines.registry import config_hash
from slackwater.runs.staging.slices import SlicedRow, end_of, iso, start_of
from slackwater.tables.ledger.attempts import AttemptsReader
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.run_files.staging import declaration_of
from slackwater.tables.warehouse import Tables
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.numbered_windows import windows_on
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK
from slackwater.windowing.times import duration_ms, to_ms

if TYPE_CHECKING:
    from slackwater.engine.replaying.replay import Outcome


class MarkedRow(SlicedRow, Protocol):
    """The columns of a ledger row from which a run's collected mark follows."""

    @property
    def run_id(self) -> str: ...

    @property
    def config_hash(self) -> str | None: ...

    @property
    def watermark_out(self) -> datetime | None: ...


def collects(pipeline: Pipeline) -> bool:
    """Whether the watermark collects the pipeline's windows, so that a mark means something."""
    return pipeline.window is not None and pipeline.window.is_event_time


def mark_of(tables: Tables, pipeline: Pipeline, owner: LedgerRow, progress: Progress) -> int | None:
    """The collected mark of the snapshot of `owner`, in milliseconds; None where none was collected, or the
    watermark collects none. Where the snapshot's `progress` has no mark, it is computed from the run's
    watermark and lateness.
    """
    if not collects(pipeline):
        return None
    return progress.mark(Latenesses(tables.attempts, pipeline).of(owner))


def marks(live: Sequence[MarkedRow], latenesses: "Latenesses") -> list[int | None]:
    """The collected mark after each run of `live`, which are the first runs of a lineage in slice order."""
    marks_of_runs = [
        None if row.watermark_out is None else collected_by(to_ms(row.watermark_out), latenesses.of(row))
        for row in live
    ]
    running_maxima = accumulate((INITIAL_WATERMARK if mark is None else mark for mark in marks_of_runs), max)
    return [None if mark == INITIAL_WATERMARK else mark for mark in running_maxima]


@dataclass(frozen=True)
class LiveMarks:
    """The live runs of a branch, at least one, in slice order, and the collected mark after each."""

    live: Sequence[MarkedRow]
    marks: Sequence[int | None]

    @classmethod
    def of(cls, tables: Tables, live: Sequence[MarkedRow], pipeline: Pipeline | None = None) -> "LiveMarks":
        """The marks by the declarations that each run has recorded; `pipeline` as in `Latenesses`."""
        return cls(live, marks(live, Latenesses(tables.attempts, pipeline)))

    def reopened_from(self, last_instant: int) -> int:
        """The latest arrival, in milliseconds, from which a restatement can still add rows to a window
        with this last instant: the end of the newest run that had not collected the window.
        """
        ends = [
            end_of(row)
            for row, mark in zip(self.live, self.marks, strict=True)
            if mark is None or mark < last_instant
        ]
        return ends[-1] if ends else start_of(self.live[0])

    def restated_from(self, arrival: int, last_instant: int) -> int:
        """The arrival, in milliseconds, from which a restatement takes in a row that is redriven to
        `arrival`: `arrival` itself, unless the snapshot before it has collected the row's window.
        """
        forks = [start_of(self.live[0]), *(end_of(row) for row in self.live if end_of(row) <= arrival)]
        reopening_ms = self.reopened_from(last_instant)
        return min(arrival, reopening_ms) if reopening_ms < forks[-1] else arrival


def earliest_fired(outcome: "Outcome") -> int | None:
    """The least last instant of the windows fired in a slice, in milliseconds, from returned pane rows and
    the statistics of pane files; None where none has an end.
    """
    ends = [pc.min(rows.column("window_end")).as_py() for rows in outcome.rows.get("panes", [])]
    bounds = (
        json.loads(file.statistics)["minValues"].get("window_end") for file in outcome.files.get("panes", [])
    )
    ends += [None if bound is None else datetime.fromisoformat(bound) for bound in bounds]
    return min((to_ms(end) - 1 for end in ends if end is not None), default=None)


def newest_last_instants(pipeline: Pipeline, times: pa.ChunkedArray) -> Longs:
    """int64[n]: the last instant of the newest window of each element with these timestamps, in
    milliseconds; for an assigner of the user's own the timestamp itself, a lower bound.
    """
    moments: Longs = np.floor_divide(times.cast(pa.int64()).to_numpy(), 1000)
    grid, gap_ms = pipeline.windows.grid, pipeline.windows.session_gap_ms
    if grid is not None:
        windows = windows_on(grid, pipeline.allowed_lateness_ms)
        return windows.last_instants(windows.newest_windows(windows.slices(moments)))
    return moments if gap_ms is None else moments + (gap_ms - 1)


def advice_on_rows_late_by_mark(pipeline: str, rows: str, from_ms: int, until_ms: int) -> str:
    """The sentence that names the restatement which takes in rows that only the collected mark makes late.
    `rows` is its subject and verb, e.g. ``3 rows are``.
    """
    return (
        f"{rows} for windows that were collected under a smaller allowed lateness, and late for that alone; "
        f"`slackwater backfill {pipeline} --from {iso(from_ms)} --to {iso(until_ms)}` takes them in"
    )


class Latenesses:
    """The allowed lateness of each run by the declarations in `attempts`; for runs without any that of
    `pipeline`, as declared today, or without a pipeline none.
    """

    def __init__(self, attempts: AttemptsReader, pipeline: Pipeline | None) -> None:
        self._attempts = attempts
        self._today_ms = 0 if pipeline is None else pipeline.allowed_lateness_ms
        self._by_config: dict[str | None, int] = (
            {} if pipeline is None else {config_hash(pipeline): self._today_ms}
        )

    def of(self, row: MarkedRow) -> int:
        """The lateness that `row` allowed, in milliseconds. Runs with equal declarations share one read."""
        if row.config_hash not in self._by_config:
            declaration = declaration_of(self._attempts, row.run_id)
            lateness = (
                None
                if declaration is None
                else timedelta(microseconds=declaration["allowed_lateness"]["microseconds"])
            )
            self._by_config[row.config_hash] = self._today_ms if lateness is None else duration_ms(lateness)
        return self._by_config[row.config_hash]
