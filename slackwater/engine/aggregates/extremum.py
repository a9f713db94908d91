"""`min` and `max`: NaN is greater than every number."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.accumulator import OneByOne, Part, Starts
from slackwater.engine.aggregates.columnar_aggregate import Columns, Parts
from slackwater.engine.aggregates.ordinals import as_ordinals
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import (
    Groups,
    greatest_of_groups,
    least_of_groups,
    run_numbers,
)


def nan_greatest(value: Any) -> tuple[bool, Any]:
    """A sort key for which NaN equals NaN and is greater than every number."""
    return (True, 0) if isinstance(value, float) and math.isnan(value) else (False, value)


class Extremum(OneByOne):
    """The least or greatest value of a column. Accumulator: the value; None before the first."""

    def __init__(self, kind: str, column_type: pa.DataType) -> None:
        self.parts: tuple[Part, ...] = ((kind, column_type),)
        self.result_type = column_type
        self._pick: Callable[..., Any] = min if kind == "min" else max
        self._pick_all = np.minimum if kind == "min" else np.maximum

    def create(self) -> None:
        return None

    def add(self, accumulator: Any, value: Any) -> Any:
        return value if accumulator is None else self._pick(accumulator, value, key=nan_greatest)

    def totals(self, column: pa.ChunkedArray | None, starts: Starts) -> list[Any] | None:
        if column is None or not len(column) or not pa.types.is_integer(column.type):
            return None
        return list(self._pick_all.reduceat(column.to_numpy(), starts[:-1]).tolist())

    def merge(self, a: Any, b: Any) -> Any:
        return a if b is None else self.add(a, b)

    def result(self, accumulator: Any) -> Any:
        return accumulator

    def encode(self, accumulator: Any) -> tuple[Any]:
        return (accumulator,)

    def decode(self, parts: Sequence[Any]) -> Any:
        return parts[0]


_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class ColumnarExtremum:
    """The least or greatest value of a column. Accumulator: the value; null where there is none."""

    def __init__(self, column: str, is_least: bool, kind: pa.DataType) -> None:
        self.columns: Parts = (("value", kind),)
        self._column = column
        self._is_least = is_least
        self._kind = kind

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        column = rows.column(self._column)
        return self.combine([column.combine_chunks().cast(self._kind)], groups)

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        ordinals, is_valid, values_of = as_ordinals(accumulators[0])
        if not is_valid.all():
            ordinals, groups = ordinals[is_valid], Groups(groups.codes[is_valid], groups.size)
        has_value = np.zeros(groups.size, np.bool_)
        has_value[groups.codes] = True
        best = least_of_groups(ordinals, groups) if self._is_least else greatest_of_groups(ordinals, groups)
        return [values_of(best, has_value)]

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        ordinals, is_valid, values_of = as_ordinals(accumulators[0])
        rows = len(ordinals)
        # A rank and the number of its run fit into one integer, so that one running maximum serves all runs.
        distinct, ranks = np.unique(ordinals, return_inverse=True)
        if self._is_least:
            ranks = len(distinct) - 1 - ranks
        ranks = np.where(is_valid, ranks + 1, 0)
        floors = run_numbers(starts, rows) * (len(distinct) + 1)
        best = np.maximum.accumulate(ranks + floors) - floors if rows else ranks
        places = np.maximum(best - 1, 0)
        if self._is_least:
            places = len(distinct) - 1 - places
        return [values_of(distinct[places] if rows else ordinals, best > 0)]

    def results(self, accumulators: Columns) -> pa.Array:
        return accumulators[0]

    def encode(self, accumulators: Columns) -> Columns:
        return accumulators

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return [parts[0]]
