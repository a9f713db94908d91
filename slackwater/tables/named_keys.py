"""Parses a key as a person writes it, and finds its rows: `EWR`, `EWR,2013-01-01`, or a JSON list where a
value holds a comma, `["a,b", 7]`. Dates out of years 1–9999 are written as shown, `2932897 days since 1970`.
"""

import json
import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import UsageError

_FAR_DATE = re.compile(r"(-?\d{1,9}) days since 1970")


class NotAKey(UsageError):
    """A text that names no key of the pipeline."""


def is_key(rows: pa.Table, columns: Sequence[str], text: str) -> pa.ChunkedArray:
    """For each of `rows`, whether its key `columns` have the values that `text` names. Raises NotAKey: there
    is another number of values, or one is none of its column's.
    """
    has_key = pa.chunked_array([pa.repeat(pa.scalar(True), rows.num_rows)])
    types = [(name, rows.schema.field(name).type) for name in columns]
    for name, value in key_scalars(types, text).items():
        has_key = pc.and_(has_key, pc.equal(rows.column(name), value))
    return has_key


def values_of_key(columns: Sequence[str], text: str) -> list[str]:
    """The values of the key `columns`, as text. A text that is no JSON list is split at commas, but not for a
    key of a single column. Raises NotAKey: there is another number of values than of columns, or there are no
    columns.
    """
    if not columns:
        raise NotAKey(
            f"--key {text!r}: the pipeline has windows of all rows, which have no key column. "
            "Leave --key out."
        )
    values = _values_in_json(text)
    if values is None:
        values = [text] if len(columns) == 1 else text.split(",")
    if len(values) != len(columns):
        raise NotAKey(
            f"--key {text!r} has {len(values)} values, and the key has {len(columns)}: {', '.join(columns)}. "
            "Separate values by commas; where one holds a comma itself, write all of them as a JSON list, "
            """for example --key '["a,b", 7]'."""
        )
    return values


def _values_in_json(text: str) -> list[str] | None:
    try:
        values = json.loads(text)
    except ValueError:
        return None
    if not isinstance(values, list):
        return None
    return [value if isinstance(value, str) else json.dumps(value) for value in values]


def key_scalars(columns: Sequence[tuple[str, pa.DataType]], text: str) -> dict[str, pa.Scalar]:
    """The values of the key columns (name, type) that `text` names. Raises NotAKey: there is another number
    of values, or one is none of its column's.
    """
    texts = values_of_key([name for name, _ in columns], text)
    scalars = {}
    for (name, kind), value in zip(columns, texts, strict=True):
        try:
            scalars[name] = scalar_of(kind, value)
        except pa.ArrowException as error:
            raise NotAKey(
                f"--key: {value!r} is no value of the key column {name}, which is {kind}."
            ) from error
    return scalars


def scalar_of(kind: pa.DataType, text: str) -> pa.Scalar:
    """The value of a column of the type `kind` that a person writes as `text`. Raises pa.ArrowException: no
    value of the type is written so.
    """
    days = _FAR_DATE.fullmatch(text) if pa.types.is_date32(kind) else None
    if days is not None:
        return pa.scalar(int(days[1]), pa.int32()).cast(kind)
    return pa.scalar(text.lower() if pa.types.is_boolean(kind) else text).cast(kind)
