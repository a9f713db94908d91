"""Arrow's values as Python's to show them, also times that Python's own can't express; and columns with one
value in each row, and the rows that equal a text, several times faster than by Arrow's own functions.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_INFINITY: Final = 2**63 - 1  # microseconds of what DuckDB calls infinity


def python_rows(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows as `to_pylist` returns them; times before year 1 or after year 9999 are text, at any depth."""
    names = rows.schema.names
    if not names:
        return [{} for _ in range(rows.num_rows)]
    return [dict(zip(names, row, strict=True)) for row in zip(*map(python_values, rows.columns), strict=True)]


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column, see `python_rows`."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return [_value(scalar) for scalar in column]


def _value(scalar: pa.Scalar) -> Any:
    if not scalar.is_valid:
        return None
    match scalar:
        case pa.TimestampScalar():
            return _moment(scalar)
        case pa.Date32Scalar():
            days = scalar.cast(pa.int32()).as_py()
            return _as_python(scalar, f"{days} days since 1970")
        case pa.StructScalar():
            return {name: _value(item) for name, item in scalar.items()}
        case pa.MapScalar():
            return list(zip(*map(python_values, scalar.values.flatten()), strict=True))
        case pa.ListScalar() | pa.LargeListScalar() | pa.FixedSizeListScalar():
            return python_values(scalar.values)
        case _:
            return scalar.as_py()


def _moment(scalar: pa.TimestampScalar) -> Any:
    microseconds = scalar.cast(pa.timestamp("us", scalar.type.tz), safe=False).cast(pa.int64()).as_py()
    if abs(microseconds) >= _INFINITY:
        return "infinity" if microseconds > 0 else "-infinity"
    return _as_python(scalar, f"{microseconds} µs since 1970")


def _as_python(scalar: pa.Scalar, text: str) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return text


def repeat_value(value: Any, rows: int, kind: pa.DataType) -> pa.Array:
    """`pa.repeat`, for a value that may be null."""
    scalar = pa.scalar(value, kind)
    if scalar.is_valid and (pa.types.is_signed_integer(kind) or _is_time(kind)):
        number = scalar.value if _is_time(kind) else scalar.as_py()
        numbers = np.full(rows, number, f"int{kind.bit_width}")
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(numbers)])
    return pa.repeat(scalar, rows)


def repeat_text(text: str, rows: int) -> pa.DictionaryArray:
    """`text` in each row, as a dictionary with one entry."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), [text])


def is_text(column: pa.ChunkedArray, text: str) -> pa.ChunkedArray:
    """`pc.equal` for a column of texts, which may be a dictionary."""
    if not pa.types.is_dictionary(column.type):
        return pc.equal(column, text)
    return pa.chunked_array([_has_entry(chunk, text) for chunk in column.chunks], pa.bool_())


def _has_entry(column: pa.DictionaryArray, text: str) -> pa.Array:
    entries = pc.equal(column.dictionary, text)
    places = np.flatnonzero(entries.fill_null(False).to_numpy(zero_copy_only=False))
    if len(places) == 1 and not entries.null_count:
        return pc.equal(column.indices, pa.scalar(places[0], column.indices.type))
    return entries.take(column.indices)


def _is_time(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_date32(kind)
