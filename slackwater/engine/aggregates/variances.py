"""Variance and standard deviation: exact Σx and Σx² until a firing, which rounds once.

Over n values the variance of a sample is (n·Σx² − (Σx)²) / (n·(n − 1)), null for n < 2, that of a population
(n·Σx² − (Σx)²) / n², null for n = 0; both are computed as quotients of integers.

Kept are the sum of the column and the sum of its squares; the squares are added as limbs, as doubles are.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.aggregates.bound_aggregate import BoundAggregate, Columns, Parts
from slackwater.engine.aggregates.doubles import DoubleSum
from slackwater.engine.aggregates.integers import DecimalSum, IntegerSum, decimal_digits, powers_of_ten
from slackwater.engine.aggregates.limb_columns import (
    decode_exact,
    encode_exact,
    pack_limbs,
    unpack_limbs,
)
from slackwater.windowing.columnar.arrays import limbs
from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import Groups

_MOMENT_PARTS: Parts = (
    ("squares", pa.float64()),
    ("squares_exact", pa.binary()),
    ("count", pa.int64()),
)


_BELOW = 34  # limbs below 2^-1074 that the least square needs


class Spread(NamedTuple):
    """Which variance: its root or not, and of a sample or of a population."""

    is_root: bool
    is_of_sample: bool


class Variance(ABC):
    """Accumulator: the sum's columns, the squares in limbs of 2^(32 base - 1074), the count. Parked beside
    the sum are the squares, as a readable double and in binary. Subclasses square the values of a column.
    """

    result_type = pa.float64()
    _unit_bits = 0  # the unit of the parked squares is 2^-bits

    def __init__(self, column: str, spread: Spread, sums: BoundAggregate) -> None:
        self._column = column
        self._spread = spread
        self._sum = sums
        *columns, count = sums.columns
        self.columns: Parts = (*columns, ("squares", pa.binary()), count)
        self.parts: Parts = (*sums.parts[:-1], *_MOMENT_PARTS)
        # Of the squares of a decimal column, which are squares in units of the last digit.
        self._divisors: list[int] = []

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        column = rows.column(self._column)
        codes, values = groups.codes[np.asarray(column.is_valid())], column.drop_null()
        squares, base, at = self._squares(values)
        return self._with(
            self._sum.partial(rows, groups), limbs.sum_limbs(squares, Groups(codes[at], groups.size)), base
        )

    @abstractmethod
    def _squares(self, values: pa.ChunkedArray) -> tuple[Longs, int, Longs]:
        """(limbs of the squares of the finite values, their base, the positions of these values)."""

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
        """As the module says, NaN where a value was not finite."""
        counts = accumulators[-1].to_numpy()
        squares, base = unpack_limbs(accumulators[-2])
        totals, exponent = self._totals(accumulators)
        dividend, exponent = limbs.difference(
            squares * counts[:, None],
            limbs.BITS * base - limbs.UNIT_BITS,
            limbs.square(totals),
            2 * exponent,
        )
        spare = int(self._spread.is_of_sample)
        divisors = [np.maximum(counts, 1), np.maximum(counts - spare, 1), *self._divisors]
        quotients = (
            _roots(dividend, exponent, divisors)
            if self._spread.is_root
            else limbs.to_doubles(dividend, exponent, divisors)
        )
        quotients[self._are_special(accumulators)] = np.nan
        return pc.if_else(pa.array(counts > spare), pa.array(quotients), pa.scalar(None, pa.float64()))

    def _are_special(self, accumulators: Columns) -> Booleans:
        """Whether a value of each row was not finite."""
        return np.zeros(len(accumulators[-1]), np.bool_)

    def _totals(self, accumulators: Columns) -> tuple[Longs, int]:
        """(limbs of the sums, the power of two that they count)."""
        return limbs.from_digits([digit.to_numpy() for digit in accumulators[:-2]]), 0

    def encode(self, accumulators: Columns) -> Columns:
        *sums, count = self._sum.encode(_sums(accumulators))
        numbers, base = unpack_limbs(accumulators[-2])
        exponent = limbs.BITS * base - limbs.UNIT_BITS
        exact = encode_exact(numbers, exponent + self._unit_bits, np.zeros(len(count), np.int64))
        return [*sums, pa.array(limbs.to_doubles(numbers, exponent, self._divisors)), exact, count]

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        numbers, base, _ = decode_exact(parts[-2], limbs.UNIT_BITS - self._unit_bits)
        return self._with(self._sum.decode([*parts[:-3], parts[-1]]), numbers, base)


class IntegerVariance(Variance):
    def __init__(self, column: str, spread: Spread) -> None:
        super().__init__(column, spread, IntegerSum(column, is_mean=False))

    def _squares(self, values: pa.ChunkedArray) -> tuple[Longs, int, Longs]:
        return _squares_of_integers(limbs.from_longs(values.cast(pa.int64()).to_numpy()))


class DecimalVariance(Variance):
    def __init__(self, column: str, spread: Spread, scale: int) -> None:
        super().__init__(column, spread, DecimalSum(column, is_mean=False, scale=scale))
        self._scale = scale
        self._divisors = powers_of_ten(2 * scale)

    def _squares(self, values: pa.ChunkedArray) -> tuple[Longs, int, Longs]:
        digits = decimal_digits(values.cast(pa.decimal128(38, self._scale)).combine_chunks())
        return _squares_of_integers(limbs.from_digits(list(digits)))


class DoubleVariance(Variance):
    _unit_bits = 2 * limbs.UNIT_BITS

    def __init__(self, column: str, spread: Spread) -> None:
        super().__init__(column, spread, DoubleSum(column, is_mean=False))

    def _squares(self, values: pa.ChunkedArray) -> tuple[Longs, int, Longs]:
        doubles = values.cast(pa.float64()).to_numpy()
        at = np.flatnonzero(np.isfinite(doubles))
        fractions, exponents = np.frexp(doubles[at])
        numbers = limbs.from_longs((fractions * 2.0**53).astype(np.int64))
        bits = 2 * (exponents.astype(np.int64) - 53) + limbs.UNIT_BITS + limbs.BITS * _BELOW
        squares, base = limbs.shift_up(limbs.square(numbers), bits)
        return squares, base - _BELOW, at

    def _are_special(self, accumulators: Columns) -> Booleans:
        return np.any([special.to_numpy() > 0 for special in accumulators[1:4]], axis=0)

    def _totals(self, accumulators: Columns) -> tuple[Longs, int]:
        numbers, base = unpack_limbs(accumulators[0])
        return numbers, limbs.BITS * base - limbs.UNIT_BITS


def _squares_of_integers(numbers: Longs) -> tuple[Longs, int, Longs]:
    bits = np.full(len(numbers), limbs.UNIT_BITS + limbs.BITS * _BELOW)
    squares, base = limbs.shift_up(limbs.square(numbers), bits)
    return squares, base - _BELOW, np.arange(len(numbers))


def _sums(accumulators: Columns) -> Columns:
    return [*accumulators[:-2], accumulators[-1]]


def _roots(dividend: Longs, exponent: int, divisors: Sequence[Longs | int]) -> np.ndarray:
    """The square root of each quotient, the nearest double."""
    divisor_columns = [np.broadcast_to(divisor, len(dividend)).tolist() for divisor in divisors]
    up, down = max(exponent, 0), max(-exponent, 0)
    rows = zip(limbs.to_integers(dividend), *divisor_columns, strict=True)
    return np.array([root(number << up, prod(by) << down) for number, *by in rows], np.float64)


def root(dividend: int, divisor: int) -> float:
    """√(dividend / divisor), of numbers not negative, as the nearest double. The integer root is taken with
    more bits than a double has, and its last bit is set if it is inexact: rounding that integer gives the
    rounded root.
    """
    if dividend == 0:
        return 0.0
    bits = max(0, 66 - (dividend.bit_length() - divisor.bit_length()) // 2)
    quotient, remainder = divmod(dividend << (2 * bits), divisor)
    floor = math.isqrt(quotient)
    inexact = remainder != 0 or floor * floor != quotient
    return (2 * floor + inexact) / (1 << (bits + 1))
