"""Integers of many limbs as one binary column: in each row a base and its limbs, as 64-bit words.

Partials of different bases and widths can stand in one column, so that rows are concatenated as they come.
"""

import numpy as np
import pyarrow as pa

from windowing.columnar import limbs
from windowing.columnar.columns import Longs


def pack_limbs(numbers: Longs, base: int) -> pa.Array:
    """Limbs int64[n, k] of base `base` as a column."""
    words = np.empty((len(numbers), numbers.shape[1] + 1), np.int64)
    words[:, 0] = base
    words[:, 1:] = numbers
    offsets = np.arange(len(words) + 1, dtype=np.int32) * (8 * words.shape[1])
    return pa.Array.from_buffers(pa.binary(), len(words), [None, pa.py_buffer(offsets), pa.py_buffer(words)])


def unpack_limbs(column: pa.Array) -> tuple[Longs, int]:
    """(limbs of one base and one width, that base)."""
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1] // 8
    if not len(column):
        return np.zeros((0, 1), np.int64), 0
    words = np.frombuffer(column.buffers()[2], np.int64, int(offsets[-1]))
    bases, widths = words[offsets[:-1]], np.diff(offsets) - 1
    base = int(bases.min())
    numbers = np.zeros((len(column), int((bases + widths).max()) - base), np.int64)
    for kind in np.unique(bases * (1 << 16) + widths):  # as many as there were different partials
        width = int(kind) & 0xFFFF
        rows = np.flatnonzero((bases == kind >> 16) & (widths == width))
        lead = int(kind >> 16) - base
        numbers[rows, lead : lead + width] = words[offsets[rows][:, None] + 1 + np.arange(width)]
    return limbs.normalise(numbers), base
