"""Rows of `panes`, `late_events`, `window_state` and `timers` from columns of integers, and the snapshot's
rows back.

The counterpart of the operator engine's `fired_rows` and of the snapshot codec: the same rows, never one at a
time.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.engines.aggregates import Columns
from slackwater.jobs.engines.columnar.families import NONE, Late, OpenWindows, Panes, Setting, Timers
from slackwater.jobs.engines.rows.columns_read import ARRIVAL, EVENT
from slackwater.jobs.engines.rows.key_numbers import KEY_GROUP
from slackwater.jobs.tables.schemas import TIME, Shape
from slackwater.windowing.columnar.columns import Longs
from slackwater.windowing.columnar.timeline import INITIAL_WATERMARK, NEVER
from slackwater.windowing.runtime.window_operator import TIMER_SERVICE

_EMPTY = (
    "[]"  # contents of a window without any, beside typed columns whose nulls may be an accumulator of nulls
)


def times(moments: Longs) -> pa.Array:
    """Milliseconds as timestamps; NONE is null."""
    missing = moments == NONE
    if not missing.any():
        return pa.array(moments * 1000).cast(TIME)
    return pa.array(np.where(missing, 0, moments) * 1000, mask=missing).cast(TIME)


def watermarks(values: Longs) -> pa.Array:
    """As `times`; null before the first watermark, and for the final one."""
    return times(np.where((values == INITIAL_WATERMARK) | (values == NEVER), NONE, values))


def constant(value: Any, rows: int, kind: pa.DataType) -> pa.Array:
    """The same value in every row; a text as a dictionary of it alone."""
    if value is None or not pa.types.is_string(kind):
        return pa.repeat(pa.scalar(value, kind), rows)
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array([value], kind))


def _of_keys(distinct: pa.Table, keys: Longs) -> dict[str, Any]:
    return {name: distinct.column(name).take(pa.array(keys)) for name in distinct.column_names}


def pane_table(panes: Panes, distinct: pa.Table, shape: Shape) -> pa.Table:
    """One row a firing."""
    rows = len(panes.keys)
    results = panes.results or [pa.nulls(rows, kind) for _, kind in shape.results]
    return pa.table(
        {
            **_of_keys(distinct, panes.keys),
            "window_start": times(panes.starts),
            "window_end": times(panes.ends),
            "firing": pa.array(panes.firings),
            "ordinal": constant(0, rows, pa.int64()),
            "kind": constant(panes.kind, rows, pa.string()),
            **{name: array for (name, _), array in zip(shape.results, results, strict=True)},
            "elements": pa.array(panes.elements),
            "watermark": watermarks(panes.watermarks),
            "tick_end": times(panes.tick_ends),
            "cause_arrival": times(panes.causes),
        }
    )


def late_table(late: Late, rows: pa.Table, key_groups: pa.Array, schema: pa.Schema, shape: Shape) -> pa.Table:
    """One row a late element, as in `late_events` but for run_id. `rows` and `key_groups` are those of its
    positions.
    """
    events = rows.column(EVENT).to_numpy()
    kept = {name: rows.column(name) for name, _ in shape.source}
    kept[KEY_GROUP] = key_groups
    kept["event_time"] = times(events)
    kept["arrival_time"] = times(rows.column(ARRIVAL).to_numpy())
    offsets = np.zeros(len(events) + 1, np.int32)
    np.cumsum(np.bincount(late.owners, minlength=len(events)), out=offsets[1:])
    missed = pa.StructArray.from_arrays([times(late.starts), times(late.ends)], names=["start", "end"])
    kept["windows"] = pa.ListArray.from_arrays(pa.array(offsets), missed)
    kept["late_by_ms"] = pa.array(late.watermarks - events)
    kept["watermark"] = watermarks(late.watermarks)
    return pa.table({field.name: kept[field.name] for field in schema if field.name != "run_id"})


def window_table(windows: OpenWindows, distinct: pa.Table, setting: Setting) -> pa.Table:
    """One row an open window, in its order."""
    rows = len(windows.keys)
    parts = [
        part
        for aggregate, columns in zip(setting.aggregates, windows.accumulators, strict=True)
        for part in aggregate.encode(columns)
    ]
    contents = constant(None, rows, pa.string())
    if windows.is_empty.any():
        owners = np.cumsum(~windows.is_empty) - 1
        indices = pa.array(owners, mask=windows.is_empty)
        parts = [part.take(indices) for part in parts]
        contents = pc.if_else(pa.array(windows.is_empty), _EMPTY, contents)
    return pa.table(
        {
            **_of_keys(distinct, windows.keys),
            "window_start": times(windows.starts),
            "window_end": times(windows.ends),
            "elements": pa.array(windows.elements),
            "firings": pa.array(windows.firings),
            "last_fired_at": times(windows.last_fired),
            "next_firing": times(windows.next_firings),
            "cleanup_time": times(windows.cleanups),
            "first_arrival": times(windows.first_arrivals),
            "last_arrival": times(windows.last_arrivals),
            **{name: part for (name, _), part in zip(setting.shape.parts, parts, strict=True)},
            "contents": contents,
            "trigger_state": constant(None, rows, pa.string())
            if windows.trigger_states is None
            else windows.trigger_states,
        }
    )


def timer_table(timers: Timers, distinct: pa.Table) -> pa.Table:
    """One row a timer, in its order."""
    rows = len(timers.keys)
    return pa.table(
        {
            **_of_keys(distinct, timers.keys),
            "window_start": times(timers.starts),
            "window_end": times(timers.ends),
            "service": constant(TIMER_SERVICE, rows, pa.string()),
            "domain": constant("event", rows, pa.string()),
            "time": times(timers.times),
            "purpose": constant(timers.purpose, rows, pa.string()),
        }
    )


def milliseconds(column: pa.ChunkedArray) -> Longs:
    """The inverse of `times`."""
    numbers = column.cast(pa.int64())
    if not numbers.null_count:
        return numbers.to_numpy() // 1000
    return np.where(np.asarray(numbers.is_null()), NONE, numbers.fill_null(0).to_numpy() // 1000)


def parked_accumulators(rows: pa.Table, setting: Setting) -> list[Columns]:
    """The accumulators of each aggregate, of parked windows that all have contents."""
    names = [name for name, _ in setting.shape.parts]
    accumulators, first = [], 0
    for aggregate, width in zip(setting.aggregates, setting.widths, strict=True):
        accumulators.append(
            aggregate.decode([rows.column(name).combine_chunks() for name in names[first : first + width]])
        )
        first += width
    return accumulators
