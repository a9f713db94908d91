"""Source rows as JSON texts, as the table `quarantine` keeps them."""

import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

from slackwater.tables.arrow_values import python_values


def as_json(rows: pa.Table) -> list[str]:
    """Each row as a JSON object: times, dates, decimals and non-finite numbers as text, binary as hex."""
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
        return value.hex()
    if isinstance(value, Decimal) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    return value
