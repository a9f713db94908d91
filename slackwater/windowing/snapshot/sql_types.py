"""Columns of a declared SQL type (Spark's names) from Python values and back, never silently converted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from types import NoneType
from typing import Any, Final

import pyarrow as pa

from slackwater.windowing.errors import SnapshotValueError

_TYPES: Final[dict[str, pa.DataType]] = {
    **dict.fromkeys(("tinyint", "byte"), pa.int8()),
    **dict.fromkeys(("smallint", "short"), pa.int16()),
    **dict.fromkeys(("int", "integer"), pa.int32()),
    **dict.fromkeys(("bigint", "long"), pa.int64()),
    **dict.fromkeys(("float", "real"), pa.float32()),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_DECIMAL: Final = re.compile(r"(?:decimal|dec|numeric)\((\d+),\s*(-?\d+)\)")


def arrow_type(sql_type: str) -> pa.DataType:
    """The Arrow type of a SQL type or `array<…>` of one. SnapshotValueError lists the valid types."""
    name = sql_type.strip().lower()
    if name in _TYPES:
        return _TYPES[name]
    if name.startswith("array<") and name.endswith(">"):
        return pa.list_(arrow_type(name[6:-1]))
    if decimal := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    raise SnapshotValueError(
        f"No column has the SQL type {sql_type!r}; there are {', '.join(_TYPES)}, decimal(p,s) and array<…>."
    )


def to_column(values: Sequence[Any], kind: pa.DataType, state_name: str) -> pa.Array:
    """A column of `kind`, None as null. SnapshotValueError for a value that would not come back equal."""
    position = first_misfit(values, kind)
    if position is not None:
        raise _misfit_error(values[position], kind, state_name)
    try:
        column = pa.array(values, kind)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise SnapshotValueError(
            f"State {state_name!r} is declared as {kind}, and a value does not fit: {error}",
            state_name=state_name,
        ) from error
    return column


def to_values(column: pa.ChunkedArray) -> list[Any]:
    values = column.to_pylist()
    if pa.types.is_timestamp(column.type):
        return [None if moment is None else moment.replace(tzinfo=UTC) for moment in values]
    return list(values)


def first_misfit(values: Sequence[Any], kind: pa.DataType) -> int | None:
    """Position of the first value that is not None, and not of the type or would not come back equal, as far
    as its class says; None where all fit.
    """
    fitting_types = {NoneType, *(python_type for is_kind, python_type in _PYTHON_TYPES if is_kind(kind))}
    if fitting_types.issuperset(map(type, values)):
        return None
    positions = (
        position
        for position, value in enumerate(values)
        if type(value) not in fitting_types and not _fits(value, kind)
    )
    return next(positions, None)


def _fits(value: Any, kind: pa.DataType) -> bool:
    """Whether a value fits whose class alone does not say so."""
    value_type = type(value)
    if pa.types.is_floating(kind):
        is_double: bool = kind.bit_width == 64
        if value_type is int:
            return bool(abs(value) <= (2**53 if is_double else 2**24))
        return value_type is float and (value != value or _is_single(value))
    if pa.types.is_timestamp(kind):
        return (
            value_type is datetime and str(value.tzinfo) == "UTC"
        )  # in another zone it would come back as another text
    return pa.types.is_list(kind) and value_type is list and first_misfit(value, kind.value_type) is None


def _is_single(value: float) -> bool:
    return bool(pa.scalar(value, pa.float32()).as_py() == value)


# Of each type the class whose values all fit.
_PYTHON_TYPES: Final = (
    (pa.types.is_integer, int),
    (pa.types.is_float64, float),
    (pa.types.is_string, str),
    (pa.types.is_boolean, bool),
    (pa.types.is_binary, bytes),
    (pa.types.is_date, date),
    (pa.types.is_decimal, Decimal),
)


def _misfit_error(value: Any, kind: pa.DataType, state_name: str) -> SnapshotValueError:
    name = type(value).__name__
    return SnapshotValueError(
        f"State {state_name!r} is declared as {kind}, but holds the {name} {value!r:.100}. Change the "
        "declared type, or what is put there.",
        state_name=state_name,
        type_name=name,
    )
