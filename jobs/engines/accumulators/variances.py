"""Sample variance and standard deviation: exact Σx and Σx² until a firing, which rounds once.

Over n values the variance is (n·Σx² − (Σx)²) / (n·(n − 1)), a quotient of integers here; null for n < 2.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from slackwater.jobs.engines import exact_sums
from slackwater.jobs.engines.accumulators.accumulator import OneByOne, Part
from slackwater.jobs.engines.accumulators.sums import WIDE, DecimalSum, unscaled
from slackwater.jobs.engines.exact_sums import UNIT_BITS, ExactSum

Moments = tuple[int, int, int]
_MOMENT_PARTS: tuple[Part, ...] = (
    ("squares", pa.float64()),
    ("squares_exact", pa.binary()),
    ("count", pa.int64()),
)


class _Variance(OneByOne, ABC):
    """Subclasses say in which unit values are summed. Accumulator: (count, Σx, Σx²) in units `1 / units` and
    its square.

    Args:
        is_root: the standard deviation is wanted.
    """

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
        divided, divisor = count * squares - total * total, count * (count - 1) * self.units * self.units
        return exact_sums.root(divided, divisor) if self._is_root else exact_sums.quotient(divided, divisor)

    def decode(self, parts: Sequence[Any]) -> Any:
        return self.of_sums([*parts[:-3], parts[-1]], self.squares_of(parts[-2]))

    @abstractmethod
    def of_sums(self, sums: Sequence[Any], squares: int) -> Any:
        """The accumulator from the parts of a sum of the same column, and Σx²."""

    def squares_of(self, data: bytes) -> int:
        """Σx² from its binary part."""
        return exact_sums.decode(data).scaled

    def _encode_squares(self, squares: int) -> tuple[float, bytes]:
        return exact_sums.quotient(squares, self.units * self.units), exact_sums.encode(ExactSum(squares, 0))


class IntegerVariance(_Variance):
    """Of an integer column: Σx in 128 bits; Σx² may need more, so it is binary beside a readable double."""

    units = 1
    parts = (("sum", WIDE), *_MOMENT_PARTS)

    def add(self, accumulator: Moments, value: int) -> Moments:
        return (accumulator[0] + 1, accumulator[1] + value, accumulator[2] + value * value)

    def encode(self, accumulator: Moments) -> tuple[Decimal, float, bytes, int]:
        count, total, squares = accumulator
        return (Decimal(total), *self._encode_squares(squares), count)

    def of_sums(self, sums: Sequence[Any], squares: int) -> Moments:
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
        number = unscaled(value, self.scale)
        return (accumulator[0] + 1, accumulator[1] + number, accumulator[2] + number * number)

    def encode(self, accumulator: Moments) -> tuple[Any, ...]:
        count, total, squares = accumulator
        return (*self._sum.encode((count, total))[:-1], *self._encode_squares(squares), count)

    def of_sums(self, sums: Sequence[Any], squares: int) -> Moments:
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
        return (count + 1, grown, squares + (grown.scaled - total.scaled) ** 2)

    def merge(self, a: tuple[int, ExactSum, int], b: tuple[int, ExactSum, int]) -> tuple[int, ExactSum, int]:
        return (a[0] + b[0], exact_sums.merge(a[1], b[1]), a[2] + b[2])

    def result(self, accumulator: tuple[int, ExactSum, int]) -> float | None:
        count, total, squares = accumulator
        if total.specials:
            return math.nan if count > 1 else None
        return super().result((count, total.scaled, squares))

    def encode(self, accumulator: tuple[int, ExactSum, int]) -> tuple[float, bytes, float, bytes, int]:
        count, total, squares = accumulator
        return (exact_sums.rounded(total), exact_sums.encode(total), *self._encode_squares(squares), count)

    def of_sums(self, sums: Sequence[Any], squares: int) -> tuple[int, ExactSum, int]:
        return (int(sums[2]), exact_sums.decode(sums[1]), squares)
