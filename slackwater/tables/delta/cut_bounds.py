"""Widens the bounds of times in a Delta log by what known writers have cut off, so that no file is passed
over that holds rows between them.

    milliseconds    Delta's writers drop microseconds: a greatest time may be up to 999 us more.
    offsets         Delta for Spark 3.2 and 3.3 wrote the offset of the session's time zone in whole minutes
                    (delta-io/delta#5249): where it has seconds, both bounds lie up to 59 s off, either way.
                    No zone has had seconds since 7 January 1972, when Liberia gave them up.

Pure functions on columns of the log's statistics.
"""

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

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
