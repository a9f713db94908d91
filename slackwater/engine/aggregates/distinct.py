"""`count_distinct`: the exact number of different values, kept in open windows, parked as sorted lists."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.accumulator import (
    Columns,
    Part,
    Parts,
    build_lists,
    flatten_lists,
)
from slackwater.engine.aggregates.extremum import as_ordinals, nan_greatest
from slackwater.windowing.columnar.arrays import maps
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups


def as_member(value: Any) -> Any:
    """`value` as a member of the set: None for NaN. NaN does not equal itself, so a set that was pickled by a
    state back end on disk would accept a second NaN. Nulls are never added."""
    return None if isinstance(value, float) and math.isnan(value) else value


class CountDistinct:
    """Accumulator: a set of values (`as_member`), changed in place."""

    result_type = pa.int64()

    def __init__(self, column_type: pa.DataType) -> None:
        self.parts: tuple[Part, ...] = (("values", pa.list_(column_type)),)

    def create(self) -> set[Any]:
        return set()

    def add(self, accumulator: set[Any], value: Any) -> set[Any]:
        accumulator.add(as_member(value))
        return accumulator

    def merge(self, a: set[Any], b: set[Any]) -> set[Any]:
        a |= b
        return a

    def result(self, accumulator: set[Any]) -> int:
        return len(accumulator)

    def encode(self, accumulator: set[Any]) -> tuple[list[Any]]:
        values = (math.nan if member is None else member for member in accumulator)
        return (sorted(values, key=nan_greatest),)

    def decode(self, parts: Sequence[Any]) -> set[Any]:
        return set(map(as_member, parts[0]))


class ColumnarCountDistinct:
    """Accumulator: the different values, ascending."""

    def __init__(self, column: str, kind: pa.DataType) -> None:
        self.columns: Parts = (("values", pa.list_(kind)),)
        self._column = column
        self._kind = kind

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        return self._value_lists(
            groups.codes, rows.column(self._column).combine_chunks().cast(self._kind), groups.size
        )

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        rows, values = flatten_lists(accumulators[0])
        return self._value_lists(groups.codes[rows], values, groups.size)

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        rows, values = flatten_lists(accumulators[0])
        numbers, _, values_of = as_ordinals(values)
        entries = maps.fold_entries(rows, numbers, np.zeros(len(rows), np.int64), maps.Fold.MAX)
        entries = maps.fold_runs(entries, starts, len(accumulators[0]), maps.Fold.MAX)
        return [
            build_lists(
                entries.rows,
                values_of(entries.keys, np.ones(len(entries.keys), np.bool_)),
                len(accumulators[0]),
            )
        ]

    def _value_lists(self, codes: Longs, values: pa.Array, size: int) -> Columns:
        numbers, is_valid, values_of = as_ordinals(values)
        valid_rows = np.flatnonzero(is_valid)
        entries = maps.fold_entries(
            codes[valid_rows], numbers[valid_rows], np.zeros(len(valid_rows), np.int64), maps.Fold.MAX
        )
        return [
            build_lists(entries.rows, values_of(entries.keys, np.ones(len(entries.keys), np.bool_)), size)
        ]

    def results(self, accumulators: Columns) -> pa.Array:
        return accumulators[0].value_lengths().cast(pa.int64())

    def encode(self, accumulators: Columns) -> Columns:
        return accumulators

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return [parts[0]]
