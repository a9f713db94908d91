"""The redrive: gives late rows an earlier arrival, at which their windows were open. Every restatement of the
range from there on takes them in.

Writes into `overrides` alone. The watermarks of the recorded runs say when each window was open.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.source.overrides import row_hashes
from slackwater.engine.transport.in_process import Transport
from slackwater.pipelines import Pipeline
from slackwater.runs.lineage.verify import CannotRepeat, recorded_slice, refuse_vacuumed
from slackwater.runs.publishing.roll_forward import RollForward
from slackwater.runs.staging.collected_mark import LiveMarks
from slackwater.runs.staging.run import wall_clock
from slackwater.runs.staging.slices import start_of
from slackwater.tables.arrow_values import python_rows
from slackwater.tables.errors import SnapshotGone
from slackwater.tables.ledger.overrides import (
    MovedRows,
    Override,
    OverridesReader,
    OverridesWriter,
    arrival_in,
    moved_rows_on,
)
from slackwater.tables.ledger.rows import LedgerRow
from slackwater.tables.warehouse import Tables, Warehouse
from slackwater.windowing.times import to_datetime, to_ms

log = logging.getLogger("slackwater")


@dataclass(frozen=True)
class RedriveResult:
    """The new arrivals that a redrive has given, and the restatement that takes the rows in.

    Attributes:
        late_rows: the row of `late_events` for each of `overrides`.
        new: how many overrides were not recorded before.
        unmoved_rows: how many late rows today's allowed lateness takes at the arrival that they have: they
            need a restatement, and no new arrival.
        to_restate: [from, to), the arrivals whose restatement takes all these rows in; None where there is no
            row.
        notes: sentences on rows whose new arrival is earlier than need be.
    """

    overrides: tuple[Override, ...]
    late_rows: tuple[dict[str, Any], ...]
    new: int
    unmoved_rows: int
    to_restate: tuple[datetime, datetime] | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Redrive:
    """Redrives late rows of one pipeline. Timelines of runs are repeated on `transport`."""

    warehouse: Warehouse
    pipeline: Pipeline
    roll_forward: RollForward
    transport: Callable[[], Transport]
    clock: Callable[[], datetime] = wall_clock

    def run(self, late: pa.Table, reason: str, *, is_dry: bool = False) -> RedriveResult:
        """Write a new arrival for each of the rows `late` (of `late_events`): the start of the last tick at
        which all windows that it missed would still have taken it, by today's allowed lateness. With `is_dry`
        nothing is written.

        Where the run in which the first of these windows closed can't be looked at again, the new arrival is
        the start of that run's slice, when the window was certainly open.
        """
        tables = self.warehouse.stored_tables(self.pipeline.name)
        if not is_dry:
            self.roll_forward.finish()
        late = late.filter(pc.greater(pc.list_value_length(late.column("windows")), 0))
        rows = python_rows(late)
        closing_watermarks = [_first_last_instant(row) + self.pipeline.allowed_lateness_ms for row in rows]
        moved_places = [
            place
            for place, row in enumerate(rows)
            if row["watermark"] is not None and closing_watermarks[place] <= to_ms(row["watermark"])
        ]
        head = tables.ledger.head()
        live = tables.ledger.live_runs(head) if rows and head is not None else ()
        arrivals, notes = self._arrivals(tables, live, [closing_watermarks[place] for place in moved_places])
        moved_rows = [rows[place] for place in moved_places]
        recorded_overrides = OverridesReader(tables["overrides"]).rows()
        moved_on_main = {} if head is None else moved_rows_on(tables.ledger, head, recorded_overrides)
        moved_late = late.take(pa.array(moved_places, pa.int64()))
        true_arrivals = self._true_arrivals(moved_late, moved_on_main)
        moves = self._overrides(moved_late, true_arrivals, arrivals, reason)
        row_and_override = {
            move.row_hash: (row, move) for row, move in zip(moved_rows, moves, strict=True)
        }  # equal rows have one between them
        overrides = [override for _, override in row_and_override.values()]
        writer = OverridesWriter(tables["overrides"])
        new_overrides = overrides if is_dry else writer.add(overrides, self.clock)
        log.info("redrive", extra={"pipeline": self.pipeline.name})
        first_arrivals = {  # neither the new arrival nor the one that the row has on main may lie before
            place: to_ms(min(move.arrival_time, arrival_in(moved_on_main, move)))
            for place, move in zip(moved_places, moves, strict=True)
        }
        return RedriveResult(
            overrides=tuple(overrides),
            late_rows=tuple(row for row, _ in row_and_override.values()),
            new=len(new_overrides),
            unmoved_rows=len(rows) - len(moved_places),
            to_restate=self._to_restate(tables, live, rows, first_arrivals) if rows else None,
            notes=tuple(notes),
        )

    def _true_arrivals(self, rows: pa.Table, moved_on_main: MovedRows) -> list[int]:
        """The source's arrivals of `rows`, in milliseconds; late again, a row has its redriven one."""
        moved_to: dict[datetime, list[Override]] = {}
        for override in moved_on_main.values():
            moved_to.setdefault(override.arrival_time, []).append(override)
        recorded_arrivals = rows.column("arrival_time").to_pylist()
        pairs = [
            (place, override)
            for place, arrival in enumerate(recorded_arrivals)
            for override in moved_to.get(arrival, ())
        ]
        true_arrivals = list(map(to_ms, recorded_arrivals))
        hashes = self._hashes(
            rows.take(pa.array([place for place, _ in pairs], pa.int64())),
            [to_ms(override.true_arrival) for _, override in pairs],
        )
        for (place, override), row_hash in zip(pairs, hashes, strict=True):
            if row_hash == override.row_hash:
                true_arrivals[place] = to_ms(override.true_arrival)
        return true_arrivals

    def _hashes(self, rows: pa.Table, true_arrivals: Sequence[int]) -> list[str]:
        return row_hashes(
            self.pipeline,
            rows,
            true_arrivals,
            list(map(to_ms, rows.column("event_time").to_pylist())),
        )

    def _to_restate(
        self,
        tables: Tables,
        live: Sequence[LedgerRow],
        rows: Sequence[dict[str, Any]],
        first_arrivals: Mapping[int, int],
    ) -> tuple[datetime, datetime]:
        """The arrivals whose restatement takes in all `rows`; `first_arrivals` has the earliest arrival of
        each moved row, by place.

        The range starts at the first of these arrivals, or further back where the snapshot before that has
        collected a window by the lateness of its run. For rows that keep their arrival it starts before the
        collection of their windows.
        """
        marks = LiveMarks.of(tables, live, self.pipeline)
        earliest_ms = min(
            marks.restated_from(
                first_arrivals.get(place, to_ms(row["arrival_time"])), _first_last_instant(row)
            )
            for place, row in enumerate(rows)
        )
        return to_datetime(earliest_ms), to_datetime(max(to_ms(row["arrival_time"]) for row in rows) + 1)

    def _overrides(
        self,
        rows: pa.Table,
        true_arrivals: Sequence[int],
        arrivals: Sequence[int],
        reason: str,
    ) -> list[Override]:
        hashes = self._hashes(rows, true_arrivals)
        now = self.clock()
        return [
            Override(
                row_hash=row_hash,
                arrival_time=to_datetime(new),
                reason=reason,
                at=now,
                true_arrival=to_datetime(old),
            )
            for row_hash, old, new in zip(hashes, true_arrivals, arrivals, strict=True)
        ]

    def _arrivals(
        self, tables: Tables, live: Sequence[LedgerRow], closing_watermarks: Sequence[int]
    ) -> tuple[list[int], list[str]]:
        """For each of `closing_watermarks`, in milliseconds: the start of the last tick before main
        reached it. The notes name runs that can't be looked at again.
        """
        if not closing_watermarks:
            return [], []
        start_ms = start_of(live[0])
        by_run: dict[int, set[int]] = {}
        for watermark in closing_watermarks:
            by_run.setdefault(_place_of_run_reaching(live, watermark), set()).add(watermark)
        arrivals: dict[int, int] = {}
        notes: list[str] = []
        for place, watermarks in by_run.items():
            sorted_watermarks = sorted(watermarks)
            try:
                starts = self._tick_starts(tables, live[place], sorted_watermarks)
            except (CannotRepeat, SnapshotGone) as error:
                notes.append(f"{error.message} Its rows are moved to the start of its slice.")
                starts = [start_of(live[place])] * len(sorted_watermarks)
            arrivals.update(zip(sorted_watermarks, (max(start, start_ms) for start in starts), strict=True))
        return [arrivals[watermark] for watermark in closing_watermarks], notes

    def _tick_starts(self, tables: Tables, row: LedgerRow, watermarks: list[int]) -> list[int]:
        """The starts of the ticks at whose ends the run `row` reached these `watermarks`, by its timeline."""
        if self.pipeline.watermarks.kind == "punctuated":  # there are no ticks
            return [start_of(row)] * len(watermarks)
        work = recorded_slice(self.pipeline, self.warehouse, tables, row)
        scan = work.scan()
        refuse_vacuumed(self.pipeline, row, scan)
        transport = self.transport().for_slice(scan, lambda slots: 1).transport
        timeline, _ = work.timeline(scan, work.progress(), transport)
        ends = timeline.first_tick_end_reaching(np.array(watermarks, np.int64))
        return [int(end) - self.pipeline.watermarks.interval_ms for end in ends]


def _first_last_instant(row: dict[str, Any]) -> int:
    return min(to_ms(window["end"]) for window in row["windows"]) - 1


def _place_of_run_reaching(live: Sequence[LedgerRow], watermark: int) -> int:
    """The place of the first run at whose end main's watermark had reached this one."""
    for place, row in enumerate(live):
        if row.watermark_out is not None and to_ms(row.watermark_out) >= watermark:
            return place
    return len(live) - 1
