"""Variance and standard deviation on whole columns: the exact sum of the column beside the exact sum of its
squares.

Squares are sums of limbs as sums of doubles are; a firing is rounded once.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.engines import exact_sums
from slackwater.jobs.engines.accumulators.variances import DecimalVariance, DoubleVariance, IntegerVariance
from slackwater.jobs.engines.columnar.aggregates.exact_doubles import ColumnarDouble
from slackwater.jobs.engines.columnar.aggregates.exact_integers import (
    ColumnarDecimal,
    ColumnarInteger,
    decimal_digits,
    powers_of_ten,
)
from slackwater.jobs.engines.columnar.aggregates.limb_columns import (
    decode_exact,
    encode_exact,
    pack_limbs,
    unpack_limbs,
)
from slackwater.jobs.engines.columnar.aggregates.protocol import ColumnarAggregate, Columns, Parts
from slackwater.windowing.columnar import limb_bytes, limbs
from slackwater.windowing.columnar.columns import Longs
from slackwater.windowing.columnar.groups import Groups

Scalar = IntegerVariance | DecimalVariance | DoubleVariance
_BELOW = 34  # limbs below 2^-1074 that the least square needs


class ColumnarVariance:
    """Accumulator: that of the sum, its count last, before it the squares in limbs of 2^(32 base - 1074)."""

    def __init__(self, column: str, scalar: Scalar, is_root: bool) -> None:
        self._column = column
        self._scalar = scalar
        self._is_root = is_root
        self._sum: ColumnarAggregate
        self._divisors: list[int] = []  # of the squares, which are those of integers of the last digit
        if isinstance(scalar, DecimalVariance):
            self._sum = ColumnarDecimal(column, is_mean=False, scale=scalar.scale)
            self._divisors = powers_of_ten(2 * scalar.scale)
        else:
            self._sum = (ColumnarInteger if isinstance(scalar, IntegerVariance) else ColumnarDouble)(
                column, is_mean=False
            )
        *sums, count = self._sum.columns
        self.columns: Parts = (*sums, ("squares", pa.binary()), count)

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        column = rows.column(self._column)
        codes, values = groups.codes[np.asarray(column.is_valid())], column.drop_null()
        squares, base, at = self._squares(values)
        return self._with(
            self._sum.partial(rows, groups), limbs.sum_limbs(squares, Groups(codes[at], groups.size)), base
        )

    def _squares(self, values: pa.ChunkedArray) -> tuple[Longs, int, Longs]:
        """Limbs and base of the squares of values, and which: those that are finite."""
        if isinstance(self._scalar, DoubleVariance):
            doubles = values.cast(pa.float64()).to_numpy()
            at = np.flatnonzero(np.isfinite(doubles))
            fractions, exponents = np.frexp(doubles[at])
            numbers = limbs.of_longs((fractions * 2.0**53).astype(np.int64))
            bits = 2 * (exponents.astype(np.int64) - 53) + limbs.UNIT_BITS + limbs.BITS * _BELOW
        else:
            at = np.arange(len(values))
            numbers = self._integers(values)
            bits = np.full(len(at), limbs.UNIT_BITS + limbs.BITS * _BELOW)
        squares, base = limb_bytes.shifted_up(limbs.squared(numbers), bits)
        return squares, base - _BELOW, at

    def _integers(self, values: pa.ChunkedArray) -> Longs:
        """The values of a column of integers, or in units of the last digit."""
        if isinstance(self._scalar, DecimalVariance):
            return limbs.of_digits(
                list(decimal_digits(values.cast(pa.decimal128(38, self._scalar.scale)).combine_chunks()))
            )
        return limbs.of_longs(values.cast(pa.int64()).to_numpy())

    def _with(self, sums: Columns, squares: Longs, base: int) -> Columns:
        *others, count = sums
        return [*others, pack_limbs(squares, base), count]

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        numbers, base = unpack_limbs(accumulators[-2])
        return self._with(
            self._sum.combine(_sums(accumulators), groups), limbs.sum_limbs(numbers, groups), base
        )

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        numbers, base = unpack_limbs(accumulators[-2])
        return self._with(
            self._sum.running(_sums(accumulators), starts), limbs.running_limbs(numbers, starts), base
        )

    def results(self, accumulators: Columns) -> pa.Array:
        """(n·Σx² - (Σx)²) / (n·(n - 1)), null for n < 2, NaN where a value was not finite."""
        counts = accumulators[-1].to_numpy()
        squares, base = unpack_limbs(accumulators[-2])
        totals, exponent = self._totals(accumulators)
        divided, exponent = limb_bytes.difference(
            squares * counts[:, None],
            limbs.BITS * base - limbs.UNIT_BITS,
            limbs.squared(totals),
            2 * exponent,
        )
        divisors = [np.maximum(counts, 1), np.maximum(counts - 1, 1), *self._divisors]
        found = (
            _roots(divided, exponent, divisors)
            if self._is_root
            else limbs.to_doubles(divided, exponent, divisors)
        )
        if isinstance(self._scalar, DoubleVariance):
            found[np.any([special.to_numpy() > 0 for special in accumulators[1:4]], axis=0)] = np.nan
        return pc.if_else(pa.array(counts > 1), pa.array(found), pa.scalar(None, pa.float64()))

    def _totals(self, accumulators: Columns) -> tuple[Longs, int]:
        """(limbs, exponent) of the sums."""
        if isinstance(self._scalar, DoubleVariance):
            numbers, base = unpack_limbs(accumulators[0])
            return numbers, limbs.BITS * base - limbs.UNIT_BITS
        return limbs.of_digits([digit.to_numpy() for digit in accumulators[:-2]]), 0

    def encode(self, accumulators: Columns) -> Columns:
        *sums, count = self._sum.encode(_sums(accumulators))
        numbers, base = unpack_limbs(accumulators[-2])
        exponent = limbs.BITS * base - limbs.UNIT_BITS
        exact = encode_exact(numbers, exponent + self._unit_bits, np.zeros(len(count), np.int64))
        return [*sums, pa.array(limbs.to_doubles(numbers, exponent, self._divisors)), exact, count]

    @property
    def _unit_bits(self) -> int:
        """The unit of the parked squares is 2^-bits."""
        return 2 * limbs.UNIT_BITS if isinstance(self._scalar, DoubleVariance) else 0

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        numbers, base, _ = decode_exact(parts[-2], limbs.UNIT_BITS - self._unit_bits)
        return self._with(self._sum.decode([*parts[:-3], parts[-1]]), numbers, base)


def _sums(accumulators: Columns) -> Columns:
    return [*accumulators[:-2], accumulators[-1]]


def _roots(divided: Longs, exponent: int, divisors: Sequence[Longs | int]) -> np.ndarray:
    """The square root of each quotient, the nearest double."""
    rest = [np.broadcast_to(divisor, len(divided)).tolist() for divisor in divisors]
    up, down = max(exponent, 0), max(-exponent, 0)
    rows = zip(limbs.to_integers(divided), *rest, strict=True)
    return np.array([exact_sums.root(number << up, prod(by) << down) for number, *by in rows], np.float64)
