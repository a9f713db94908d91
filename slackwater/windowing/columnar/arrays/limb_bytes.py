"""Integers of many normalised limbs as shortest byte strings; bit lengths, and a different shift per row."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.limbs import BITS, normalise

Bytes = NDArray[np.uint8]

_MASK: Final = (1 << BITS) - 1
_BYTES: Final = BITS // 8


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
