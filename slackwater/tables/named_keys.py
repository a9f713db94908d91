"""Parses a key as a person writes it, and finds its rows: `EWR`, `EWR,2013-01-01`, or a JSON list where a
value holds a comma, `["a,b", 7]`.

Knows no table by name.
"""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import UsageError


class NotAKey(UsageError):
    """A text that names no key of the pipeline."""


def is_key(rows: pa.Table, columns: Sequence[str], text: str) -> pa.ChunkedArray:
    """For each of `rows`, whether its key `columns` have the values that `text` names.

    Raises:
        NotAKey: it has another number of values than there are columns.
    """
    has_key = pa.chunked_array([pa.repeat(pa.scalar(True), rows.num_rows)])
    for name, value in zip(columns, values_of_key(columns, text), strict=True):
        column = rows.column(name)
        text_value = value.lower() if pa.types.is_boolean(column.type) else value
        has_key = pc.and_(has_key, pc.equal(column.cast(pa.string()), text_value))
    return has_key


def values_of_key(columns: Sequence[str], text: str) -> list[str]:
    """The values of the key `columns`, as text. A text that is no JSON list is split at commas, but not for a
    key of a single column.

    Raises:
        NotAKey: there is another number of values than of columns, or there are no columns.
    """
    if not columns:
        raise NotAKey(
            f"--key {text!r}: the pipeline has windows of all rows, which have no key column. "
            "Leave --key out."
        )
    values = _of_json(text)
    if values is None:
        values = [text] if len(columns) == 1 else text.split(",")
    if len(values) != len(columns):
        raise NotAKey(
            f"--key {text!r} has {len(values)} values, and the key has {len(columns)}: {', '.join(columns)}. "
            "Separate values by commas; where one holds a comma itself, write all of them as a JSON list, "
            """for example --key '["a,b", 7]'."""
        )
    return values


def _of_json(text: str) -> list[str] | None:
    """The values of a JSON list, as text; None for any other text."""
    try:
        values = json.loads(text)
    except ValueError:
        return None
    return (
        [value if isinstance(value, str) else json.dumps(value) for value in values]
        if isinstance(values, list)
        else None
    )


def typed_values(columns: Sequence[tuple[str, pa.DataType]], text: str) -> dict[str, Any]:
    """The values of the key columns (name, type) that `text` names, as Python has them.

    Raises:
        NotAKey: there is another number of values, or one is none of its column's.
    """
    texts = values_of_key([name for name, _ in columns], text)
    return {name: _value_of(name, kind, value) for (name, kind), value in zip(columns, texts, strict=True)}


def _value_of(name: str, kind: pa.DataType, text: str) -> Any:
    try:
        value = text.lower() if pa.types.is_boolean(kind) else text
        return pa.scalar(value).cast(kind).as_py()
    except pa.ArrowInvalid as error:
        raise NotAKey(f"--key: {text!r} is no value of the key column {name}, which is {kind}.") from error
