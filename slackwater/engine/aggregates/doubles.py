"""`sum` and `mean` of floats: the exact sum of all values, rounded once, when a window fires.

The columnar form adds limbs of a fixed-point number, where `exact_sums` adds one value at a time. NaN and the
infinities are counted apart.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.aggregates import exact_sums
from slackwater.engine.aggregates.accumulator import Columns, Part, Parts, SumAndCount
from slackwater.engine.aggregates.count import count_values, running_sum
from slackwater.engine.aggregates.limb_columns import (
    decode_exact,
    encode_exact,
    pack_limbs,
    unpack_limbs,
)
from slackwater.windowing.columnar.arrays import limbs
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups, sum_of_groups


class _DoubleSum(SumAndCount):
    """Accumulator: (count, ExactSum); parked as a readable double, the exact sum in binary, and the count."""

    zero = exact_sums.ZERO
    parts: tuple[Part, ...] = (("sum", pa.float64()), ("sum_exact", pa.binary()), ("count", pa.int64()))

    def add(self, accumulator: tuple[int, Any], value: float) -> tuple[int, Any]:
        return (accumulator[0] + 1, exact_sums.add(accumulator[1], value))

    def merge(self, a: tuple[int, Any], b: tuple[int, Any]) -> tuple[int, Any]:
        return (a[0] + b[0], exact_sums.merge(a[1], b[1]))

    def encode(self, accumulator: tuple[int, Any]) -> tuple[float, bytes, int]:
        count, total = accumulator
        return (exact_sums.round_sum(total), exact_sums.encode(total), count)

    def decode(self, parts: Sequence[Any]) -> tuple[int, Any]:
        return (int(parts[2]), exact_sums.decode(parts[1]))


class DoubleSum(_DoubleSum):
    """Sum of a float column, rounded once at a firing."""

    result_type = pa.float64()

    def result(self, accumulator: tuple[int, Any]) -> float | None:
        return exact_sums.round_sum(accumulator[1]) if accumulator[0] else None


class DoubleMean(_DoubleSum):
    """Mean of a float column: the exact quotient, rounded once."""

    result_type = pa.float64()

    def result(self, accumulator: tuple[int, Any]) -> float | None:
        return exact_sums.round_sum(accumulator[1], accumulator[0]) if accumulator[0] else None


_SPECIALS = ("nan", "positive_infinity", "negative_infinity")


class ColumnarDouble:
    """Sum or mean of a float column. Accumulator: the base and the limbs of the sum as 64-bit words, equally
    many in all rows of one partial; the count of each special value; the count of all values.
    """

    columns: Parts = (
        ("exact", pa.binary()),
        *((name, pa.int64()) for name in _SPECIALS),
        ("count", pa.int64()),
    )

    def __init__(self, column: str, is_mean: bool) -> None:
        self._column = column
        self._is_mean = is_mean

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        column = rows.column(self._column)
        counts = count_values(column, groups)
        is_valid = np.asarray(column.is_valid())
        codes, values = groups.codes[is_valid], column.drop_null().cast(pa.float64()).to_numpy()
        specials = [
            np.bincount(codes[matches], minlength=groups.size)
            for matches in (np.isnan(values), values == np.inf, values == -np.inf)
        ]
        is_finite = np.isfinite(values)
        numbers, base = limbs.from_doubles(values[is_finite])
        return _columns(
            limbs.sum_limbs(numbers, Groups(codes[is_finite], groups.size)), base, specials, counts
        )

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        numbers, base, specials, counts = _read(accumulators)
        return _columns(
            limbs.sum_limbs(numbers, groups),
            base,
            [sum_of_groups(counts_of_kind, groups) for counts_of_kind in specials],
            sum_of_groups(counts, groups),
        )

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        numbers, base, specials, counts = _read(accumulators)
        return _columns(
            limbs.running_limbs(numbers, starts),
            base,
            [running_sum(counts_of_kind, starts) for counts_of_kind in specials],
            running_sum(counts, starts),
        )

    def results(self, accumulators: Columns) -> pa.Array:
        numbers, base, specials, counts = _read(accumulators)
        sums = self._round_sums(numbers, base, specials, np.maximum(counts, 1) if self._is_mean else None)
        return pc.if_else(pa.array(counts > 0), pa.array(sums), pa.scalar(None, pa.float64()))

    def encode(self, accumulators: Columns) -> Columns:
        numbers, base, specials, counts = _read(accumulators)
        flags = np.sum(
            [(counts_of_kind > 0) << place for place, counts_of_kind in enumerate(specials)], axis=0
        )
        exact = encode_exact(numbers, limbs.BITS * base, flags)
        return [pa.array(self._round_sums(numbers, base, specials, None)), exact, pa.array(counts)]

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        numbers, base, flags = decode_exact(parts[1], 0)
        return _columns(
            numbers, base, [flags >> place & 1 for place in range(len(_SPECIALS))], parts[2].to_numpy()
        )

    def _round_sums(
        self, numbers: Longs, base: int, specials: Sequence[Longs], divisors: Longs | None
    ) -> np.ndarray:
        sums = limbs.to_doubles(
            numbers, limbs.BITS * base - limbs.UNIT_BITS, () if divisors is None else [divisors]
        )
        is_nan, is_positive, is_negative = (counts_of_kind > 0 for counts_of_kind in specials)
        sums[is_positive], sums[is_negative] = np.inf, -np.inf
        sums[is_nan | (is_positive & is_negative)] = np.nan
        return sums


def _columns(numbers: Longs, base: int, specials: Sequence[Longs], counts: Longs) -> Columns:
    return [
        pack_limbs(numbers, base),
        *(pa.array(counts_of_kind) for counts_of_kind in specials),
        pa.array(counts),
    ]


def _read(accumulators: Columns) -> tuple[Longs, int, list[Longs], Longs]:
    """(limbs of one base and width, that base, counts of each special value, counts of all values)."""
    exact, *others = accumulators
    *specials, counts = (column.to_numpy() for column in others)
    return *unpack_limbs(exact), specials, counts
