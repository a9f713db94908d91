"""`sum` and `mean` of floats: the exact sum of all values, rounded once, when a window fires.

Every finite double is an integer multiple of 2**-1074, so a sum is one long integer in that unit, in limbs:

    0.1 + 0.2 + -0.3   as doubles, left to right   5.551115123125783e-17
                       as doubles, right to left   2.7755575615628914e-17
                       as an exact sum             2.7755575615628914e-17   in any order

NaN and the infinities are counted apart. Parked are a readable double, the exact sum in binary, and the
count.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.aggregates.bound_aggregate import Columns, Parts
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


def nearest_doubles(numbers: pa.Array) -> np.ndarray:
    """Numbers without nulls as the nearest doubles."""
    if pa.types.is_decimal(numbers.type):  # Arrow's own cast may miss the nearest double by one unit
        return np.array([float(number) for number in numbers.to_pylist()], np.float64)
    doubles: np.ndarray = numbers.cast(pa.float64(), safe=False).to_numpy()
    return doubles


_SPECIALS = ("nan", "positive_infinity", "negative_infinity")


class DoubleSum:
    """Sum or mean of a float column. Accumulator: the base and the limbs of the sum as 64-bit words, equally
    many in all rows of one partial; the count of each special value; the count of all values.
    """

    columns: Parts = (
        ("exact", pa.binary()),
        *((name, pa.int64()) for name in _SPECIALS),
        ("count", pa.int64()),
    )
    parts: Parts = (("sum", pa.float64()), ("sum_exact", pa.binary()), ("count", pa.int64()))
    result_type = pa.float64()

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
