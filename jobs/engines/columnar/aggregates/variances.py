"""Variance and standard deviation on whole columns: the exact sum of the column beside the exact sum of its squares.

A square is a sum of products that doubles hold exactly, so squares are summed as doubles are; firings are rounded one by one.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from jobs.engines.accumulators.variances import DecimalVariance, DoubleVariance, IntegerVariance
from jobs.engines.columnar.aggregates.exact_doubles import ColumnarDouble
from jobs.engines.columnar.aggregates.exact_integers import ColumnarDecimal, ColumnarInteger
from jobs.engines.columnar.aggregates.limb_columns import pack_limbs, unpack_limbs
from jobs.engines.columnar.aggregates.protocol import ColumnarAggregate, Columns, Parts
from windowing.columnar import limbs
from windowing.columnar.columns import Longs
from windowing.columnar.groups import Groups

Scalar = IntegerVariance | DecimalVariance | DoubleVariance
_FAR = 17  # limbs by which very great and very small doubles are moved before they are squared
_GREAT, _SMALL = 2.0**512, 2.0**-448


class ColumnarVariance:
    """Accumulator: that of the sum, its count last, before it the squares in limbs of 2^(32 base - 1074)."""

    def __init__(self, column: str, scalar: Scalar) -> None:
        self._column = column
        self._scalar = scalar
        self._sum: ColumnarAggregate
        if isinstance(scalar, DecimalVariance):
            self._sum = ColumnarDecimal(column, is_mean=False, scale=scalar.scale)
        else:
            self._sum = (ColumnarInteger if isinstance(scalar, IntegerVariance) else ColumnarDouble)(column, is_mean=False)
        *sums, count = self._sum.columns
        self.columns: Parts = (*sums, ("squares", pa.binary()), count)

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        column = rows.column(self._column)
        codes, values = groups.codes[np.asarray(column.is_valid())], column.drop_null()
        squares = self._squares(values)
        shared = min(base for _, base, _ in squares)
        width = max(base - shared + numbers.shape[1] for numbers, base, _ in squares)
        wide = np.zeros((sum(len(numbers) for numbers, _, _ in squares), width), np.int64)
        owners, first = np.empty(len(wide), np.int64), 0
        for numbers, base, at in squares:
            wide[first : first + len(numbers), base - shared : base - shared + numbers.shape[1]] = numbers
            owners[first : first + len(numbers)] = codes[at]
            first += len(numbers)
        return self._with(self._sum.partial(rows, groups), limbs.sum_limbs(wide, Groups(owners, groups.size)), shared)

    def _squares(self, values: pa.ChunkedArray) -> list[tuple[Longs, int, Longs]]:
        """Limbs and base of numbers whose sum is that of the squares, and the position in `values` of the value that each comes from."""
        if isinstance(self._scalar, IntegerVariance):
            return [_sum_terms(_terms_of_longs(values.cast(pa.int64()).to_numpy()), 0, np.arange(len(values)))]
        if isinstance(self._scalar, DecimalVariance):
            squared = [self._scalar.add((0, 0, 0), value)[2] << limbs.UNIT_BITS for value in values.to_pylist()]
            return [(limbs.of_integers(squared), 0, np.arange(len(squared)))]
        numbers = values.cast(pa.float64()).to_numpy()
        sizes = np.abs(numbers)
        is_great, is_small = np.isfinite(sizes) & (sizes >= _GREAT), (sizes < _SMALL) & (sizes > 0)
        found = []
        for chosen, places in ((is_great, -_FAR), (is_small, _FAR), (np.isfinite(sizes) & ~is_great & ~is_small, 0)):
            at = np.flatnonzero(chosen)
            found.append(_sum_terms(_terms_of_doubles(np.ldexp(numbers[at], limbs.BITS * places)), -2 * places, at))
        return found

    def _with(self, sums: Columns, squares: Longs, base: int) -> Columns:
        *others, count = sums
        return [*others, pack_limbs(squares, base), count]

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        numbers, base = unpack_limbs(accumulators[-2])
        return self._with(self._sum.combine(_sums(accumulators), groups), limbs.sum_limbs(numbers, groups), base)

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        numbers, base = unpack_limbs(accumulators[-2])
        return self._with(self._sum.running(_sums(accumulators), starts), limbs.running_limbs(numbers, starts), base)

    def results(self, accumulators: Columns) -> pa.Array:
        return pa.array([self._scalar.result(accumulator) for accumulator in self._decoded(accumulators)], pa.float64())

    def encode(self, accumulators: Columns) -> Columns:
        parts = [self._scalar.encode(accumulator) for accumulator in self._decoded(accumulators)]
        columns = list(zip(*parts, strict=True)) or [()] * len(self._scalar.parts)
        return [pa.array(values, kind) for values, (_, kind) in zip(columns, self._scalar.parts, strict=True)]

    def _decoded(self, accumulators: Columns) -> list[Any]:
        """The accumulators of the scalar aggregate."""
        sums = zip(*(part.to_pylist() for part in self._sum.encode(_sums(accumulators))), strict=True)
        numbers, base = unpack_limbs(accumulators[-2])
        shift = limbs.BITS * base - limbs.UNIT_BITS + self._unit_bits
        squares = (total << shift if shift >= 0 else total >> -shift for total in limbs.to_integers(numbers))
        return [self._scalar.of_sums(parts, total) for parts, total in zip(sums, squares, strict=True)]

    @property
    def _unit_bits(self) -> int:
        """The unit of the scalar aggregate's squares is 2^-bits."""
        return 2 * limbs.UNIT_BITS if isinstance(self._scalar, DoubleVariance) else 0

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        count = parts[-1]
        squares = [self._scalar.squares_of(data) for data in parts[-2].to_pylist()]
        # The limbs' unit is a multiple of 2^-1074 by whole limbs, so a unit of 2^-2148 is 34 limbs below with 14 bits to spare.
        below = -(-(self._unit_bits - limbs.UNIT_BITS) // limbs.BITS)
        shift = limbs.UNIT_BITS - self._unit_bits + limbs.BITS * below
        return self._with(self._sum.decode([*parts[:-3], count]), limbs.of_integers([total << shift for total in squares]), -below)


def _sums(accumulators: Columns) -> Columns:
    return [*accumulators[:-2], accumulators[-1]]


def _sum_terms(terms: list[np.ndarray], places: int, at: Longs) -> tuple[Longs, int, Longs]:
    numbers, base = limbs.of_doubles(np.concatenate(terms))
    return numbers, base + places, np.tile(at, len(terms))


def _terms_of_longs(values: Longs) -> list[np.ndarray]:
    """Doubles whose sum is the square of each integer: products of its three digits of 22 bits, the last one signed."""
    mask, digit = (1 << 22) - 1, 2.0**22
    low, middle, high = values & mask, values >> 22 & mask, values >> 44
    products = (low * low, 2 * low * middle, 2 * low * high + middle * middle, 2 * middle * high, high * high)
    return [product.astype(np.float64) * digit**place for place, product in enumerate(products)]


def _terms_of_doubles(values: np.ndarray) -> list[np.ndarray]:
    """Doubles whose sum is the square of each double: products of its two halves of 26 bits (Veltkamp 1968)."""
    scaled = values * (2.0**27 + 1)
    high = scaled - (scaled - values)
    low = values - high
    return [high * high, 2 * high * low, low * low]
