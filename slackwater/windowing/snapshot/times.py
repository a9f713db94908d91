"""Milliseconds ↔ UTC timestamps in microseconds, never rounded; Long.MAX (never) is null where allowed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.windowing.errors import SnapshotTimeError
from slackwater.windowing.java import LONG_MAX

TIME: Final = pa.timestamp("us", tz="UTC")
_LATEST_MS: Final = (2**63 - 1) // 1000


def times(values: Sequence[int | None], column: str) -> pa.Array:
    """Milliseconds as timestamps, None as null. SnapshotTimeError some 292,000 years from 1970."""
    try:
        milliseconds = pa.array(values, pa.int64())
    except OverflowError as error:
        raise _without_timestamp(column, max((time or 0 for time in values), key=abs)) from error
    extremes = pc.min_max(milliseconds).as_py()
    for time in (extremes["min"], extremes["max"]):
        if time is not None and abs(time) > _LATEST_MS:
            raise _without_timestamp(column, time)
    return pc.multiply(milliseconds, 1000).cast(TIME)


def _without_timestamp(column: str, time: int) -> SnapshotTimeError:
    return SnapshotTimeError(
        f"{column}: {time} ms has no timestamp in microseconds; times must lie within 292,000 years of 1970.",
        column=column,
        time=time,
    )


def due_times(values: Iterable[int], column: str) -> pa.Array:
    """As `times`; Long.MAX, which only the final watermark reaches, is null."""
    return times([None if time == LONG_MAX else time for time in values], column)


def times_to_ms(column: pa.ChunkedArray) -> list[int | None]:
    return list(pc.divide(column.cast(pa.int64()), 1000).to_pylist())


def sort_rows(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    if rows.num_rows < 2:
        return rows
    return rows.take(pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in names]))
