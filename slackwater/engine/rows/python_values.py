"""Columns as Python values, and back. Times and dates are the integers that they are stored as; -0.0 becomes
0.0, so that equal numbers are one value.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import repeat
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import PermanentError
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
