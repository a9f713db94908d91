"""The redrive: gives late rows an earlier arrival, at which their windows were open. Every restatement of the
range from there on takes them in.

Writes into `overrides` alone. The watermarks of the recorded runs say when each window was open.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.source.overrides import row_hashes
from slackwater.jobs.engines.transport.in_process import Transport
from slackwater.jobs.engines.transport.small_slices import SparkWhereNeeded
from slackwater.jobs.pipelines import Pipeline
from slackwater.jobs.protocol.lineage.recorded_run import CannotRepeat, recorded_slice, refuse_vacuumed
from slackwater.jobs.protocol.publishing.roll_forward import RollForward
from slackwater.jobs.protocol.staging.collected_mark import LiveMarks
from slackwater.jobs.protocol.staging.run import wall_clock
from slackwater.jobs.runtime.settings import tasks_here
from slackwater.jobs.tables.errors import SnapshotGone
from slackwater.jobs.tables.ledger.overrides import Override, OverridesWriter
from slackwater.jobs.tables.ledger.rows import LedgerRow
from slackwater.jobs.tables.warehouse import Tables, Warehouse
from slackwater.windowing.times import to_datetime, to_ms

log = logging.getLogger("slackwater")


@dataclass(frozen=True)
class Redriven:
    """What a redrive came to.

    Attributes:
        overrides: the new arrivals, one a row.
        new: how many of them were not recorded before.
        unmoved_rows: how many late rows today's allowed lateness takes at the arrival that they have: they
            need a restatement, and no new arrival.
        to_restate: [from, to) of arrivals that are to be restated, so that all of them are taken; None where
            there are none.
        notes: what a reader should know besides.
    """

    overrides: tuple[Override, ...]
    new: int
    unmoved_rows: int
    to_restate: tuple[datetime, datetime] | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Redrive:
    """Redrives late rows of one pipeline.

    Attributes:
        warehouse, pipeline: where and what.
        roll_forward: finished first, as by every writing command.
        spark: makes a transport for slices that are not small.
        clock: the wall clock.
    """

    warehouse: Warehouse
    pipeline: Pipeline
    roll_forward: RollForward
    spark: Callable[[], Transport]
    clock: Callable[[], datetime] = wall_clock

    def run(self, late: pa.Table, reason: str, *, is_dry: bool = False) -> Redriven:
        """Write a new arrival for each of the rows `late` (of `late_events`): the start of the last tick at
        which all windows that it missed would still have taken it, by the allowed lateness declared today.

        Where the run in which the first of them closed can't be looked at again, that is the start of its
        slice, when it was open for sure.
        """
        tables = self.warehouse.stored_tables(self.pipeline.name)
        if not is_dry:
            self.roll_forward.finish()
        rows = [row for row in late.to_pylist() if row["windows"]]
        closing = [_first_last_instant(row) + self.pipeline.allowed_lateness_ms for row in rows]
        moves = [
            number
            for number, row in enumerate(rows)
            if row["watermark"] is not None and closing[number] <= to_ms(row["watermark"])
        ]
        live = self._live(tables) if rows else []
        arrivals, notes = self._arrivals(tables, live, [closing[number] for number in moves])
        overrides = self._overrides([rows[number] for number in moves], late.schema, arrivals, reason)
        writer = OverridesWriter(tables["overrides"])
        new_overrides = overrides if is_dry else writer.add(overrides, self.clock)
        log.info("redrive", extra={"pipeline": self.pipeline.name})
        to_restate = (
            self._to_restate(tables, live, rows, dict(zip(moves, arrivals, strict=True))) if rows else None
        )
        return Redriven(
            tuple(overrides), len(new_overrides), len(rows) - len(moves), to_restate, tuple(notes)
        )

    def _live(self, tables: Tables) -> list[LedgerRow]:
        head = tables.ledger.head()
        assert head is not None, "there are late rows, so there are runs"
        return tables.ledger.live_runs(head)

    def _to_restate(
        self,
        tables: Tables,
        live: Sequence[LedgerRow],
        rows: Sequence[dict[str, Any]],
        new_arrivals: dict[int, int],
    ) -> tuple[datetime, datetime]:
        """From the first new arrival on; further back where the snapshot before it has collected a window by
        the lateness of its run. Rows that keep their arrival are taken from before the collection of their
        windows on."""
        marks = LiveMarks.of(tables, live, self.pipeline)
        earliest_ms = min(
            marks.restated_from(
                new_arrivals.get(number, to_ms(row["arrival_time"])), _first_last_instant(row)
            )
            for number, row in enumerate(rows)
        )
        return to_datetime(earliest_ms), to_datetime(max(to_ms(row["arrival_time"]) for row in rows) + 1)

    def _overrides(
        self, rows: Sequence[dict[str, Any]], schema: pa.Schema, arrivals: Sequence[int], reason: str
    ) -> list[Override]:
        true_arrivals = [to_ms(row["arrival_time"]) for row in rows]
        hashes = row_hashes(
            self.pipeline,
            pa.Table.from_pylist(rows, schema=schema),
            true_arrivals,
            [to_ms(row["event_time"]) for row in rows],
        )
        now = self.clock()
        overrides = [
            Override(
                row_hash=row_hash,
                arrival_time=to_datetime(new),
                reason=reason,
                at=now,
                true_arrival=to_datetime(old),
            )
            for row_hash, old, new in zip(hashes, true_arrivals, arrivals, strict=True)
        ]
        return list({row.row_hash: row for row in overrides}.values())

    def _arrivals(
        self, tables: Tables, live: Sequence[LedgerRow], closing: Sequence[int]
    ) -> tuple[list[int], list[str]]:
        """For each watermark, in milliseconds: the start of the last tick before main, with its runs `live`,
        reached it.
        """
        if not closing:
            return [], []
        start_ms = _start_of(live[0])
        by_run: dict[int, set[int]] = {}
        for watermark in closing:
            by_run.setdefault(_reached_in(live, watermark), set()).add(watermark)
        arrivals: dict[int, int] = {}
        notes: list[str] = []
        for place, watermarks in by_run.items():
            sorted_watermarks = sorted(watermarks)
            try:
                starts = self._tick_starts(tables, live[place], sorted_watermarks)
            except (CannotRepeat, SnapshotGone) as error:
                notes.append(f"{error.message} Its rows are moved to the start of its slice.")
                starts = [_start_of(live[place])] * len(sorted_watermarks)
            arrivals.update(zip(sorted_watermarks, (max(start, start_ms) for start in starts), strict=True))
        return [arrivals[watermark] for watermark in closing], notes

    def _tick_starts(self, tables: Tables, row: LedgerRow, watermarks: list[int]) -> list[int]:
        if self.pipeline.watermarks.kind == "punctuated":  # there are no ticks
            return [_start_of(row)] * len(watermarks)
        work = recorded_slice(self.pipeline, self.warehouse, tables, row)
        scan = work.scan()
        refuse_vacuumed(self.pipeline, row, scan)
        transport = SparkWhereNeeded(self.spark, tasks_here()).for_slice(scan, lambda slots: 1)
        timeline, _ = work.timeline(scan, work.progress(), transport)
        ends = timeline.first_tick_end_reaching(np.array(watermarks, np.int64))
        return [int(end) - self.pipeline.watermarks.interval_ms for end in ends]


def _first_last_instant(row: dict[str, Any]) -> int:
    """The last instant, in milliseconds, of the first of a late row's windows."""
    return min(to_ms(window["end"]) for window in row["windows"]) - 1


def _reached_in(live: Sequence[LedgerRow], watermark: int) -> int:
    """The place of the run at whose end main's watermark had first reached this one."""
    for place, row in enumerate(live):
        if row.watermark_out is not None and to_ms(row.watermark_out) >= watermark:
            return place
    return len(live) - 1


def _start_of(row: LedgerRow) -> int:
    assert row.slice_start is not None
    return to_ms(row.slice_start)
