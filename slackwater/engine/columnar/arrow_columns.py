"""Arrow columns from columns of integers: times, watermarks, constants, and the values of numbered keys."""

from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.tables.arrow_values import repeat_value
from slackwater.tables.schemas import TIME
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
    """Watermarks as timestamps; null before the first one and for NEVER, that of a closed source."""
    return times(np.where((values == INITIAL_WATERMARK) | (values == NEVER), NO_TIME, values))


def constant(value: Any, rows: int, kind: pa.DataType) -> pa.Array:
    """The same value in every row; a text becomes a dictionary array with one entry."""
    if value is None or not pa.types.is_string(kind):
        return repeat_value(value, rows, kind)
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array([value], kind))


def values_of_keys(distinct: pa.Table, keys: Longs) -> dict[str, Any]:
    """The key columns of rows with these key numbers; row i of `distinct` has the values of key number i."""
    return {name: distinct.column(name).take(pa.array(keys)) for name in distinct.column_names}


def times_in_ms(column: pa.ChunkedArray) -> Longs:
    numbers = column.cast(pa.int64())
    if not numbers.null_count:
        return numbers.to_numpy() // 1000
    return np.where(np.asarray(numbers.is_null()), NO_TIME, numbers.fill_null(0).to_numpy() // 1000)
