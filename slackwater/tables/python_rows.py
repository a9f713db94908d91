"""Arrow's values as Python's to show them, also times that Python's own can't express."""

from typing import Any, Final

import pyarrow as pa

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
