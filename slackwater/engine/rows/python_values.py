"""Columns as Python values, and back. Times and dates are the integers that they are stored as; -0.0 becomes
0.0, so that equal numbers are one value. Rows as JSON texts, as the table `quarantine` keeps them.
"""

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import repeat
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import PermanentError
from slackwater.readable import bytes_text
from slackwater.tables.arrow_values import python_values

_TIME = pa.timestamp("us", tz="UTC")
_EARLIEST, _LATEST = np.datetime64("0001-01-01", "us"), np.datetime64("9999-12-31T23:59:59.999999")
_EXACT_SECONDS: Final = 1 << 32  # below, two floats with a microsecond between them differ


class ValueBeyondPython(PermanentError):
    """A time that a function of the user's can't be handed, because Python can't express it."""


def _storage(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_list(kind) and (items := _storage(kind.value_type)) is not None:
        return pa.list_(items)
    return pa.int32() if pa.types.is_date32(kind) else None


def to_python(column: pa.ChunkedArray) -> list[Any]:
    storage = _storage(column.type)
    if storage is not None:
        column = column.cast(storage)
    elif pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))
    return list(column.to_pylist())


def to_user_values(column: pa.ChunkedArray) -> list[Any]:
    """The values as a user's function gets them: datetimes of UTC, dates, decimals; -0.0 is 0.0.

    Raises:
        ValueBeyondPython: a time is before year 1 or after year 9999.
    """
    try:
        return _user_values(column)
    except (OverflowError, ValueError) as error:
        raise ValueBeyondPython(
            f"{_first_far_value(column)} can't be handed to Python code, whose times are of the years 1 to "
            "9999. Leave rows with such times out by where=, or the column by columns=[…], or derive a "
            "number or a text from it."
        ) from error


def _user_values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        return _moments(column.cast(pa.timestamp("us", tz=column.type.tz), safe=False).cast(_TIME))
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if not column.null_count and (is_number or pa.types.is_boolean(column.type)):
        return list(column.to_numpy().tolist())  # in a tenth of the time that Arrow takes
    return list(column.to_pylist())


def _moments(column: pa.ChunkedArray) -> list[Any]:
    """Times as datetimes of UTC, in a tenth of the time that Arrow takes."""
    times = column.to_numpy()
    is_known = ~np.isnat(times)
    known_times = times[is_known]
    if len(known_times) and (known_times.min() < _EARLIEST or known_times.max() > _LATEST):
        return list(column.to_pylist())  # raises: Python's own times reach only from year 1 to 9999
    seconds = known_times.astype("datetime64[us]").view(np.int64) / 1e6
    if len(seconds) and np.abs(seconds).max() >= _EXACT_SECONDS:
        return [None if moment is None else moment.replace(tzinfo=UTC) for moment in times.tolist()]
    moments = map(datetime.fromtimestamp, seconds.tolist(), repeat(UTC))
    if len(seconds) == len(times):
        return list(moments)
    return [next(moments) if is_time else None for is_time in is_known.tolist()]


def _first_far_value(column: pa.ChunkedArray) -> Any:
    """As people see it."""
    for scalar in column:
        try:
            scalar.as_py()
        except (OverflowError, ValueError):
            return python_values(pa.array([scalar]))[0]
    raise AssertionError("every value is one of Python's")


def to_arrow(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    storage = _storage(kind)
    return pa.array(values, kind) if storage is None else pa.array(values, storage).cast(kind)


def as_json(rows: pa.Table) -> list[str]:
    """Each row as a JSON object: times, dates, decimals and non-finite numbers as text, binary as the text
    whose UTF-8 it is, or as hex.
    """
    printable = pa.table({name: _printable_column(rows.column(name)) for name in rows.column_names})
    return [json.dumps(_printable(row), sort_keys=True, allow_nan=False) for row in printable.to_pylist()]


def _with_text_for_times(kind: pa.DataType) -> pa.DataType:
    """`kind` with strings in place of times: Python's own times reach only from year 1 to 9999."""
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _with_text_for_times(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_with_text_for_times(kind.key_type), _with_text_for_times(kind.item_type))
    return pa.list_(_with_text_for_times(kind.value_type)) if pa.types.is_list(kind) else kind


def _printable_column(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Times as text. One that Python can't express is written as it is shown everywhere, also because Arrow
    takes a year beyond 32767 for another.
    """
    texts = column.cast(_with_text_for_times(column.type))
    if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
        return texts
    values = python_values(column)
    if not any(isinstance(value, str) for value in values):
        return texts
    pairs = zip(values, texts.to_pylist(), strict=True)
    return pa.array([value if isinstance(value, str) else text for value, text in pairs], pa.string())


def _printable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _printable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(item) for item in value]
    if isinstance(value, bytes):
        return bytes_text(value)
    if isinstance(value, Decimal) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    return value
