"""Sums and means of integer and decimal columns, exact: each sum is two or three signed digits of 64 bits, of which most are zero.

Doubles have another file.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.engines.accumulators.sums import DecimalSum, IntegerSum
from jobs.engines.columnar.aggregates.counts import count_values, running_sum
from jobs.engines.columnar.aggregates.protocol import Columns, OverflowAtRow, Parts
from windowing.columnar import limbs
from windowing.columnar.columns import Longs
from windowing.columnar.groups import Groups, sum_of_groups

_LONG = 1 << 63
_DOUBLE = 1 << 53


class _ExactSumming(ABC):
    """Accumulator: the digits of the sum, lowest first, and how many values are in it. Subclasses say how values become digits."""

    digits: int

    def __init__(self, column: str, is_mean: bool) -> None:
        self._column = column
        self._is_mean = is_mean
        self.columns: Parts = (*((f"digit_{place}", pa.int64()) for place in range(self.digits)), ("count", pa.int64()))

    @abstractmethod
    def _digits_of(self, values: pa.Array) -> list[Longs]:
        """The digits of values without nulls; highest ones that are all zero may be left out."""

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        column = rows.column(self._column)
        counts = count_values(column, groups)
        if column.null_count:
            groups = Groups(groups.codes[np.asarray(column.is_valid())], groups.size)
            column = column.drop_null()
        values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        return self._columns(self._sum(self._digits_of(values), groups), counts)

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        digits, counts = self._numbers(accumulators)
        return self._columns(self._sum(digits, groups), sum_of_groups(counts, groups))

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        digits, counts = self._numbers(accumulators)
        if _fits(digits):
            sums = [running_sum(digits[0], starts), *digits[1:]]
        else:
            sums = limbs.to_digits(limbs.running_limbs(limbs.of_digits(digits), starts), self.digits)
        return self._columns(sums, running_sum(counts, starts))

    def _sum(self, digits: list[Longs], groups: Groups) -> list[Longs]:
        if _fits(digits):
            return [sum_of_groups(digits[0], groups), *(np.zeros(groups.size, np.int64) for _ in range(self.digits - 1))]
        return limbs.to_digits(limbs.sum_limbs(limbs.of_digits(digits), groups), self.digits)

    def _numbers(self, accumulators: Columns) -> tuple[list[Longs], Longs]:
        arrays = [array.to_numpy() for array in accumulators]
        return arrays[:-1], arrays[-1]

    def _columns(self, digits: list[Longs], counts: Longs) -> Columns:
        return [pa.array(numbers) for numbers in (*digits, counts)]


def _fits(digits: list[Longs]) -> bool:
    """Whether every sum of some of these integers has one digit."""
    lowest = digits[0]
    if not len(lowest):
        return True
    most = max(-int(lowest.min()), int(lowest.max()))
    return most * len(lowest) < _LONG and not any(digit.any() for digit in digits[1:])


def _where(values: pa.Array, counts: Longs) -> pa.Array:
    """`values`, null where nothing was counted."""
    return pc.if_else(pa.array(counts > 0), values, pa.scalar(None, values.type))


class ColumnarInteger(_ExactSumming):
    """Sum or mean of an integer column."""

    digits = 2

    def _digits_of(self, values: pa.Array) -> list[Longs]:
        return [values.cast(pa.int64()).to_numpy()]

    def results(self, accumulators: Columns) -> pa.Array:
        (low, high), counts = self._numbers(accumulators)
        if self._is_mean:
            return _where(pa.array(self._means(low, high, counts)), counts)
        if high.any():
            row = int(np.flatnonzero(high)[0])
            try:
                IntegerSum().result((int(counts[row]), int(low[row]) + (int(high[row]) << 64)))
            except ArithmeticError as error:
                raise OverflowAtRow(row, error) from error
        return _where(pa.array(low), counts)

    def _means(self, low: Longs, high: Longs, counts: Longs) -> Any:
        divisors = np.maximum(counts, 1)
        if not high.any() and (not len(low) or (int(low.max()) < _DOUBLE and int(low.min()) > -_DOUBLE)):
            return low / divisors
        return limbs.to_doubles(limbs.of_digits([low, high]), 0, divisors)

    def encode(self, accumulators: Columns) -> Columns:
        (low, high), _ = self._numbers(accumulators)
        words = np.stack([low, high - (low < 0)], axis=1)
        return [pa.Array.from_buffers(pa.decimal128(38, 0), len(words), [None, pa.py_buffer(words)]), accumulators[-1]]

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        low, high = decimal_digits(parts[0])
        return self._columns([low, high], parts[1].to_numpy())


def decimal_digits(decimals: pa.Array) -> tuple[Longs, Longs]:
    """The two digits of each decimal128 in units of its last place; of a null they mean nothing."""
    words = np.frombuffer(decimals.buffers()[1], np.int64)[2 * decimals.offset : 2 * (decimals.offset + len(decimals))].reshape(-1, 2)
    low = np.ascontiguousarray(words[:, 0])
    return low, words[:, 1] + (low < 0)


class ColumnarDecimal(_ExactSumming):
    """Sum or mean of a decimal column: integers of its last digit."""

    digits = 3

    def __init__(self, column: str, is_mean: bool, scale: int) -> None:
        super().__init__(column, is_mean)
        self._scale = scale
        self._scalar = DecimalSum(scale)

    def _digits_of(self, values: pa.Array) -> list[Longs]:
        low, high = decimal_digits(values.cast(pa.decimal128(38, self._scale)))
        return [low, high]

    def results(self, accumulators: Columns) -> pa.Array:
        totals, counts = self._totals(accumulators)
        if self._is_mean:
            unit = 10**self._scale
            return pa.array([total / (count * unit) if count else None for total, count in zip(totals, counts, strict=True)], pa.float64())
        results = []
        for row, accumulator in enumerate(zip(counts, totals, strict=True)):
            try:
                results.append(self._scalar.result(accumulator))
            except ArithmeticError as error:
                raise OverflowAtRow(row, error) from error
        return pa.array(results, self._scalar.result_type)

    def encode(self, accumulators: Columns) -> Columns:
        totals, counts = self._totals(accumulators)
        parts = [self._scalar.encode(accumulator) for accumulator in zip(counts, totals, strict=True)]
        columns = list(zip(*parts, strict=True)) or [(), (), ()]
        return [pa.array(values, kind) for values, (_, kind) in zip(columns, self._scalar.parts, strict=True)]

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        rows = zip(*(part.to_pylist() for part in parts), strict=True)
        decoded = [self._scalar.decode(row) for row in rows]
        if not decoded:
            return self._columns([np.zeros(0, np.int64)] * self.digits, np.zeros(0, np.int64))
        totals = limbs.of_integers([total for _, total in decoded])
        return self._columns(limbs.to_digits(totals, self.digits), np.array([count for count, _ in decoded], np.int64))

    def _totals(self, accumulators: Columns) -> tuple[list[int], list[int]]:
        digits, counts = self._numbers(accumulators)
        return limbs.to_integers(limbs.of_digits(digits)), counts.tolist()
