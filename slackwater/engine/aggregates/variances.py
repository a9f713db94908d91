"""Sample variance and standard deviation: exact Σx and Σx² until a firing, which rounds once.

Over n values the variance is (n·Σx² − (Σx)²) / (n·(n − 1)), computed as a quotient of integers; null for n <
2.

The columnar form keeps the sum of the column and the sum of its squares; the squares are added as limbs, as
doubles are.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import Decimal
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.aggregates import exact_sums
from slackwater.engine.aggregates.accumulator import ColumnarAggregate, Columns, Part, Parts
from slackwater.engine.aggregates.doubles import ColumnarDouble
from slackwater.engine.aggregates.exact_sums import UNIT_BITS, ExactSum
from slackwater.engine.aggregates.integers import (
    WIDE,
    ColumnarDecimal,
    ColumnarInteger,
    DecimalSum,
    decimal_digits,
    powers_of_ten,
    to_units,
)
from slackwater.engine.aggregates.limb_columns import (
    decode_exact,
    encode_exact,
    pack_limbs,
    unpack_limbs,
)
from slackwater.windowing.columnar.arrays import limbs
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups

Moments = tuple[int, int, int]


_MOMENT_PARTS: tuple[Part, ...] = (
    ("squares", pa.float64()),
    ("squares_exact", pa.binary()),
    ("count", pa.int64()),
)


class _Variance(ABC):
    """Accumulator: (count, Σx, Σx²), in units of `1 / units` and its square; subclasses choose the unit."""

    result_type = pa.float64()
    parts: tuple[Part, ...]
    units: int

    def __init__(self, is_root: bool) -> None:
        self._is_root = is_root

    def create(self) -> Any:
        return (0, 0, 0)

    def merge(self, a: Any, b: Any) -> Any:
        return tuple(x + y for x, y in zip(a, b, strict=True))

    def result(self, accumulator: Any) -> float | None:
        count, total, squares = accumulator
        if count < 2:
            return None
        dividend, divisor = count * squares - total * total, count * (count - 1) * self.units * self.units
        return exact_sums.root(dividend, divisor) if self._is_root else exact_sums.quotient(dividend, divisor)

    def decode(self, parts: Sequence[Any]) -> Any:
        return self.moments_from_sums([*parts[:-3], parts[-1]], self.squares_of(parts[-2]))

    @abstractmethod
    def moments_from_sums(self, sums: Sequence[Any], squares: int) -> Any: ...

    def squares_of(self, data: bytes) -> int:
        return exact_sums.decode(data).units

    def _encode_squares(self, squares: int) -> tuple[float, bytes]:
        return exact_sums.quotient(squares, self.units * self.units), exact_sums.encode(ExactSum(squares, 0))


class IntegerVariance(_Variance):
    """Σx is parked in 128 bits, Σx², which may need more, in binary beside a readable double."""

    units = 1
    parts = (("sum", WIDE), *_MOMENT_PARTS)

    def add(self, accumulator: Moments, value: int) -> Moments:
        return (accumulator[0] + 1, accumulator[1] + value, accumulator[2] + value * value)

    def encode(self, accumulator: Moments) -> tuple[Decimal, float, bytes, int]:
        count, total, squares = accumulator
        return (Decimal(total), *self._encode_squares(squares), count)

    def moments_from_sums(self, sums: Sequence[Any], squares: int) -> Moments:
        return (int(sums[1]), int(sums[0]), squares)


class DecimalVariance(_Variance):
    """Of a decimal column: sums of integers of the last digit."""

    def __init__(self, is_root: bool, scale: int) -> None:
        super().__init__(is_root)
        self.scale = scale
        self.units = 10**scale
        self._sum = DecimalSum(scale)
        self.parts = (*self._sum.parts[:-1], *_MOMENT_PARTS)

    def add(self, accumulator: Moments, value: Decimal) -> Moments:
        number = to_units(value, self.scale)
        return (accumulator[0] + 1, accumulator[1] + number, accumulator[2] + number * number)

    def encode(self, accumulator: Moments) -> tuple[Any, ...]:
        count, total, squares = accumulator
        return (*self._sum.encode((count, total))[:-1], *self._encode_squares(squares), count)

    def moments_from_sums(self, sums: Sequence[Any], squares: int) -> Moments:
        return (*self._sum.decode(sums), squares)


class DoubleVariance(_Variance):
    """Of a float column. Accumulator: (count, Σx with its special values, Σx² of the finite ones)."""

    units = 1 << UNIT_BITS
    parts = (("sum", pa.float64()), ("sum_exact", pa.binary()), *_MOMENT_PARTS)

    def create(self) -> tuple[int, ExactSum, int]:
        return (0, exact_sums.ZERO, 0)

    def add(self, accumulator: tuple[int, ExactSum, int], value: float) -> tuple[int, ExactSum, int]:
        count, total, squares = accumulator
        grown = exact_sums.add(total, value)
        return (count + 1, grown, squares + (grown.units - total.units) ** 2)

    def merge(self, a: tuple[int, ExactSum, int], b: tuple[int, ExactSum, int]) -> tuple[int, ExactSum, int]:
        return (a[0] + b[0], exact_sums.merge(a[1], b[1]), a[2] + b[2])

    def result(self, accumulator: tuple[int, ExactSum, int]) -> float | None:
        count, total, squares = accumulator
        if total.specials:
            return math.nan if count > 1 else None
        return super().result((count, total.units, squares))

    def encode(self, accumulator: tuple[int, ExactSum, int]) -> tuple[float, bytes, float, bytes, int]:
        count, total, squares = accumulator
        return (exact_sums.round_sum(total), exact_sums.encode(total), *self._encode_squares(squares), count)

    def moments_from_sums(self, sums: Sequence[Any], squares: int) -> tuple[int, ExactSum, int]:
        return (int(sums[2]), exact_sums.decode(sums[1]), squares)


Scalar = IntegerVariance | DecimalVariance | DoubleVariance


_BELOW = 34  # limbs below 2^-1074 that the least square needs


class ColumnarVariance:
    """Accumulator: the sum's columns, the squares in limbs of 2^(32 base - 1074), the count."""

    def __init__(self, column: str, scalar: Scalar, is_root: bool) -> None:
        self._column = column
        self._scalar = scalar
        self._is_root = is_root
        self._sum: ColumnarAggregate
        self._divisors: list[
            int
        ] = []  # of the squares of a decimal column, which are squares in units of the last digit
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
        """(limbs of the squares of the finite values, their base, the positions of these values)."""
        if isinstance(self._scalar, DoubleVariance):
            doubles = values.cast(pa.float64()).to_numpy()
            at = np.flatnonzero(np.isfinite(doubles))
            fractions, exponents = np.frexp(doubles[at])
            numbers = limbs.from_longs((fractions * 2.0**53).astype(np.int64))
            bits = 2 * (exponents.astype(np.int64) - 53) + limbs.UNIT_BITS + limbs.BITS * _BELOW
        else:
            at = np.arange(len(values))
            numbers = self._integers(values)
            bits = np.full(len(at), limbs.UNIT_BITS + limbs.BITS * _BELOW)
        squares, base = limbs.shift_up(limbs.square(numbers), bits)
        return squares, base - _BELOW, at

    def _integers(self, values: pa.ChunkedArray) -> Longs:
        """Limbs of the values of a column of integers, or of decimals in units of the last digit."""
        if isinstance(self._scalar, DecimalVariance):
            return limbs.from_digits(
                list(decimal_digits(values.cast(pa.decimal128(38, self._scalar.scale)).combine_chunks()))
            )
        return limbs.from_longs(values.cast(pa.int64()).to_numpy())

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
        dividend, exponent = limbs.difference(
            squares * counts[:, None],
            limbs.BITS * base - limbs.UNIT_BITS,
            limbs.square(totals),
            2 * exponent,
        )
        divisors = [np.maximum(counts, 1), np.maximum(counts - 1, 1), *self._divisors]
        quotients = (
            _roots(dividend, exponent, divisors)
            if self._is_root
            else limbs.to_doubles(dividend, exponent, divisors)
        )
        if isinstance(self._scalar, DoubleVariance):
            quotients[np.any([special.to_numpy() > 0 for special in accumulators[1:4]], axis=0)] = np.nan
        return pc.if_else(pa.array(counts > 1), pa.array(quotients), pa.scalar(None, pa.float64()))

    def _totals(self, accumulators: Columns) -> tuple[Longs, int]:
        if isinstance(self._scalar, DoubleVariance):
            numbers, base = unpack_limbs(accumulators[0])
            return numbers, limbs.BITS * base - limbs.UNIT_BITS
        return limbs.from_digits([digit.to_numpy() for digit in accumulators[:-2]]), 0

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


def _roots(dividend: Longs, exponent: int, divisors: Sequence[Longs | int]) -> np.ndarray:
    """The square root of each quotient, the nearest double."""
    divisor_columns = [np.broadcast_to(divisor, len(dividend)).tolist() for divisor in divisors]
    up, down = max(exponent, 0), max(-exponent, 0)
    rows = zip(limbs.to_integers(dividend), *divisor_columns, strict=True)
    return np.array([exact_sums.root(number << up, prod(by) << down) for number, *by in rows], np.float64)
