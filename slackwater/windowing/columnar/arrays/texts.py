"""An order-preserving map from short texts to integers, which are grouped and sorted much faster than texts.

A text of n bytes becomes a number of n digits. A digit counts from the least byte that any text has at its
place to the greatest, so identifiers such as `user-00042`, `N14228` or `EWR` become small integers:

    place        1        2        3
    bytes        E … L    F … W    A … R
    EWR          0        17       17        (0 · 18 + 17) · 18 + 17 =  323
    JFK          5        0        10        (5 · 18 +  0) · 18 + 10 = 1630
    LGA          7        1        0         (7 · 18 +  1) · 18 +  0 = 2286
"""

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slackwater.windowing.columnar.arrays.columns import Longs

Octets = NDArray[np.uint8]

_LONGEST: Final = 32
_ROWS_AT_ONCE: Final = 1 << 13  # with their bytes near the processor
_NUMBERS: Final = 1 << 62


def are_short(texts: Sequence[pa.Array]) -> bool:
    """Whether texts are, on average, short enough to be numbered."""
    ends: list[list[int]] = [text_offsets(array)[[0, -1]].tolist() for array in texts]
    return sum(last - first for first, last in ends) <= _LONGEST * sum(map(len, texts))


def text_numbers(texts: pa.Array) -> Longs | None:
    """int64[n] >= 0 in the UTF-8 order of `texts`, strings without nulls; equal for equal texts. None if a
    text is too long, texts differ in too many places, or differ in length and contain a zero byte.
    """
    offsets, octets = _bytes_of(texts)
    lengths = np.diff(offsets)
    longest = int(lengths.max(initial=0))
    if longest > _LONGEST:
        return None
    is_even = bool(np.all(lengths == longest))
    if not is_even and not octets.all():
        return None
    pieces: list[Octets] = []  # a row for each place
    least, greatest = np.full(longest, 255, np.uint8), np.zeros(longest, np.uint8)
    for first in range(0, len(lengths), _ROWS_AT_ONCE):
        piece_offsets = offsets[first : first + _ROWS_AT_ONCE + 1]
        piece = _places(octets[piece_offsets[0] : piece_offsets[-1]], piece_offsets, longest, is_even)
        np.minimum(least, (piece if is_even else piece - np.uint8(1)).min(axis=1), out=least)
        np.maximum(greatest, piece.max(axis=1), out=greatest)
        pieces.append(piece)
        spans = np.maximum(
            greatest.astype(int) - least + 1, 1
        ).tolist()  # a place that no text has had yet counts as one
        if prod(spans) >= _NUMBERS:
            return None
    numbers = np.zeros(len(lengths), np.int64)
    for number, piece in enumerate(pieces):
        numbers[number * _ROWS_AT_ONCE : number * _ROWS_AT_ONCE + piece.shape[1]] = _numbers(
            piece, least, spans
        )
    return numbers


def text_offsets(texts: pa.Array) -> NDArray[Any]:
    """int32 or int64[n + 1], not copied: where each text begins in its array's bytes, and the last ends."""
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    if not len(texts):
        return np.zeros(1, width)
    return np.frombuffer(texts.buffers()[1], width)[texts.offset : texts.offset + len(texts) + 1]


def _bytes_of(texts: pa.Array) -> tuple[Longs, Octets]:
    """(where each text begins and the last one ends, the bytes of all texts)."""
    offsets = text_offsets(texts).astype(np.int64)
    data = texts.buffers()[2]
    octets = (
        np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    )
    return offsets - offsets[0], octets


def _places(octets: Octets, offsets: Longs, longest: int, is_even: bool) -> Octets:
    """uint8[longest, n]: the bytes of texts by place, zero-padded."""
    rows = len(offsets) - 1
    if is_even:
        return np.ascontiguousarray(octets.reshape(rows, longest).T)
    padded_octets = np.zeros((rows, longest), np.uint8)
    padded_octets[np.arange(longest) < np.diff(offsets)[:, None]] = octets
    return np.ascontiguousarray(padded_octets.T)


def _numbers(piece: Octets, least: Octets, spans: list[int]) -> NDArray[Any]:
    """The digits of each text combined; a missing byte counts as the one before the least."""
    number = np.int32 if prod(spans) < 1 << 31 else np.int64
    numbers: NDArray[np.signedinteger[Any]] = np.zeros(piece.shape[1], number)
    for octets, low, span in zip(piece, least, spans, strict=True):
        if span > 1:
            numbers *= number(span)
            numbers += np.maximum(octets, low) - low
    return numbers
