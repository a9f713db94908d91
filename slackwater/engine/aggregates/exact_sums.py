"""Sums of doubles that do not depend on the order of their terms.

Every finite double is an integer multiple of 2**-1074, so a sum is one Python integer in that unit, which is
rounded once, when it is read:

    0.1 + 0.2 + -0.3   as doubles, left to right   5.551115123125783e-17
                       as doubles, right to left   2.7755575615628914e-17
                       as an exact sum             2.7755575615628914e-17   in any order
"""

import math
from typing import NamedTuple

UNIT_BITS = 1074  # the least positive double is 2**-1074
_NAN, _POSITIVE_INFINITY, _NEGATIVE_INFINITY = 1, 2, 4


class ExactSum(NamedTuple):
    """A sum of doubles: Σx of the finite terms in units of 2**-1074, and the special values among them as
    bits: NaN 1, +inf 2, -inf 4.
    """

    units: int
    specials: int


ZERO = ExactSum(0, 0)


def add(total: ExactSum, x: float) -> ExactSum:
    if math.isfinite(x):
        numerator, denominator = x.as_integer_ratio()
        return ExactSum(
            total.units + (numerator << (UNIT_BITS + 1 - denominator.bit_length())), total.specials
        )
    if math.isnan(x):
        return ExactSum(total.units, total.specials | _NAN)
    return ExactSum(total.units, total.specials | (_POSITIVE_INFINITY if x > 0 else _NEGATIVE_INFINITY))


def merge(a: ExactSum, b: ExactSum) -> ExactSum:
    return ExactSum(a.units + b.units, a.specials | b.specials)


def round_sum(total: ExactSum, divisor: int = 1) -> float:
    """`total` / `divisor` as the nearest double; ties to even, overflow ±inf, inf + -inf NaN, never -0.0."""
    if total.specials & _NAN or (total.specials & _POSITIVE_INFINITY and total.specials & _NEGATIVE_INFINITY):
        return math.nan
    if total.specials:
        return math.inf if total.specials & _POSITIVE_INFINITY else -math.inf
    return quotient(total.units, divisor << UNIT_BITS)


def quotient(dividend: int, divisor: int) -> float:
    """The nearest double (ties to even); an overflow is ±inf, and no zero is negative."""
    try:
        return dividend / divisor + 0.0
    except OverflowError:
        return math.inf if dividend > 0 else -math.inf


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


def encode(total: ExactSum) -> bytes:
    """Canonical bytes: one byte of specials, two (big-endian) with the number of trailing zero bits, then the
    number without these, big-endian, in the shortest two's complement.
    """
    units = total.units
    zeros = (units & -units).bit_length() - 1 if units else 0
    odd_part = units >> zeros
    return (
        bytes([total.specials])
        + zeros.to_bytes(2, "big")
        + odd_part.to_bytes(odd_part.bit_length() // 8 + 1, "big", signed=True)
    )


def decode(data: bytes) -> ExactSum:
    return ExactSum(int.from_bytes(data[3:], "big", signed=True) << int.from_bytes(data[1:3], "big"), data[0])
