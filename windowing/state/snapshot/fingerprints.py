"""Fingerprints of rows: 128 bits that depend on the row's values alone, whole columns at a time.

Not for adversaries: what somebody else might forge is told apart by `row_digests`. SHA-256 of each row cost half of a run (0.8 µs a row).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windowing.state.snapshot.row_encoding import as_integers, encode_rows, encode_value

Words = npt.NDArray[np.uint64]

_MASK: Final = (1 << 64) - 1
_MULTIPLIERS: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
_FINISHING: Final = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)
_TAGS: Final = {tag: int.from_bytes(hashlib.sha256(tag.encode()).digest()[:8], "big") for tag in "ntfidmsb"}
# Texts of so many bytes are mixed 8 bytes at a time. Python's call of SHA-256 for each takes 2 µs, and keys are mostly short.
_SHORT: Final = 64
_HEADS: Final = np.array([(_MASK << (64 - 8 * count)) & _MASK for count in range(9)], np.uint64)  # keep the first bytes of a word


def fingerprint(values: Sequence[Any], prefix: str) -> int:
    """One row, which defines it.

    Two halves h begin as the first and second 8 bytes of SHA-256 of the encoded prefix. For each value, which has a word w for each half,
    h = (h ^ w) · multiplier mod 2^64, then h = h ^ h >> 32. At last each half is mixed as MurmurHash3 does; the first is the higher one.

    The words of a value are, from its encoding (`encode_value`): of null, booleans, 64-bit integers, floats, and decimals that are such
    integers, twice the 8 bytes behind the tag (0 for none) ^ the tag's own word; of texts and bytes no longer than `_SHORT` what they make
    of the tag's word ^ their length when their bytes, eight at a time as one big-endian word, the last filled up with zeros, are mixed in
    as values are; of all else the first and second 8 bytes of SHA-256.
    """
    halves = list(_digest_words(encode_value(prefix)))
    for value in values:
        for half, word in enumerate(_words_of_encoded(encode_value(value))):
            halves[half] = _mix_one(halves[half], word, half)
    high, low = map(_finish_one, halves)
    return high << 64 | low


def fingerprints(columns: Sequence[pa.Array], prefix: bytes) -> tuple[Words, Words]:
    """The higher and lower halves of the rows over equally long `columns`; `prefix` is encoded."""
    rows = len(columns[0])
    halves = [np.full(rows, word, np.uint64) for word in _digest_words(prefix)]
    for column in columns:
        for half, mixed_in in enumerate(_words_of_column(column)):
            _mix(halves[half], mixed_in, half)
    for words in halves:
        for multiplier in _FINISHING:
            words ^= words >> np.uint64(33)
            words *= np.uint64(multiplier)
        words ^= words >> np.uint64(33)
    return halves[0], halves[1]


def _mix_one(into: int, word: int, half: int) -> int:
    mixed = ((into ^ word) * _MULTIPLIERS[half]) & _MASK
    return mixed ^ (mixed >> 32)


def _mix(into: Words, words: Words | np.uint64, half: int) -> None:
    into ^= words
    into *= np.uint64(_MULTIPLIERS[half])
    into ^= into >> np.uint64(32)


def _finish_one(half: int) -> int:
    for multiplier in _FINISHING:
        half = ((half ^ (half >> 33)) * multiplier) & _MASK
    return half ^ (half >> 33)


def _digest_words(encoded: bytes) -> tuple[int, int]:
    digest = hashlib.sha256(encoded).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:16], "big")


def _words_of_encoded(encoded: bytes) -> tuple[int, int]:
    tag = chr(encoded[0])
    if tag in "ntfid":
        word = int.from_bytes(encoded[1:], "big") ^ _TAGS[tag]
        return word, word
    if tag == "m" and b"." not in encoded and -(2**63) <= (number := int(encoded[5:])) < 2**63:
        word = (number & _MASK) ^ _TAGS[tag]
        return word, word
    if tag in "sb" and (size := len(encoded) - 5) <= _SHORT:
        first = second = _TAGS[tag] ^ size
        for place in range(5, len(encoded), 8):
            word = int.from_bytes(encoded[place : place + 8].ljust(8, b"\0"), "big")
            first, second = _mix_one(first, word, 0), _mix_one(second, word, 1)
        return first, second
    return _digest_words(encoded)


def _words_of_column(column: pa.Array) -> tuple[Words | np.uint64, Words | np.uint64]:
    kind = column.type
    if column.null_count == len(column):
        nothing = np.uint64(_TAGS["n"])
        return nothing, nothing
    if pa.types.is_dictionary(kind):
        if len(column.dictionary) > len(column):
            return _words_of_column(column.dictionary_decode())
        first, second = (np.broadcast_to(words, len(column.dictionary)) for words in _words_of_column(column.dictionary))
        if len(first) == 1 and not column.null_count:
            return first[0], second[0]
        return _taken(first, column.indices), _taken(second, column.indices)
    if pa.types.is_boolean(kind):
        word = np.where(np.asarray(column.fill_null(False)), np.uint64(_TAGS["t"]), np.uint64(_TAGS["f"]))
        return _twice(word, column)
    if (integers := as_integers(column)) is not None:
        return _twice(_filled(integers, 0).view(np.uint64) ^ np.uint64(_TAGS["i"]), column)
    if pa.types.is_floating(kind):
        numbers = _filled(pc.cast(column, pa.float64()), 0.0) + 0.0
        return _twice(np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64) ^ np.uint64(_TAGS["d"]), column)
    if pa.types.is_decimal128(kind) and kind.scale >= 0:
        return _words_of_decimals(column)
    for tag, large, fits in _TEXTS:
        if fits(kind):
            return _words_of_texts(column.cast(large), tag)
    return _words_of_distinct(column)


_TEXTS: Final[tuple[tuple[str, pa.DataType, Callable[[pa.DataType], bool]], ...]] = (
    ("s", pa.large_string(), lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)),
    ("b", pa.large_binary(), lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)),
    ("b", pa.large_binary(), pa.types.is_fixed_size_binary),
)


def _words_of_texts(column: pa.Array, tag: str) -> tuple[Words, Words]:
    """Texts or bytes with 64-bit offsets: short ones are mixed eight bytes at a time, all texts at once; others are digested."""
    offsets = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column) + 1]
    sizes = np.diff(offsets)
    if column.null_count:
        sizes = np.where(np.asarray(column.is_null()), 0, sizes)
    octets = np.frombuffer(column.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    octets = np.concatenate([octets, np.zeros(8, np.uint8)])  # so that eight bytes stand behind every place
    first = sizes.view(np.uint64) ^ np.uint64(_TAGS[tag])
    second = first.copy()
    rows = np.flatnonzero((sizes > 0) & (sizes <= _SHORT))
    for place in range(0, int(sizes[rows].max(initial=0)), 8):
        rows = rows[sizes[rows] > place]
        starts = offsets[rows] - offsets[0] + place
        words = np.lib.stride_tricks.sliding_window_view(octets, 8)[starts].view(">u8").ravel().astype(np.uint64)
        words &= _HEADS[np.minimum(sizes[rows] - place, 8)]
        for half, into in enumerate((first, second)):
            mixed = into[rows]
            _mix(mixed, words, half)
            into[rows] = mixed
    if len(long := np.flatnonzero(sizes > _SHORT)):
        first[long], second[long] = _words_of_distinct(column.take(pa.array(long)))
    if column.null_count:
        nothing = np.asarray(column.is_null())
        first[nothing] = second[nothing] = np.uint64(_TAGS["n"])
    return first, second


def _filled(column: pa.Array, value: float) -> npt.NDArray[Any]:
    """`value` in place of nulls. A column without any is not copied, as `fill_null` does."""
    return np.asarray(column.fill_null(value) if column.null_count else column)


def _twice(words: Words, column: pa.Array) -> tuple[Words, Words]:
    """The same words for both halves; the null's where `column` is null."""
    if column.null_count:
        words = np.where(np.asarray(column.is_null()), np.uint64(_TAGS["n"]), words)
    return words, words


def _words_of_decimals(column: pa.Array) -> tuple[Words, Words]:
    """Decimals that are 64-bit integers have those as words; others are digested."""
    parts = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset : 2 * (column.offset + len(column))].reshape(-1, 2)
    low, unit = parts[:, 0], 10**column.type.scale
    is_short = parts[:, 1] == low >> 63
    if unit < 1 << 63:
        whole, rest = np.divmod(low, unit)
        is_short &= rest == 0
    else:
        whole, is_short = low, low == 0
    others = np.flatnonzero(~is_short & np.asarray(column.is_valid()))
    first, second = (words.copy() for words in _twice(whole.view(np.uint64) ^ np.uint64(_TAGS["m"]), column))
    if len(others):
        first[others], second[others] = _words_of_distinct(column.take(pa.array(others)))
    return first, second


def _words_of_distinct(column: pa.Array) -> tuple[Words, Words]:
    """Digests of the distinct values."""
    kind = column.type
    if not pa.types.is_nested(kind) and not pa.types.is_binary_view(kind) and not pa.types.is_string_view(kind):
        encoded = column.dictionary_encode()
        values, indices = encoded.dictionary, encoded.indices
    else:
        values, indices = column, pa.array(np.arange(len(column)), mask=np.asarray(column.is_null()))
    words = np.array([_words_of_encoded(row) for row in encode_rows([values], b"").to_pylist()], np.uint64).reshape(-1, 2)
    return _taken(words[:, 0], indices), _taken(words[:, 1], indices)


def _taken(words: Words, indices: pa.Array) -> Words:
    taken = words[_filled(indices, 0)]
    return np.where(np.asarray(indices.is_null()), np.uint64(_TAGS["n"]), taken) if indices.null_count else taken
