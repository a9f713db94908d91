"""Sums of doubles that do not depend on the order of their terms.

A finite double is an integer multiple of 2**-1074, so a sum is kept as one Python integer in that unit and
rounded once, when it is read.
"""

import math
from typing import NamedTuple

UNIT_BITS = 1074  # the least positive double is 2**-1074
_NAN, _POSITIVE_INFINITY, _NEGATIVE_INFINITY = 1, 2, 4


class ExactSum(NamedTuple):
    """Σx in units of 2**-1074, and which special values were among the terms (bits: NaN 1, +inf 2, -inf
    4).
    """

    scaled: int
    specials: int


ZERO = ExactSum(0, 0)


def add(total: ExactSum, x: float) -> ExactSum:
    """`total` + `x`, exactly."""
    if math.isfinite(x):
        numerator, denominator = x.as_integer_ratio()
        return ExactSum(
            total.scaled + (numerator << (UNIT_BITS + 1 - denominator.bit_length())), total.specials
        )
    if math.isnan(x):
        return ExactSum(total.scaled, total.specials | _NAN)
    return ExactSum(total.scaled, total.specials | (_POSITIVE_INFINITY if x > 0 else _NEGATIVE_INFINITY))


def merge(a: ExactSum, b: ExactSum) -> ExactSum:
    """The sum of both sets of terms."""
    return ExactSum(a.scaled + b.scaled, a.specials | b.specials)


def rounded(total: ExactSum, divisor: int = 1) -> float:
    """`total` / `divisor` as the nearest double (ties to even); an overflow is ±inf, NaN or inf + -inf is
    NaN, and no zero is negative.
    """
    if total.specials & _NAN or (total.specials & _POSITIVE_INFINITY and total.specials & _NEGATIVE_INFINITY):
        return math.nan
    if total.specials:
        return math.inf if total.specials & _POSITIVE_INFINITY else -math.inf
    return quotient(total.scaled, divisor << UNIT_BITS)


def quotient(divided: int, divisor: int) -> float:
    """`divided` / `divisor` (positive) as the nearest double (ties to even); an overflow is ±inf, and no zero
    is negative.
    """
    try:
        return divided / divisor + 0.0
    except OverflowError:
        return math.inf if divided > 0 else -math.inf


def root(divided: int, divisor: int) -> float:
    """√(`divided` / `divisor`), of numbers not negative, as the nearest double; it can't overflow where both
    come from doubles.

    The integer root of the quotient, with more bits than a double has and a last bit that says whether it is
    inexact, rounds as the root.
    """
    if divided == 0:
        return 0.0
    bits = max(0, 66 - (divided.bit_length() - divisor.bit_length()) // 2)
    quotient, remainder = divmod(divided << (2 * bits), divisor)
    floor = math.isqrt(quotient)
    inexact = remainder != 0 or floor * floor != quotient
    return (2 * floor + inexact) / (1 << (bits + 1))


def encode(total: ExactSum) -> bytes:
    """Canonical bytes: one of specials, two (big-endian) of trailing zero bits, then the odd rest, as short
    as two's complement can be.
    """
    scaled = total.scaled
    zeros = (scaled & -scaled).bit_length() - 1 if scaled else 0
    odd_part = scaled >> zeros
    return (
        bytes([total.specials])
        + zeros.to_bytes(2, "big")
        + odd_part.to_bytes(odd_part.bit_length() // 8 + 1, "big", signed=True)
    )


def decode(data: bytes) -> ExactSum:
    """The inverse of `encode`."""
    return ExactSum(int.from_bytes(data[3:], "big", signed=True) << int.from_bytes(data[1:3], "big"), data[0])
