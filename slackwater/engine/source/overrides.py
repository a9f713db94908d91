"""Overrides: a late row that is redriven gets an arrival at which its window was open. An override identifies
its row by a hash of all that decides whether a row is late.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.pipelines import Pipeline
from slackwater.tables.schemas import LATE_EVENT_NAMES, TIME
from slackwater.windowing.snapshot import row_digests

Int64s = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


class MovedArrival(NamedTuple):
    """One changed arrival; times in milliseconds."""

    row_hash: str
    true_ms: int
    new_ms: int


@dataclass(frozen=True)
class Overrides:
    """The changed arrivals that a run honours, oldest first; of two for one row the newer one counts."""

    moved_arrivals: tuple[MovedArrival, ...] = ()

    def apply(
        self, pipeline: Pipeline, rows: pa.Table, arrival: Int64s, event: Int64s, is_usable: Booleans
    ) -> tuple[Int64s, Booleans]:
        """(the arrival of each row in this run, whether it is moved); `is_usable`: it has both times."""
        is_moved = np.zeros(len(arrival), np.bool_)
        if not self.moved_arrivals:
            return arrival, is_moved
        at = np.flatnonzero(
            is_usable & np.isin(arrival, np.array([item.true_ms for item in self.moved_arrivals], np.int64))
        )
        if not len(at):
            return arrival, is_moved
        hashes = row_hashes(pipeline, rows.take(pa.array(at)), arrival[at], event[at])
        new = {item.row_hash: item.new_ms for item in self.moved_arrivals}
        effective = arrival.copy()
        for place, row_hash in zip(at.tolist(), hashes, strict=True):
            if row_hash in new:
                effective[place], is_moved[place] = new[row_hash], True
        return effective, is_moved

    def true_arrivals(self, from_ms: int, to_ms: int) -> list[int]:
        """The true arrivals, in milliseconds, of rows that are moved into the slice [from_ms, to_ms)."""
        return sorted({item.true_ms for item in self.moved_arrivals if from_ms <= item.new_ms < to_ms})


def identifying_columns(pipeline: Pipeline) -> tuple[str, ...]:
    """The columns besides the two times that identify a row and mean the same in `late_events`."""
    source = pipeline.roles
    candidates = (*pipeline.keys, source.source_partition, source.order_by)
    times = {source.event_time, source.arrival_time}
    keys = {name.lower() for name in pipeline.keys}
    names = (
        name
        for name in candidates
        if name is not None
        and name not in times
        and (name.lower() in keys or name.lower() not in LATE_EVENT_NAMES)
    )
    return tuple(dict.fromkeys(names))


def row_hashes(
    pipeline: Pipeline, rows: pa.Table, arrival: Int64s | Sequence[int], event: Int64s | Sequence[int]
) -> list[str]:
    """SHA-256 of each row as hex, equal for a row of the source and of `late_events`. Times in ms."""
    columns = {name: rows.column(name) for name in identifying_columns(pipeline)}
    columns = {
        name: column.cast(TIME) if pa.types.is_timestamp(column.type) else column
        for name, column in columns.items()
    }
    table = pa.table(
        {**columns, "__event_ms": pa.array(event, pa.int64()), "__arrival_ms": pa.array(arrival, pa.int64())}
    )
    return [digest.hex() for digest in row_digests(table, table.column_names)]
