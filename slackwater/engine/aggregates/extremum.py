"""`min`, `max`, `bool_and` and `bool_or`, and values of any ordered type as integers of the same order: NaN
is greater than every number, -0.0 is 0.0, false is less than true, and text is ordered by code points.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.aggregates.bound_aggregate import Columns, Parts
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import (
    Groups,
    greatest_of_groups,
    least_of_groups,
    run_numbers,
)

# (integers, whether each stands for a value) → the values, null where it does not.
ValuesOfOrdinals = Callable[[Longs, Booleans], pa.Array]

_GREATEST = np.iinfo(np.int64).max


def as_ordinals(values: pa.Array) -> tuple[Longs, Booleans, ValuesOfOrdinals]:
    """(integers that sort as the values do, whether each value is not null, the inverse)."""
    kind = values.type
    is_valid = np.asarray(values.is_valid())
    storage = _storage(kind)
    if storage is not None:
        numbers = values.cast(storage).cast(pa.int64()).fill_null(0).to_numpy()

        def back(integers: Longs, is_valid: Booleans) -> pa.Array:
            valid_integers = np.where(is_valid, integers, 0)
            return pa.array(valid_integers, mask=~is_valid).cast(storage).cast(kind)

        return numbers, is_valid, back
    if pa.types.is_floating(kind):
        doubles = values.cast(pa.float64()).fill_null(0.0).to_numpy() + 0.0
        bits = np.where(np.isnan(doubles), np.nan, doubles).view(np.int64)
        return (
            bits ^ (bits >> 63 & _GREATEST),
            is_valid,
            lambda integers, is_valid: _doubles(integers, is_valid, kind),
        )
    return _ordinals_by_rank(values, is_valid)


def _storage(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_signed_integer(kind) or (pa.types.is_integer(kind) and kind.bit_width < 64):
        return kind
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_boolean(kind):
        return pa.int8()
    return pa.int32() if pa.types.is_date32(kind) else None


def _doubles(integers: Longs, is_valid: Booleans, kind: pa.DataType) -> pa.Array:
    valid_integers = np.where(is_valid, integers, 0)
    return pa.array(
        (valid_integers ^ (valid_integers >> 63 & _GREATEST)).view(np.float64), mask=~is_valid
    ).cast(kind)


def _ordinals_by_rank(values: pa.Array, is_valid: Booleans) -> tuple[Longs, Booleans, ValuesOfOrdinals]:
    """As `as_ordinals`, of any other type: the rank of each value among the distinct ones."""
    dictionary_column = values.dictionary_encode()
    order = pc.sort_indices(dictionary_column.dictionary).to_numpy().astype(np.int64)
    ranks = np.empty(len(order) + 1, np.int64)
    ranks[order] = np.arange(len(order))
    ranks[-1] = 0
    codes = dictionary_column.indices.fill_null(len(order)).to_numpy()
    in_order = dictionary_column.dictionary.take(pa.array(order))

    def back(integers: Longs, is_valid: Booleans) -> pa.Array:
        return in_order.take(pa.array(np.where(is_valid, integers, 0), mask=~is_valid))

    return ranks[codes], is_valid, back


def plain_values(values: pa.Array) -> pa.Array:
    """The values as they are kept: floats have one NaN and one zero."""
    if not pa.types.is_floating(values.type):
        return values
    ordinals, is_valid, values_of = as_ordinals(values)
    return values_of(ordinals, is_valid)


class Extremum:
    """The least or greatest value of a column. Accumulator: the value; null where there is none, parked as
    `part`.
    """

    def __init__(self, column: str, part: str, is_least: bool, kind: pa.DataType) -> None:
        self.columns: Parts = (("value", kind),)
        self.parts: Parts = ((part, kind),)
        self.result_type = kind
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
