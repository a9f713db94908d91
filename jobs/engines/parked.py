"""Open windows and pending timers between the core and the snapshot tables: `window_state` and `timers` as Arrow rows.

Typed columns throughout: nothing is pickled, and any reader of Delta can query them. Rows stand sorted by (key group, key, window, time).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.engines.accumulators import Accumulator
from jobs.engines.keys import Keys
from jobs.engines.python_values import to_arrow, to_python
from jobs.tables.schemas import Shape
from windowing.runtime.key_group_runner import ParkedTimer, ParkedWindow
from windowing.windows import GLOBAL_WINDOW, GlobalWindow, TimeWindow

_MS = pa.timestamp("ms", tz="UTC")
_US = pa.timestamp("us", tz="UTC")
_LATEST_MS = (2**63 - 1) // 1000
_EMPTY = "[]"  # contents of a window that was purged and has had no element since: an accumulator of nulls is something else


def times(values: Sequence[int | None]) -> pa.Array:
    """Milliseconds as table times; None, and times that no timestamp can hold (Long.MAX: never), become null."""
    return pa.array([None if ms is None or abs(ms) > _LATEST_MS else ms for ms in values], pa.int64()).cast(_MS).cast(_US)


def milliseconds(column: pa.ChunkedArray) -> list[int | None]:
    """The inverse of `times`."""
    return list(pc.cast(column, _MS, safe=False).cast(pa.int64()).to_pylist())


def bounds(windows: Iterable[TimeWindow | GlobalWindow]) -> tuple[pa.Array, pa.Array]:
    """Window starts and ends as table times; null for the global window."""
    pairs = [(None, None) if isinstance(window, GlobalWindow) else (window.start, window.end) for window in windows]
    return times([start for start, _ in pairs]), times([end for _, end in pairs])


def windows_of(rows: pa.Table) -> list[TimeWindow | GlobalWindow]:
    """The inverse of `bounds`, from the columns of a table."""
    pairs = zip(milliseconds(rows.column("window_start")), milliseconds(rows.column("window_end")), strict=True)
    return [GLOBAL_WINDOW if start is None or end is None else TimeWindow(start, end) for start, end in pairs]


def _sorted(rows: pa.Table, keys: Keys, *more: str) -> pa.Table:
    order = ["key_group", *keys.names, "window_start", "window_end", *more]
    return rows.sort_by([(name, "ascending") for name in order])


def window_rows(windows: Sequence[ParkedWindow], keys: Keys, shape: Shape, accumulators: Sequence[Accumulator]) -> pa.Table:
    """Rows of `window_state`, without run_id and the columns that these windows don't use."""
    start, end = bounds(window.window for window in windows)
    encoded = [_encode(window.contents, accumulators) for window in windows]
    parts = list(zip(*encoded, strict=True)) or [()] * len(shape.parts)
    columns = {
        "key_group": pa.array([window.key_group for window in windows], pa.int32()),
        **dict(keys.arrays([window.key for window in windows])),
        "window_start": start,
        "window_end": end,
        "elements": pa.array([window.elements for window in windows], pa.int64()),
        "firings": pa.array([window.firings for window in windows], pa.int64()),
        "last_fired_at": times([window.last_fired_at for window in windows]),
        "next_firing": times([window.next_firing for window in windows]),
        "cleanup_time": times([window.cleanup_time for window in windows]),
        "first_arrival": times([window.first_arrival for window in windows]),
        "last_arrival": times([window.last_arrival for window in windows]),
        **{name: to_arrow(values, kind) for (name, kind), values in zip(shape.parts, parts, strict=True)},
        "contents": pa.array([_EMPTY if window.contents is None else None for window in windows], pa.string()),
    }
    return _sorted(pa.table(columns), keys)


def _encode(contents: list[Any] | None, accumulators: Sequence[Accumulator]) -> list[Any]:
    """The parts of all accumulators in a row; all null for a window that was purged."""
    if contents is None:
        return [None for accumulator in accumulators for _ in accumulator.parts]
    return [part for accumulator, item in zip(accumulators, contents, strict=True) for part in accumulator.encode(item)]


def restore_windows(rows: pa.Table, keys: Keys, shape: Shape, accumulators: Sequence[Accumulator]) -> list[ParkedWindow]:
    """The inverse of `window_rows`, in the rows' order."""
    parts = [to_python(rows.column(name)) for name, _ in shape.parts]
    columns = zip(
        rows.column("key_group").to_pylist(),
        keys.values(rows),
        windows_of(rows),
        rows.column("elements").to_pylist(),
        rows.column("firings").to_pylist(),
        milliseconds(rows.column("last_fired_at")),
        milliseconds(rows.column("first_arrival")),
        milliseconds(rows.column("last_arrival")),
        zip(*parts, strict=True),
        rows.column("contents").to_pylist(),
        strict=True,
    )
    return [
        ParkedWindow(
            key=key,
            key_group=group,
            window=window,
            elements=elements,
            firings=firings,
            last_fired_at=fired_at,
            first_arrival=first,
            last_arrival=last,
            contents=None if empty == _EMPTY else _decode(values, accumulators),
        )
        for group, key, window, elements, firings, fired_at, first, last, values, empty in columns
    ]


def _decode(values: Sequence[Any], accumulators: Sequence[Accumulator]) -> list[Any]:
    contents, position = [], 0
    for accumulator in accumulators:
        width = len(accumulator.parts)
        contents.append(accumulator.decode(values[position : position + width]))
        position += width
    return contents


def timer_rows(timers: Sequence[ParkedTimer], keys: Keys) -> pa.Table:
    """Rows of `timers`, without run_id."""
    start, end = bounds(timer.window for timer in timers)
    columns = {
        "key_group": pa.array([timer.key_group for timer in timers], pa.int32()),
        **dict(keys.arrays([timer.key for timer in timers])),
        "window_start": start,
        "window_end": end,
        "service": pa.array([timer.service for timer in timers], pa.string()),
        "domain": pa.array([timer.domain for timer in timers], pa.string()),
        "time": times([timer.time for timer in timers]),
        "purpose": pa.array([timer.purpose for timer in timers], pa.string()),
    }
    return _sorted(pa.table(columns), keys, "domain", "time")


def restore_timers(rows: pa.Table, keys: Keys) -> list[ParkedTimer]:
    """The inverse of `timer_rows`, in the rows' order."""
    columns = zip(
        rows.column("key_group").to_pylist(),
        keys.values(rows),
        windows_of(rows),
        rows.column("service").to_pylist(),
        rows.column("domain").to_pylist(),
        milliseconds(rows.column("time")),
        rows.column("purpose").to_pylist(),
        strict=True,
    )
    return [
        ParkedTimer(key=key, key_group=group, window=window, service=service, domain=domain, time=time or 0, purpose=purpose)
        for group, key, window, service, domain, time, purpose in columns
    ]
