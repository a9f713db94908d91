"""Columns of tables from columns of integers, and rows of `late_events`.

What `firing` and `snapshot` share: times, watermarks, keys and constants as Arrow columns, never a value at a
time.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.columnar.families import Late
from slackwater.jobs.engines.rows.columns_read import ARRIVAL, EVENT
from slackwater.jobs.engines.rows.key_numbers import KEY_GROUP
from slackwater.jobs.tables.schemas import TIME, Shape
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.timeline.timeline import INITIAL_WATERMARK, NEVER
from slackwater.windowing.columnar.window_columns import NO_TIME


def times(moments: Longs) -> pa.Array:
    """Milliseconds as timestamps; NO_TIME is null."""
    missing = moments == NO_TIME
    if not missing.any():
        return pa.array(moments * 1000).cast(TIME)
    return pa.array(np.where(missing, 0, moments) * 1000, mask=missing).cast(TIME)


def watermarks(values: Longs) -> pa.Array:
    """As `times`; null before the first watermark, and for the final one."""
    return times(np.where((values == INITIAL_WATERMARK) | (values == NEVER), NO_TIME, values))


def constant(value: Any, rows: int, kind: pa.DataType) -> pa.Array:
    """The same value in every row; a text as a dictionary of it alone."""
    if value is None or not pa.types.is_string(kind):
        return pa.repeat(pa.scalar(value, kind), rows)
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array([value], kind))


def values_of_keys(distinct: pa.Table, keys: Longs) -> dict[str, Any]:
    """The columns of the keys with these numbers."""
    return {name: distinct.column(name).take(pa.array(keys)) for name in distinct.column_names}


def late_table(late: Late, rows: pa.Table, key_groups: pa.Array, schema: pa.Schema, shape: Shape) -> pa.Table:
    """One row a late element, as in `late_events` but for run_id. `rows` and `key_groups` are those of its
    positions.
    """
    events = rows.column(EVENT).to_numpy()
    columns = {name: rows.column(name) for name, _ in shape.source}
    columns[KEY_GROUP] = key_groups
    columns["event_time"] = times(events)
    columns["arrival_time"] = times(rows.column(ARRIVAL).to_numpy())
    offsets = np.zeros(len(events) + 1, np.int32)
    np.cumsum(np.bincount(late.owners, minlength=len(events)), out=offsets[1:])
    missed = pa.StructArray.from_arrays([times(late.starts), times(late.ends)], names=["start", "end"])
    columns["windows"] = pa.ListArray.from_arrays(pa.array(offsets), missed)
    columns["late_by_ms"] = pa.array(late.watermarks - events)
    columns["watermark"] = watermarks(late.watermarks)
    return pa.table({field.name: columns[field.name] for field in schema if field.name != "run_id"})


def times_in_ms(column: pa.ChunkedArray) -> Longs:
    """The inverse of `times`."""
    numbers = column.cast(pa.int64())
    if not numbers.null_count:
        return numbers.to_numpy() // 1000
    return np.where(np.asarray(numbers.is_null()), NO_TIME, numbers.fill_null(0).to_numpy() // 1000)
