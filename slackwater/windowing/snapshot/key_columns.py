"""Keys as columns under their own names, and back: one column for a plain key, one per field of a tuple."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from slackwater.windowing.key_types import KeyType, TupleKey
from slackwater.windowing.snapshot.errors import SnapshotValueError

_COLUMN_TYPES: Final = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "double": pa.float64(),
    "date": pa.date32(),
}


def column_type(key_type: KeyType) -> pa.DataType:
    return _COLUMN_TYPES[key_type.name]


@dataclass(frozen=True)
class KeyColumns:
    """Names and types of the key columns; `is_tuple`: a key is a tuple of their values, else one value."""

    columns: tuple[tuple[str, pa.DataType], ...]
    is_tuple: bool

    @classmethod
    def of(cls, columns: Sequence[tuple[str, pa.DataType]]) -> KeyColumns:
        """Columns with their own names: several are a tuple, none the byte 0 of windows of all elements."""
        return cls(tuple(columns), len(columns) > 1)

    @classmethod
    def for_key_type(cls, key_type: KeyType) -> KeyColumns:
        """`key` for a plain key, `f0`, `f1` … for the fields of a Flink tuple."""
        if isinstance(key_type, TupleKey):
            return cls(
                tuple((f"f{number}", column_type(field)) for number, field in enumerate(key_type.fields)),
                True,
            )
        return cls((("key", column_type(key_type)),), False)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]

    def arrays(self, keys: Sequence[Any]) -> dict[str, pa.Array]:
        """One array per name. Raises SnapshotValueError for keys of other types."""
        if not self.columns:
            return {}
        fields = (list(zip(*keys, strict=True)) or [()] * len(self.columns)) if self.is_tuple else [keys]
        try:
            return {
                name: pa.array(values, kind)
                for (name, kind), values in zip(self.columns, fields, strict=True)
            }
        except (pa.ArrowException, UnicodeError) as error:
            raise SnapshotValueError(
                f"Keys do not fit the columns {', '.join(self.names)}: {error}"
            ) from error

    def values(self, rows: pa.Table) -> list[Any]:
        """The key of each row; equal keys of several columns are one object."""
        if not self.columns:
            return [0] * rows.num_rows
        columns = [rows.column(name).to_pylist() for name in self.names]
        if not self.is_tuple:
            return list(columns[0])
        key_objects: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        return [key_objects.setdefault(key, key) for key in zip(*columns, strict=True)]
