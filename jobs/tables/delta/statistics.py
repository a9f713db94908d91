"""What Delta's log says of a Parquet file: its rows, and of its first columns nulls, least and greatest
value. Readers prune files by it.

Computed from the rows as they are written, part by part; knows no table and no file.
"""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# Kept for columns of these types: what readers prune files by.
_ORDERED = (pa.types.is_integer, pa.types.is_timestamp, pa.types.is_date, pa.types.is_string)
_COLUMNS = 32  # as many as Delta's writers describe
_TEXT = 32
_GREATEST = "\U0010ffff"  # no character comes after it
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the zone is written where the column has one


@dataclass
class Statistics:
    """The statistics of one file. Values of `least` and `greatest` are as the log has them, so that those of
    parts can be compared.

    Attributes:
        rows: of the file so far.
        nulls: column → how many of them are null there.
        least, greatest: column → bounds; a column without any lacks them.
        unbounded: columns with a value that has no place in the log.
    """

    rows: int = 0
    nulls: dict[str, int] = field(default_factory=dict)
    least: dict[str, Any] = field(default_factory=dict)
    greatest: dict[str, Any] = field(default_factory=dict)
    unbounded: set[str] = field(default_factory=set)

    def add(self, part: pa.Table) -> "Statistics":
        """Take in rows that are written; the columns of all parts are the same."""
        self.rows += part.num_rows
        for name in part.column_names[:_COLUMNS]:
            column = part.column(name)
            nulls = column.null_count
            if pa.types.is_dictionary(column.type):
                column = _used(column)
            if not any(fits(column.type) for fits in _ORDERED):
                continue
            self.nulls[name] = self.nulls.get(name, 0) + nulls
            if nulls == part.num_rows or name in self.unbounded:
                continue
            bounds = _bounds(column)
            if bounds is None:
                self.unbounded.add(name)
                self.least.pop(name, None), self.greatest.pop(name, None)
            else:
                self.least[name] = min(self.least.get(name, bounds[0]), bounds[0])
                self.greatest[name] = max(self.greatest.get(name, bounds[1]), bounds[1])
        return self

    def to_json(self) -> str:
        """As the log has it."""
        return json.dumps(
            {
                "numRecords": self.rows,
                "minValues": self.least,
                "maxValues": self.greatest,
                "nullCount": self.nulls,
            }
        )


def _used(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values of a dictionary that some row has; of a single one nobody needs to look which."""
    if column.num_chunks and all(
        len(chunk.dictionary) == 1 and len(chunk) > chunk.null_count for chunk in column.chunks
    ):
        return pa.chunked_array([chunk.dictionary for chunk in column.chunks])
    return column.unique().cast(column.type.value_type)


def _bounds(column: pa.ChunkedArray) -> tuple[Any, Any] | None:
    """Least and greatest value as Delta's log has them; None where not every reader can parse them."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", tz=kind.tz)).cast(pa.int64())
    elif pa.types.is_date(kind):
        column = column.cast(pa.int32())
    found = pc.min_max(column).as_py()
    bounds = (found["min"], found["max"])
    if pa.types.is_string(kind):
        return _shortened(bounds)
    if pa.types.is_integer(kind):
        return bounds
    return _moments(kind, bounds)


def _shortened(bounds: tuple[str, str]) -> tuple[str, str]:
    """Bounds of texts that are no longer than `_TEXT` or one more; those of longer ones are wider, as Delta
    allows.
    """
    least, greatest = bounds
    return least[:_TEXT], greatest if len(greatest) <= _TEXT else greatest[:_TEXT] + _GREATEST


def _moments(kind: pa.DataType, bounds: tuple[int, int]) -> tuple[str, str] | None:
    try:
        if pa.types.is_date(kind):
            least, greatest = ((_EPOCH + timedelta(days=bound)).date().isoformat() for bound in bounds)
        else:
            zone = "" if kind.tz is None else "Z"
            least, greatest = (
                (_EPOCH + timedelta(microseconds=bound)).isoformat(timespec="microseconds") + zone
                for bound in bounds
            )
    except OverflowError:  # a year that only Arrow knows
        return None
    return least, greatest
