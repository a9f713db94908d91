"""Counts, sums and means. Sums are exact, whatever the order of their terms, and are rounded once, at a
firing.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines import exact_sums
from slackwater.jobs.engines.accumulators.accumulator import OneByOne, Part, ResultOverflow, Starts

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
WIDE = pa.decimal128(38, 0)
_TOO_WIDE = 10**38


class Count:
    """Elements, or non-null values of a column."""

    parts: tuple[Part, ...] = (("count", pa.int64()),)
    result_type = pa.int64()

    def create(self) -> int:
        return 0

    def add(self, accumulator: int, value: Any) -> int:
        return accumulator + 1

    def add_all(self, accumulator: int, values: Sequence[Any]) -> int:
        return accumulator + len(values)

    def totals(self, column: pa.ChunkedArray | None, starts: Starts) -> list[int]:
        return np.diff(starts).tolist()

    def merge(self, a: int, b: int) -> int:
        return a + b

    def result(self, accumulator: int) -> int:
        return accumulator

    def encode(self, accumulator: int) -> tuple[int]:
        return (accumulator,)

    def decode(self, parts: Sequence[Any]) -> int:
        return int(parts[0])


class _Summing(OneByOne):
    """Sum and count of values; subclasses say how a sum is held and read. Accumulator: (count, sum)."""

    zero: Any

    def create(self) -> tuple[int, Any]:
        return (0, self.zero)

    def add(self, accumulator: tuple[int, Any], value: Any) -> tuple[int, Any]:
        return (accumulator[0] + 1, accumulator[1] + value)

    def merge(self, a: tuple[int, Any], b: tuple[int, Any]) -> tuple[int, Any]:
        return (a[0] + b[0], a[1] + b[1])


class _IntegerSumming(_Summing):
    """Integers in 128 bits: a decimal(38, 0) column beside the count."""

    zero = 0
    parts: tuple[Part, ...] = (("sum", WIDE), ("count", pa.int64()))

    def add_all(self, accumulator: tuple[int, int], values: Sequence[int]) -> tuple[int, int]:
        return (accumulator[0] + len(values), accumulator[1] + sum(values))

    def totals(self, column: pa.ChunkedArray | None, starts: Starts) -> list[tuple[int, int]] | None:
        if column is None or not len(column) or pa.types.is_uint64(column.type):
            return None
        values, counts = column.cast(pa.int64()).to_numpy(), np.diff(starts)
        if max(abs(int(values.min())), abs(int(values.max()))) * int(counts.max()) > LONG_MAX:
            return None
        return list(zip(counts.tolist(), np.add.reduceat(values, starts[:-1]).tolist(), strict=True))

    def encode(self, accumulator: tuple[int, int]) -> tuple[Decimal, int]:
        return (Decimal(accumulator[1]), accumulator[0])

    def decode(self, parts: Sequence[Any]) -> tuple[int, int]:
        return (int(parts[1]), int(parts[0]))


class IntegerSum(_IntegerSumming):
    """Sum of an integer column as bigint, checked at a firing."""

    result_type = pa.int64()

    def result(self, accumulator: tuple[int, int]) -> int | None:
        count, total = accumulator
        if not LONG_MIN <= total <= LONG_MAX:
            raise ResultOverflow(f"the sum {total} does not fit bigint; sum a decimal column instead")
        return total if count else None


class IntegerMean(_IntegerSumming):
    """Mean of an integer column: the exact quotient, rounded once."""

    result_type = pa.float64()

    def result(self, accumulator: tuple[int, int]) -> float | None:
        count, total = accumulator
        return total / count if count else None


class _DoubleSumming(_Summing):
    """Doubles as an exact sum: a binary column beside a readable double and the count."""

    zero = exact_sums.ZERO
    parts: tuple[Part, ...] = (("sum", pa.float64()), ("sum_exact", pa.binary()), ("count", pa.int64()))

    def add(self, accumulator: tuple[int, Any], value: float) -> tuple[int, Any]:
        return (accumulator[0] + 1, exact_sums.add(accumulator[1], value))

    def merge(self, a: tuple[int, Any], b: tuple[int, Any]) -> tuple[int, Any]:
        return (a[0] + b[0], exact_sums.merge(a[1], b[1]))

    def encode(self, accumulator: tuple[int, Any]) -> tuple[float, bytes, int]:
        count, total = accumulator
        return (exact_sums.rounded(total), exact_sums.encode(total), count)

    def decode(self, parts: Sequence[Any]) -> tuple[int, Any]:
        return (int(parts[2]), exact_sums.decode(parts[1]))


class DoubleSum(_DoubleSumming):
    """Sum of a float column, rounded once at a firing."""

    result_type = pa.float64()

    def result(self, accumulator: tuple[int, Any]) -> float | None:
        return exact_sums.rounded(accumulator[1]) if accumulator[0] else None


class DoubleMean(_DoubleSumming):
    """Mean of a float column: the exact quotient, rounded once."""

    result_type = pa.float64()

    def result(self, accumulator: tuple[int, Any]) -> float | None:
        return exact_sums.rounded(accumulator[1], accumulator[0]) if accumulator[0] else None


class _DecimalSumming(_Summing):
    """Decimals of one scale, summed as integers of their last digit: a binary column beside a readable
    decimal and the count.

    The readable one is null while the sum has more than 38 digits, which later terms may undo.
    """

    zero = 0

    def __init__(self, scale: int) -> None:
        self.scale = scale
        self.parts: tuple[Part, ...] = (
            ("sum", pa.decimal128(38, scale)),
            ("sum_exact", pa.binary()),
            ("count", pa.int64()),
        )

    def add(self, accumulator: tuple[int, int], value: Decimal) -> tuple[int, int]:
        return (accumulator[0] + 1, accumulator[1] + unscaled(value, self.scale))

    def encode(self, accumulator: tuple[int, int]) -> tuple[Decimal | None, bytes, int]:
        count, total = accumulator
        exact = total.to_bytes(total.bit_length() // 8 + 1, "big", signed=True)
        return (scaled(total, self.scale) if abs(total) < _TOO_WIDE else None, exact, count)

    def decode(self, parts: Sequence[Any]) -> tuple[int, int]:
        return (int(parts[2]), int.from_bytes(parts[1], "big", signed=True))


class DecimalSum(_DecimalSumming):
    """Sum of a decimal column as decimal(38, scale), checked at a firing."""

    def __init__(self, scale: int) -> None:
        super().__init__(scale)
        self.result_type = pa.decimal128(38, scale)

    def result(self, accumulator: tuple[int, int]) -> Decimal | None:
        count, total = accumulator
        if abs(total) >= _TOO_WIDE:
            raise ResultOverflow(
                f"the sum has more than 38 digits and does not fit decimal(38, {self.scale})"
            )
        return scaled(total, self.scale) if count else None


class DecimalMean(_DecimalSumming):
    """Mean of a decimal column as a double, rounded once."""

    result_type = pa.float64()

    def result(self, accumulator: tuple[int, int]) -> float | None:
        count, total = accumulator
        return total / (count * 10**self.scale) if count else None


def unscaled(value: Decimal, scale: int) -> int:
    """`value` in units of its last digit; free of decimal contexts, which round at 28 digits."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits))) * 10 ** (exponent + scale)
    return -number if sign else number


def scaled(number: int, scale: int) -> Decimal:
    """The inverse of `unscaled`."""
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))
