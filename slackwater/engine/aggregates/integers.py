"""`sum` and `mean` of integers and decimals: exact, and checked against the range of the result type when a
window fires.

Each sum is two or three signed digits of 64 bits; in most sums all but the lowest are zero.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.aggregates.bound_aggregate import Columns, OverflowAtRow, Parts, ResultOverflow
from slackwater.engine.aggregates.count import count_values, running_sum
from slackwater.engine.aggregates.limb_columns import decode_integers, encode_integers
from slackwater.windowing.columnar.arrays import limbs
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups, bounds_of, sum_of_groups

WIDE = pa.decimal128(38, 0)
_TOO_WIDE = 10**38
_LONG = 1 << 63
_DOUBLE = 1 << 53


class _DigitSums(ABC):
    """Accumulator: the digits of the sum, lowest first, and the count. Subclasses turn values into digits."""

    digits: int

    def __init__(self, column: str, is_mean: bool) -> None:
        self._column = column
        self._is_mean = is_mean
        self.columns: Parts = (
            *((f"digit_{place}", pa.int64()) for place in range(self.digits)),
            ("count", pa.int64()),
        )

    @abstractmethod
    def _digits_of(self, values: pa.Array) -> list[Longs]:
        """The digits of values without nulls; leading digits that are zero in all of them may be left out."""

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

    def adds_up(self, accumulators: Columns) -> bool:
        """Whether every sum of some of the rows has one digit."""
        digits, _ = self._numbers(accumulators)
        return _fits(digits, bounds_of(digits[0]))

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        digits, counts = self._numbers(accumulators)
        if _fits(digits, bounds_of(digits[0])):
            sums = [running_sum(digits[0], starts), *digits[1:]]
        else:
            sums = limbs.to_digits(limbs.running_limbs(limbs.from_digits(digits), starts), self.digits)
        return self._columns(sums, running_sum(counts, starts))

    def _sum(self, digits: list[Longs], groups: Groups) -> list[Longs]:
        bounds = bounds_of(digits[0])
        if _fits(digits, bounds):
            return [
                sum_of_groups(digits[0], groups, bounds),
                *(np.zeros(groups.size, np.int64) for _ in range(self.digits - 1)),
            ]
        return limbs.to_digits(limbs.sum_limbs(limbs.from_digits(digits), groups), self.digits)

    def _numbers(self, accumulators: Columns) -> tuple[list[Longs], Longs]:
        arrays = [array.to_numpy() for array in accumulators]
        return arrays[:-1], arrays[-1]

    def _columns(self, digits: list[Longs], counts: Longs) -> Columns:
        return [pa.array(numbers) for numbers in (*digits, counts)]


def _fits(digits: list[Longs], bounds: tuple[int, int]) -> bool:
    """Whether every sum of some of these integers, whose lowest digits have these bounds, has one digit."""
    least, greatest = bounds
    return max(-least, greatest) * len(digits[0]) < _LONG and not any(digit.any() for digit in digits[1:])


def _where(values: pa.Array, counts: Longs) -> pa.Array:
    return pc.if_else(pa.array(counts > 0), values, pa.scalar(None, values.type))


class IntegerSum(_DigitSums):
    """Sum of an integer column as bigint, or its mean; parked as a decimal(38, 0), which has 128 bits, and
    the count.
    """

    digits = 2
    parts: Parts = (("sum", WIDE), ("count", pa.int64()))

    def __init__(self, column: str, is_mean: bool) -> None:
        super().__init__(column, is_mean)
        self.result_type = pa.float64() if is_mean else pa.int64()

    def _digits_of(self, values: pa.Array) -> list[Longs]:
        return [values.cast(pa.int64()).to_numpy()]

    def results(self, accumulators: Columns) -> pa.Array:
        (low, high), counts = self._numbers(accumulators)
        if self._is_mean:
            return _where(pa.array(self._means(low, high, counts)), counts)
        if high.any():
            row = int(np.flatnonzero(high)[0])
            total = _integer([low, high], row)
            raise OverflowAtRow(
                row, ResultOverflow(f"the sum {total} does not fit bigint; sum a decimal column instead")
            )
        return _where(pa.array(low), counts)

    def _means(self, low: Longs, high: Longs, counts: Longs) -> Any:
        divisors = np.maximum(counts, 1)
        if not high.any() and (not len(low) or (int(low.max()) < _DOUBLE and int(low.min()) > -_DOUBLE)):
            return low / divisors
        return limbs.to_doubles(limbs.from_digits([low, high]), 0, [divisors])

    def encode(self, accumulators: Columns) -> Columns:
        digits, _ = self._numbers(accumulators)
        return [_decimals(digits, 0), accumulators[-1]]

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        low, high = decimal_digits(parts[0])
        return self._columns([low, high], parts[1].to_numpy())


def decimal_digits(decimals: pa.Array) -> tuple[Longs, Longs]:
    """The two digits of each decimal128 in units of its last place; arbitrary for a null."""
    words = np.frombuffer(decimals.buffers()[1], np.int64)[
        2 * decimals.offset : 2 * (decimals.offset + len(decimals))
    ].reshape(-1, 2)
    low = np.ascontiguousarray(words[:, 0])
    return low, words[:, 1] + (low < 0)


class DecimalSum(_DigitSums):
    """Sum of a decimal column as decimal(38, scale), or its mean, from integers of its last digit; parked as
    a readable decimal, which is null while the sum has more than 38 digits, the sum in binary, and the count.
    """

    digits = 3

    def __init__(self, column: str, is_mean: bool, scale: int) -> None:
        super().__init__(column, is_mean)
        self._scale = scale
        self._readable_type = pa.decimal128(38, scale)
        self.parts: Parts = (("sum", self._readable_type), ("sum_exact", pa.binary()), ("count", pa.int64()))
        self.result_type = pa.float64() if is_mean else self._readable_type

    def _digits_of(self, values: pa.Array) -> list[Longs]:
        low, high = decimal_digits(values.cast(pa.decimal128(38, self._scale)))
        return [low, high]

    def results(self, accumulators: Columns) -> pa.Array:
        digits, counts = self._numbers(accumulators)
        if self._is_mean:
            divisors: list[Longs | int] = [np.maximum(counts, 1), *powers_of_ten(self._scale)]
            return _where(pa.array(limbs.to_doubles(limbs.from_digits(digits), 0, divisors)), counts)
        for row in _wide_rows(digits):
            error = ResultOverflow(
                f"the sum has more than 38 digits and does not fit decimal(38, {self._scale}); "
                "select its mean, or sum a float column instead"
            )
            raise OverflowAtRow(row, error)
        return _where(_decimals(digits, self._scale), counts)

    def encode(self, accumulators: Columns) -> Columns:
        digits, _ = self._numbers(accumulators)
        is_wide = np.zeros(len(digits[0]), np.bool_)
        is_wide[_wide_rows(digits)] = True
        readable = pc.if_else(
            pa.array(is_wide), pa.scalar(None, self._readable_type), _decimals(digits, self._scale)
        )
        return [readable, encode_integers(limbs.from_digits(digits)), accumulators[-1]]

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return self._columns(limbs.to_digits(decode_integers(parts[1]), self.digits), parts[2].to_numpy())


def powers_of_ten(exponent: int) -> list[int]:
    """Divisors with the product 10^exponent, none of more than 31 bits."""
    return [10 ** min(9, exponent - place) for place in range(0, exponent, 9)]


def _decimals(digits: list[Longs], scale: int) -> pa.Array:
    low, high = digits[:2]
    words = np.stack([low, high - (low < 0)], axis=1)
    return pa.Array.from_buffers(pa.decimal128(38, scale), len(words), [None, pa.py_buffer(words)])


def _wide_rows(digits: list[Longs]) -> list[int]:
    """The rows whose sums have more than 38 decimal digits, ascending."""
    limit = _TOO_WIDE >> 64
    candidates = np.flatnonzero((digits[1] >= limit) | (digits[1] <= -limit) | (digits[2] != 0))
    return [row for row in candidates.tolist() if abs(_integer(digits, row)) >= _TOO_WIDE]


def _integer(digits: list[Longs], row: int) -> int:
    return sum(int(digit[row]) << (64 * place) for place, digit in enumerate(digits))
