"""Values of any ordered type as integers of the same order, and back.

NaN is greater than every number, -0.0 is 0.0; text is ordered by code points.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.windowing.columnar.arrays.columns import Booleans, Longs

_GREATEST = np.iinfo(np.int64).max


def as_ordinals(values: pa.Array) -> tuple[Longs, Booleans, Any]:
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
    return pa.int32() if pa.types.is_date32(kind) else None


def _doubles(integers: Longs, is_valid: Booleans, kind: pa.DataType) -> pa.Array:
    valid_integers = np.where(is_valid, integers, 0)
    return pa.array(
        (valid_integers ^ (valid_integers >> 63 & _GREATEST)).view(np.float64), mask=~is_valid
    ).cast(kind)


def _ordinals_by_rank(values: pa.Array, is_valid: Booleans) -> tuple[Longs, Booleans, Any]:
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
