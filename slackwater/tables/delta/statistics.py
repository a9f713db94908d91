"""The statistics of files in Delta's log, by which readers prune files: number of rows, and of each of the
first columns nulls, least and greatest value. Ours are computed part by part as rows are written. Of bounds
that others have written, what they are known to cut off is added, so that no file is passed over that holds
rows between them:

    milliseconds    Delta's writers drop microseconds: a greatest time may be up to 999 us more.
    offsets         Delta for Spark 3.2 and 3.3 wrote the offset of the session's time zone in whole minutes
                    (delta-io/delta#5249): where it has seconds, both bounds lie up to 59 s off, either way.
                    No zone has had seconds since 7 January 1972, when Liberia gave them up.
"""

import json
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

# Columns of other types have no statistics: readers do not prune files by them.
_TYPES_WITH_BOUNDS = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_timestamp,
    pa.types.is_date,
    pa.types.is_string,
)
_COLUMNS = 32  # as many as Delta's writers describe
_TEXT_CHARACTERS = 32
_GREATEST = "\U0010ffff"  # no character comes after it
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the zone is written where the column has one


@dataclass
class Statistics:
    """The statistics of one file. Values of `least` and `greatest` are as the log has them, so that the
    bounds of two parts can be compared.

    Attributes:
        rows: the number of rows so far.
        nulls: column → how many rows are null there.
        least, greatest: column → bounds; a column of nulls only has none.
        unbounded_columns: columns with a value that the log can't express; they have no bounds.
    """

    rows: int = 0
    nulls: dict[str, int] = field(default_factory=dict)
    least: dict[str, Any] = field(default_factory=dict)
    greatest: dict[str, Any] = field(default_factory=dict)
    unbounded_columns: set[str] = field(default_factory=set)

    def add(self, part: pa.Table) -> "Statistics":
        """Count the rows of a part; all parts have the same columns. Returns this object."""
        self.rows += part.num_rows
        for name in part.column_names[:_COLUMNS]:
            column = part.column(name)
            nulls = column.null_count
            if pa.types.is_dictionary(column.type):
                column = _values_in_rows(column)
            if not any(fits(column.type) for fits in _TYPES_WITH_BOUNDS):
                continue
            self.nulls[name] = self.nulls.get(name, 0) + nulls
            if nulls == part.num_rows or name in self.unbounded_columns:
                continue
            bounds = _bounds(column)
            if bounds is None:
                self.unbounded_columns.add(name)
                self.least.pop(name, None), self.greatest.pop(name, None)
            else:
                self.least[name] = min(self.least.get(name, bounds[0]), bounds[0])
                self.greatest[name] = max(self.greatest.get(name, bounds[1]), bounds[1])
        return self

    def to_json(self) -> str:
        return json.dumps(
            {
                "numRecords": self.rows,
                "minValues": self.least,
                "maxValues": self.greatest,
                "nullCount": self.nulls,
            }
        )


def _values_in_rows(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values that rows of a dictionary column have: a dictionary may hold others. Where it has one value
    and not all rows are null, the rows need not be read.
    """
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
    elif pa.types.is_floating(kind) and not pc.all(pc.is_finite(column)).as_py():
        return None
    least_and_greatest = pc.min_max(column).as_py()
    bounds = (least_and_greatest["min"], least_and_greatest["max"])
    if pa.types.is_string(kind):
        return _shorten(bounds)
    if pa.types.is_decimal(kind):
        return _as_numbers(kind, bounds)
    if pa.types.is_floating(kind):
        # Some readers take -0.0 for less than 0.0, others for the same.
        return bounds[0] or -0.0, bounds[1] or 0.0
    if pa.types.is_temporal(kind):
        return _as_iso_times(kind, bounds)
    return bounds


def _shorten(bounds: tuple[str, str]) -> tuple[str, str]:
    """Bounds of texts, cut to `_TEXT_CHARACTERS`. The greatest character takes the place of what a greatest
    value loses, which must begin with a lesser one: Delta allows bounds that are too wide.
    """
    least, greatest = bounds
    end = _TEXT_CHARACTERS
    while greatest[end : end + 1] == _GREATEST:
        end += 1
    return least[:_TEXT_CHARACTERS], greatest[:end] + _GREATEST if len(greatest) > end else greatest


def _as_numbers(kind: pa.DataType, bounds: tuple[Decimal, Decimal]) -> tuple[float, float] | None:
    """Bounds of decimals as numbers of JSON: the next integers where a float has another value, or where its
    text has an exponent, which delta-rs does not read. None where such an integer has too many digits.
    """
    least, greatest = (
        float(bound) if format(bound.normalize(), "f") == repr(float(bound)) else round_to_integer(bound)
        for bound, round_to_integer in zip(bounds, (math.floor, math.ceil), strict=True)
    )
    end = 10 ** (kind.precision - kind.scale)
    return (least, greatest) if -end < least and greatest < end else None


def _as_iso_times(kind: pa.DataType, bounds: tuple[int, int]) -> tuple[str, str] | None:
    """Bounds of days or microseconds since 1970 as texts; None where a year is beyond 9999."""
    try:
        if pa.types.is_date(kind):
            least, greatest = ((_EPOCH + timedelta(days=bound)).date().isoformat() for bound in bounds)
        else:
            zone = "" if kind.tz is None else "Z"
            least, greatest = (
                (_EPOCH + timedelta(microseconds=bound)).isoformat(timespec="microseconds") + zone
                for bound in bounds
            )
    except OverflowError:  # a year beyond 9999, which only Arrow can express
        return None
    return least, greatest


_CUT = timedelta(microseconds=999)
_SKEW = timedelta(minutes=1)
OFFSETS_WITH_SECONDS_END = datetime(1972, 1, 8, tzinfo=UTC)
_LAST = 2**63 - 1


Column: TypeAlias = pa.ChunkedArray


def widen_bounds(least: Column, greatest: Column) -> tuple[Column, Column]:
    """(lower, upper) bounds of a column in files, from the least and the greatest values that the log has.
    Spark writes NaN as the greatest value: it is no bound. Columns of other types keep theirs.
    """
    if pa.types.is_floating(least.type):
        least, greatest = (pc.if_else(pc.is_nan(side), None, side) for side in (least, greatest))
    if not pa.types.is_timestamp(least.type):
        return least, greatest
    kind = pa.timestamp("us", tz=least.type.tz)
    low, high = (side.cast(kind).cast(pa.int64()) for side in (least, greatest))
    keep_nulls = pc.ElementWiseAggregateOptions(skip_nulls=False)
    high = pc.min_element_wise(high, _LAST - _microseconds(_CUT), options=keep_nulls)
    low, high = pc.subtract(low, _skew(low)), pc.add(pc.add(high, _microseconds(_CUT)), _skew(high))
    return low.cast(kind), high.cast(kind)


def _skew(moments: Column) -> Column:
    end = _microseconds(OFFSETS_WITH_SECONDS_END - datetime(1970, 1, 1, tzinfo=UTC))
    return pc.if_else(pc.less(moments, end), _microseconds(_SKEW), 0)


def _microseconds(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)
