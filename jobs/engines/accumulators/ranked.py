"""The first and the last value of a column, by event time or by arrival, ties decided by what orders
elements: order column, row hash.
"""

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from slackwater.jobs.engines.accumulators.accumulator import OneByOne, Part
from slackwater.jobs.tables.schemas import TIME

Ranked = tuple[tuple[int, ...], tuple[int, Any], bytes, Any]


def order_rank(value: Any) -> tuple[int, Any]:
    """Sort key of an order column's value: nulls first, NaN last."""
    if value is None:
        return (0, None)
    return (2, None) if isinstance(value, float) and math.isnan(value) else (1, value)


class FirstOrLast(OneByOne):
    """Value of the row with the least or greatest rank. Accumulator: (times in µs, rank of the order, row
    hash, value); None for none.

    Args:
        by_event_time: the event time comes before the arrival.
        order: name and type of the order column; None without one.
        hashed: the columns of which a row's hash is taken.
    """

    def __init__(
        self,
        is_last: bool,
        by_event_time: bool,
        column_type: pa.DataType,
        order: tuple[str, pa.DataType] | None,
        hashed: tuple[str, ...],
    ) -> None:
        self.is_last = is_last
        self.by_event_time = by_event_time
        self.order_by = None if order is None else order[0]
        self.hashed = hashed
        self._times = 2 if by_event_time else 1
        self._has_order = order is not None
        times: tuple[Part, ...] = (("event_time", TIME), ("arrival", TIME))[-self._times :]
        ordered: tuple[Part, ...] = () if order is None else (("order", order[1]),)
        self.parts: tuple[Part, ...] = (("value", column_type), *times, *ordered, ("row_hash", pa.binary()))
        self.result_type = column_type

    def create(self) -> None:
        return None

    def add(self, accumulator: Ranked | None, value: Ranked) -> Ranked:
        return value if accumulator is None else self._pick(accumulator, value)

    def merge(self, a: Ranked | None, b: Ranked | None) -> Ranked | None:
        return a if b is None else self.add(a, b)

    def _pick(self, a: Ranked, b: Ranked) -> Ranked:
        # Rows of one rank have equal values: the hash covers every column that the pipeline reads.
        return b if (a[:3] < b[:3]) == self.is_last else a

    def result(self, accumulator: Ranked | None) -> Any:
        return None if accumulator is None else accumulator[3]

    def encode(self, accumulator: Ranked | None) -> tuple[Any, ...]:
        if accumulator is None:
            return (None,) * len(self.parts)
        times, order, row_hash, value = accumulator
        return (
            value,
            *times,
            *([math.nan if order[0] == 2 else order[1]] if self._has_order else []),
            row_hash,
        )

    def decode(self, parts: Sequence[Any]) -> Ranked | None:
        if parts[-1] is None:
            return None
        order = order_rank(parts[-2] if self._has_order else None)
        return (tuple(parts[1 : 1 + self._times]), order, parts[-1], parts[0])
