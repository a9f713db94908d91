"""Exact sums on whole columns: integers of any width, and doubles, as columns of 32-bit limbs.

Row i of an array int64[n, k] is the integer Σ limb[i, j] · 2^(32 j). Normalised, all limbs but the last lie
in [0, 2^32), the last in [-2^31, 2^31).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import Groups, sum_of_groups

BITS: Final = 32
UNIT_BITS: Final = 1074  # the least positive double is 2^-1074, the unit of a double's limbs
_MASK: Final = (1 << BITS) - 1
_BYTES: Final = BITS // 8
_TINY: Final = 2.0**-1000  # quotients below might be rounded twice on their way to a subnormal double

Doubles = NDArray[np.float64]
Bytes = NDArray[np.uint8]


def from_longs(values: Longs) -> Longs:
    return np.stack([values & _MASK, values >> BITS], axis=1)


def from_doubles(values: Doubles) -> tuple[Longs, int]:
    """(limbs, base): finite doubles in units of 2^-1074 · 2^(32 base), negative ones with negative limbs."""
    fractions, exponents = np.frexp(np.abs(values))
    mantissas = (fractions * 2.0**53).astype(np.int64)
    shifts = exponents.astype(np.int64) - 53 + UNIT_BITS
    mantissas >>= np.maximum(-shifts, 0)  # subnormal numbers end in zeros
    shifts = np.where(mantissas == 0, 0, np.maximum(shifts, 0))
    places = shifts // BITS
    inside = shifts % BITS
    used_places = places[mantissas != 0]
    base = int(used_places.min()) if len(used_places) else 0
    width = (int(used_places.max()) if len(used_places) else 0) - base + 3
    low = (mantissas & _MASK) << inside
    high = ((mantissas >> BITS) << inside) + (low >> BITS)
    limbs = np.zeros((len(values), width), np.int64)
    rows = np.flatnonzero(mantissas)
    signs = np.where(values[rows] < 0, -1, 1)
    for number, limb in enumerate((low & _MASK, high & _MASK, high >> BITS)):
        limbs[rows, places[rows] - base + number] = limb[rows] * signs
    return limbs, base


def sum_limbs(limbs: Longs, groups: Groups) -> Longs:
    """The normalised sum of each group, for fewer than 2^31 rows of normalised limbs."""
    sums = np.empty((groups.size, limbs.shape[1]), np.int64)
    for column in range(limbs.shape[1]):
        sums[:, column] = sum_of_groups(limbs[:, column], groups)
    return normalise(sums)


def running_limbs(limbs: Longs, starts: Longs) -> Longs:
    """Normalised running sums inside each run of rows; run i begins at row starts[i], the first at row 0."""
    if not len(limbs):
        return limbs
    totals = np.cumsum(limbs, axis=0)  # totals may wrap; their differences are right all the same
    before = np.zeros((len(starts), limbs.shape[1]), np.int64)
    before[1:] = totals[starts[1:] - 1]
    return normalise(totals - np.repeat(before, np.diff(np.append(starts, len(limbs))), axis=0))


def normalise(limbs: Longs) -> Longs:
    """The same integers with normalised limbs, one more where the last overflows. Changes its argument."""
    for column in range(limbs.shape[1] - 1):
        limbs[:, column + 1] += limbs[:, column] >> BITS
        limbs[:, column] &= _MASK
    last = limbs[:, -1]
    if len(last) and (int(last.max()) >= 1 << (BITS - 1) or int(last.min()) < -(1 << (BITS - 1))):
        limbs = np.concatenate([limbs, (last >> BITS)[:, None]], axis=1)
        limbs[:, -2] &= _MASK
    return limbs


def square(limbs: Longs) -> Longs:
    return multiply(limbs, limbs)


def multiply(limbs: Longs, others: Longs) -> Longs:
    """The product of each row of two columns of integers."""
    signs = np.where((limbs[:, -1] < 0) == (others[:, -1] < 0), 1, -1)
    digits, dropped_columns = _magnitudes(limbs)
    other_digits, other_dropped_columns = _magnitudes(others)
    lead, width, other_width = dropped_columns + other_dropped_columns, digits.shape[1], other_digits.shape[1]
    products = np.zeros((len(limbs), lead + width + other_width + 1), np.int64)
    for one in range(width):
        for other in range(other_width):
            product = digits[:, one].astype(np.uint64) * other_digits[:, other].astype(np.uint64)
            place = lead + one + other
            products[:, place] += (product & np.uint64(_MASK)).astype(np.int64)
            products[:, place + 1] += (product >> np.uint64(BITS)).astype(np.int64)
    return normalise(products * signs[:, None])


def to_integers(limbs: Longs) -> list[int]:
    totals: Any = np.zeros(len(limbs), object)
    for column in range(limbs.shape[1] - 1, -1, -1):
        totals = (totals << BITS) + limbs[:, column].astype(object)
    return list(totals)


def to_doubles(limbs: Longs, exponent: int, divisors: Sequence[Longs | int] = ()) -> Doubles:
    """The double nearest to limbs · 2^exponent / divisors (ties to even): infinite beyond the greatest
    double, never negative zero. `limbs` are normalised; all `divisors` are from 1 to 2^31 - 1.
    """
    signs = np.where(limbs[:, -1] < 0, -1, 1)
    digits, dropped_columns = _magnitudes(limbs)
    exponent_of_digits = exponent + BITS * dropped_columns
    lead = 2 + len(divisors)  # digits behind the point, so that the quotient has 64 significant bits
    is_inexact = np.zeros(len(limbs), np.bool_)
    digits = np.concatenate([np.zeros((len(limbs), lead), np.int64), digits], axis=1)
    for divisor in divisors:
        digits, has_remainder = _divide(digits, divisor)
        is_inexact |= has_remainder
    doubles: Doubles = signs * _nearest(digits, exponent_of_digits - BITS * lead, is_inexact) + 0.0
    if divisors or exponent < -UNIT_BITS:
        for row in np.flatnonzero((np.abs(doubles) < _TINY) & (limbs != 0).any(axis=1)).tolist():
            dividend = to_integers(limbs[row : row + 1])[0] << max(exponent, 0)
            divisor = prod(int(np.broadcast_to(each, len(limbs))[row]) for each in divisors)
            doubles[row] = dividend / (divisor << max(-exponent, 0)) + 0.0
    return doubles


def _divide(digits: Longs, divisors: Longs | int) -> tuple[Longs, Booleans]:
    """Quotients of non-negative integers, rounded down, and where there is a remainder."""
    quotients = np.empty_like(digits)
    remainders = np.zeros(len(digits), np.int64)
    for column in range(digits.shape[1] - 1, -1, -1):
        quotients[:, column], remainders = np.divmod((remainders << BITS) + digits[:, column], divisors)
    return quotients, remainders != 0


def _nearest(digits: Longs, exponent: int, is_inexact: Booleans) -> Doubles:
    """Non-negative digits · 2^exponent, rounded once: the leading 64 bits, the last one sticky."""
    rows, width = np.arange(len(digits)), digits.shape[1]
    top = np.maximum(width - 1 - np.argmax(digits[:, ::-1] != 0, axis=1), 2)
    first, second, third = (digits[rows, top - number].astype(np.uint64) for number in range(3))
    lengths = np.frexp(first.astype(np.float64))[1].astype(np.uint64)
    free_bits = np.uint64(BITS) - lengths
    leading = (first << (free_bits + np.uint64(BITS))) | (second << free_bits) | (third >> lengths)
    follows = (third & ((np.uint64(1) << lengths) - np.uint64(1))) != 0
    below = np.cumsum(digits != 0, axis=1)
    follows |= (top > 2) & (below[rows, np.maximum(top - 3, 0)] > 0)
    leading |= (follows | is_inexact).astype(np.uint64)
    with np.errstate(over="ignore"):
        nearest: Doubles = np.ldexp(
            leading.astype(np.float64), exponent + BITS * (top - 2) + lengths.astype(np.int64)
        )
    return nearest


def _magnitudes(limbs: Longs) -> tuple[Longs, int]:
    """(absolute values without outer columns of zeros, number of low columns dropped); one column stays."""
    digits = normalise(limbs * np.where(limbs[:, -1] < 0, -1, 1)[:, None])
    used_columns = np.flatnonzero(digits.any(axis=0))
    first, last = (int(used_columns[0]), int(used_columns[-1])) if len(used_columns) else (0, 0)
    return digits[:, first : last + 1], first


def from_digits(digits: list[Longs]) -> Longs:
    """Normalised limbs of Σ digit[j] · 2^(64 j), the digits signed 64-bit integers."""
    limbs = np.zeros((len(digits[0]), 2 * len(digits) + 1), np.int64)
    for place, digit in enumerate(digits):
        limbs[:, 2 * place] += digit & _MASK
        limbs[:, 2 * place + 1] += digit >> BITS
    return normalise(limbs)


def to_digits(limbs: Longs, count: int) -> list[Longs]:
    """The inverse of `from_digits`, with the smallest signed digits. OverflowError for more than `count`."""
    wide = np.zeros((len(limbs), max(2 * count, limbs.shape[1]) + 1), np.int64)
    wide[:, : limbs.shape[1]] = limbs
    for column in range(limbs.shape[1] - 1, wide.shape[1] - 1):  # extend the sign
        wide[:, column + 1] = wide[:, column] >> BITS
        wide[:, column] &= _MASK
    digits: list[Longs] = []
    carry = np.zeros(len(limbs), np.int64)
    for place in range(count):
        low = wide[:, 2 * place] + carry
        digit = (wide[:, 2 * place + 1] << BITS) + low
        digits.append(digit)
        carry = ((digit < 0) | ((carry == 1) & (digit == 0))).astype(np.int64)
    upper = wide[:, 2 * count :]
    sign = np.where(upper[:, -1] < 0, -1, 0)
    is_spent = upper[:, -1] == sign
    for column in range(upper.shape[1] - 1):
        is_spent &= upper[:, column] == sign & _MASK
    if not bool(np.all(is_spent & (carry + sign == 0))):
        raise OverflowError(f"An integer needs more than {count} digits of 64 bits.")
    return digits


def bit_lengths(limbs: Longs) -> Longs:
    """int64[n]: bits of each magnitude, as `int.bit_length`."""
    magnitudes = normalise(limbs * np.where(limbs[:, -1] < 0, -1, 1)[:, None])
    top = magnitudes.shape[1] - 1 - np.argmax(magnitudes[:, ::-1] != 0, axis=1)
    leading = magnitudes[np.arange(len(limbs)), top]
    return np.where(leading == 0, 0, np.frexp(leading.astype(np.float64))[1].astype(np.int64) + BITS * top)


def trailing_zeros(limbs: Longs) -> Longs:
    """int64[n]: zero bits below the lowest set bit; 0 for the integer 0."""
    lowest = np.argmax(limbs != 0, axis=1)
    limb = limbs[np.arange(len(limbs)), lowest]
    return np.where(
        limb == 0, 0, np.frexp((limb & -limb).astype(np.float64))[1].astype(np.int64) - 1 + BITS * lowest
    )


def shift_down(limbs: Longs, bits: Longs) -> Longs:
    width, rows = limbs.shape[1], np.arange(len(limbs))
    extended_limbs = _extend_sign(limbs, 1)
    words, inside = bits // BITS, bits % BITS
    shifted_limbs = np.empty_like(limbs)
    for column in range(width):
        low, high = (extended_limbs[rows, np.minimum(words + column + more, width)] for more in (0, 1))
        shifted_limbs[:, column] = (low >> inside | high << (BITS - inside)) & _MASK
    return _sign_last_limb(shifted_limbs)


def shift_up(limbs: Longs, bits: Longs) -> tuple[Longs, int]:
    """(limbs, base): each integer times 2^bits, in units of 2^(32 base)."""
    words, inside = bits // BITS, bits % BITS
    used_words = words[(limbs != 0).any(axis=1)]
    base = int(used_words.min()) if len(used_words) else 0
    places = np.maximum(words - base, 0)
    places[(limbs == 0).all(axis=1)] = 0
    shifted_limbs = np.zeros((len(limbs), int(places.max(initial=0)) + limbs.shape[1] + 1), np.int64)
    rows = np.arange(len(limbs))
    for column in range(limbs.shape[1]):
        moved_bits = limbs[:, column] << inside
        shifted_limbs[rows, places + column] += moved_bits & _MASK
        shifted_limbs[rows, places + column + 1] += moved_bits >> BITS
    return normalise(shifted_limbs), base


def difference(limbs: Longs, exponent: int, others: Longs, other_exponent: int) -> tuple[Longs, int]:
    """(limbs, exponent) of limbs · 2^exponent - others · 2^other_exponent; only `limbs` may have 63 bits."""
    words, inside = divmod(other_exponent - exponent, BITS)
    others, _ = shift_up(others, np.full(len(others), inside))
    lead, lag = max(0, -words), max(0, words)
    differences = np.zeros((len(limbs), max(lead + limbs.shape[1], lag + others.shape[1]) + 1), np.int64)
    differences[:, lead : lead + limbs.shape[1]] = limbs
    differences[:, lag : lag + others.shape[1]] -= others
    return normalise(differences), exponent - BITS * lead


def to_bytes(limbs: Longs, heads: Bytes) -> tuple[Bytes, NDArray[np.int32]]:
    """(data, offsets int32[n + 1]): each row is its head (a row of `heads`, uint8[n, h]), then its integer,
    big-endian two's complement of bit length // 8 + 1 bytes.
    """
    numbers = np.ascontiguousarray(_extend_sign(limbs, 1).astype("<u4")).view(np.uint8)[:, ::-1]
    lengths = bit_lengths(limbs) // 8 + 1
    wide = np.concatenate([heads, numbers], axis=1)
    offsets = np.zeros(len(limbs) + 1, np.int32)
    np.cumsum(lengths + heads.shape[1], out=offsets[1:])
    return wide[_is_used(lengths, wide.shape[1], heads.shape[1])], offsets


def from_bytes(data: Bytes, offsets: NDArray[np.int32], head: int) -> tuple[Longs, Bytes]:
    """The inverse of `to_bytes`: (limbs, heads). `data` holds the bytes from the first offset to the last."""
    lengths = np.diff(offsets).astype(np.int64) - head
    width = -(-int(lengths.max(initial=1)) // _BYTES) * _BYTES
    wide = np.zeros((len(lengths), head + width), np.uint8)
    is_used = _is_used(lengths, head + width, head)
    wide[is_used] = data
    first = wide[np.arange(len(lengths)), head + width - lengths]
    wide = np.where(is_used, wide, np.where(first > 127, 255, 0).astype(np.uint8)[:, None])
    limbs = np.ascontiguousarray(wide[:, : head - 1 if head else None : -1]).view("<u4").astype(np.int64)
    return _sign_last_limb(limbs), wide[:, :head]


def _is_used(lengths: Longs, width: int, head: int) -> NDArray[np.bool_]:
    """bool[n, width]: the bytes of each row that are its head or its number, which ends the row."""
    columns = np.arange(width)
    return (columns < head) | (columns >= (width - lengths)[:, None])


def _extend_sign(limbs: Longs, more: int) -> Longs:
    """Non-negative limbs of the two's complement, with `more` sign limbs appended."""
    signs = np.where(limbs[:, -1:] < 0, _MASK, 0)
    return np.concatenate([limbs & _MASK, np.repeat(signs, more, axis=1)], axis=1)


def _sign_last_limb(limbs: Longs) -> Longs:
    """The same limbs with a signed last one. Changes its argument."""
    limbs[:, -1] = limbs[:, -1].astype(np.uint32).view(np.int32)
    return limbs
