"""Integers of many limbs as one binary column, a base and the limbs as 64-bit words in each row. Rows of
different bases and widths may be in one column, so that partials are concatenated as they come.
"""

import numpy as np
import pyarrow as pa

from slackwater.windowing.columnar.arrays import limbs
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.orders import distinct_values


def pack_limbs(numbers: Longs, base: int) -> pa.Array:
    """Limbs int64[n, k] of base `base` as a column."""
    words = np.empty((len(numbers), numbers.shape[1] + 1), np.int64)
    words[:, 0] = base
    words[:, 1:] = numbers
    offsets = np.arange(len(words) + 1, dtype=np.int32) * (8 * words.shape[1])
    return pa.Array.from_buffers(pa.binary(), len(words), [None, pa.py_buffer(offsets), pa.py_buffer(words)])


def unpack_limbs(column: pa.Array) -> tuple[Longs, int]:
    """(limbs of one base and one width, that base)."""
    offsets = (
        np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1] // 8
    )
    if not len(column):
        return np.zeros((0, 1), np.int64), 0
    words = np.frombuffer(column.buffers()[2], np.int64, int(offsets[-1]))
    bases, widths = words[offsets[:-1]], np.diff(offsets) - 1
    base = int(bases.min())
    if bool((bases == base).all()) and bool((widths == widths[0]).all()):
        return limbs.normalise(words[offsets[0] :].reshape(len(column), -1)[:, 1:].copy()), base
    numbers = np.zeros((len(column), int((bases + widths).max()) - base), np.int64)
    for kind in distinct_values(bases * (1 << 16) + widths):  # one for each different partial
        width = int(kind) & 0xFFFF
        rows = np.flatnonzero((bases == kind >> 16) & (widths == width))
        lead = int(kind >> 16) - base
        numbers[rows, lead : lead + width] = words[offsets[rows][:, None] + 1 + np.arange(width)]
    return limbs.normalise(numbers), base


def encode_exact(numbers: Longs, exponent: int, specials: Longs) -> pa.Array:
    """Canonical bytes of each number · 2^exponent, which are all integers: one byte of special values (NaN 1,
    +inf 2, -inf 4), two (big-endian) with the number of trailing zero bits, then the number without these,
    big-endian, in the shortest two's complement.
    """
    zeros = limbs.trailing_zeros(numbers)
    places = np.where((numbers != 0).any(axis=1), zeros + exponent, 0)
    heads = np.stack([specials, places >> 8, places & 255], axis=1).astype(np.uint8)
    return _binary(*limbs.to_bytes(limbs.shift_down(numbers, zeros), heads))


def decode_exact(column: pa.Array, exponent: int) -> tuple[Longs, int, Longs]:
    """The inverse: (limbs of the sums times 2^exponent, their base, special values)."""
    numbers, heads = limbs.from_bytes(*bytes_of(column), 3)
    specials, high, low = heads.T.astype(np.int64)
    below = max(0, -(exponent // limbs.BITS))
    sums, base = limbs.shift_up(numbers, (high << 8) + low + exponent + limbs.BITS * below)
    return sums, base - below, specials


def encode_integers(numbers: Longs) -> pa.Array:
    """Each integer as its shortest two's complement, big-endian, with a bit for the sign."""
    return _binary(*limbs.to_bytes(numbers, np.zeros((len(numbers), 0), np.uint8)))


def decode_integers(column: pa.Array) -> Longs:
    return limbs.from_bytes(*bytes_of(column), 0)[0]


def _binary(data: np.ndarray, offsets: np.ndarray) -> pa.Array:
    return pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def bytes_of(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """(the bytes of a binary column, from the first offset to the last, the offsets)."""
    if not len(column):
        return np.zeros(0, np.uint8), np.zeros(1, np.int32)
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(column.buffers()[2], np.uint8)[offsets[0] : offsets[-1]], offsets
