"""A hash of rows that depends on their values alone, not on order, files, or width of types."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.windowing.snapshot.row_encoding import as_integers, encode_rows, encode_value

Words = npt.NDArray[np.uint64]

_MASK: Final = (1 << 64) - 1
_ROWS_ENCODED_AT_ONCE: Final = 1 << 15  # the columns of so many rows fit into the processor's cache
# A column of so many rows is 1 MB. With fewer, threads wait for each other more than they hash.
_ROWS_AT_ONCE: Final = 1 << 17
_TEXT_MULTIPLIER: Final = 0x9E3779B97F4A7C15
_FINISHING: Final = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)
# Two tags may occur in one column: this tag → the one that is used for both.
_SHARED_TAGS: Final = {"I": "i", "f": "t"}
# Texts of up to so many bytes are mixed 8 bytes at a time, longer ones hashed with SHA-256, a call of 2 µs
# each. Keys are mostly short.
_SHORT_BYTES: Final = 64
# _HEADS[n] keeps the first n bytes of a word.
_HEADS: Final = np.array([(_MASK << (64 - 8 * count)) & _MASK for count in range(9)], np.uint64)


def fingerprint(values: Sequence[Any], prefix: str) -> int:
    """The fingerprint of one row: the definition of what `fingerprints` computes for whole columns.

    A word h and a sum s begin as the first and second 8 bytes of SHA-256 of the encoded prefix. Each non-null
    value has a word w and an odd multiplier m: h = (h ^ w) · m, then h = h ^ h >> 32, then s = s + h, all mod
    2^64. In the end both are mixed as in MurmurHash3; h is the higher half. (Differences in the highest bits
    of two neighbours may leave h unchanged, but not s.)

    m is the first 8 bytes of SHA-256 of the tag of the value's encoding (`encode_value`) and its place in the
    row as 4 bytes, with the lowest bit set, so it depends on the value's type and place. Tag `I` counts as
    `i`, and `f` as `t`.

    w is computed from the encoding. 64-bit integers, floats, and decimals that are such integers: the 8 bytes
    behind the tag. True: 1, false: 0. Texts and bytes up to `_SHORT_BYTES`: their length, into which their
    bytes, as zero-padded big-endian words of eight, are mixed as values are, by one multiplier. All else: the
    first 8 bytes of SHA-256.
    """
    digest = hashlib.sha256(encode_value(prefix)).digest()
    word, total = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:16], "big")
    for place, value in enumerate(values):
        if value is not None:
            encoded_value = encode_value(value)
            word = _mix_one(word, _word_of_value(encoded_value), _multiplier(chr(encoded_value[0]), place))
            total = (total + word) & _MASK
    return _finish_one(word) << 64 | _finish_one(total)


def fingerprints(columns: Sequence[pa.Array], prefix: bytes) -> tuple[Words, Words]:
    """The higher and lower halves of the rows over equally long `columns`; `prefix` is encoded.

    Not safe against forgery: where somebody might forge rows, compare `row_digests` (SHA-256), which would
    take half of a run here (0.8 µs a row). A fingerprint takes five passes over the values of each column,
    and none for all-null columns, which most snapshots have.
    """
    digest = hashlib.sha256(prefix).digest()
    words, totals = (
        np.full(len(columns[0]), int.from_bytes(half, "big"), np.uint64)
        for half in (digest[:8], digest[8:16])
    )
    for place, column in enumerate(columns):
        if not column.null_count:
            _mix(words, totals, *_words_of_column(column, place))
        elif column.null_count < len(column):
            positions, values = _values_present(column)
            words_present, their_totals = words[positions], totals[positions]
            _mix(words_present, their_totals, *_words_of_column(values, place))
            if not isinstance(positions, slice):
                words[positions], totals[positions] = words_present, their_totals
    for half in (words, totals):
        for multiplier in _FINISHING:
            half ^= half >> np.uint64(33)
            half *= np.uint64(multiplier)
        half ^= half >> np.uint64(33)
    return words, totals


@cache
def _multiplier(tag: str, place: int) -> int:
    digest = hashlib.sha256(_SHARED_TAGS.get(tag, tag).encode() + place.to_bytes(4, "big")).digest()
    return int.from_bytes(digest[:8], "big") | 1


def _mix_one(into: int, word: int, multiplier: int) -> int:
    mixed_word = ((into ^ word) * multiplier) & _MASK
    return mixed_word ^ (mixed_word >> 32)


def _mix(into: Words, totals: Words, words: Words | np.uint64, multiplier: int) -> None:
    into ^= words
    into *= np.uint64(multiplier)
    into ^= into >> np.uint64(32)
    totals += into


def _finish_one(half: int) -> int:
    for multiplier in _FINISHING:
        half = ((half ^ (half >> 33)) * multiplier) & _MASK
    return half ^ (half >> 33)


def _digest_word(encoded_value: bytes) -> int:
    return int.from_bytes(hashlib.sha256(encoded_value).digest()[:8], "big")


def _word_of_value(encoded_value: bytes) -> int:
    tag = chr(encoded_value[0])
    if tag in "tf":
        return int(tag == "t")
    if tag in "id":
        return int.from_bytes(encoded_value[1:], "big")
    if tag == "m" and b"." not in encoded_value and -(2**63) <= (number := int(encoded_value[5:])) < 2**63:
        return number & _MASK
    if tag in "sb" and (size := len(encoded_value) - 5) <= _SHORT_BYTES:
        word = size
        for place in range(5, len(encoded_value), 8):
            word = _mix_one(
                word,
                int.from_bytes(encoded_value[place : place + 8].ljust(8, b"\0"), "big"),
                _TEXT_MULTIPLIER,
            )
        return word
    return _digest_word(encoded_value)


def _words_of_column(column: pa.Array, place: int) -> tuple[Words | np.uint64, int]:
    """(the word of each value, or of all; their multiplier) of a column without nulls."""
    tag, words = _tag_and_words(column)
    return words, _multiplier(tag, place)


def _tag_and_words(column: pa.Array) -> tuple[str, Words | np.uint64]:
    kind = column.type
    if pa.types.is_dictionary(kind):
        if len(column.dictionary) > len(column) or column.dictionary.null_count:
            return _tag_and_words(column.dictionary_decode())
        tag, words = _tag_and_words(column.dictionary)
        words = np.broadcast_to(words, len(column.dictionary))
        return tag, words[0] if len(words) == 1 else words[np.asarray(column.indices)]
    if pa.types.is_boolean(kind):
        return "t", np.asarray(column).astype(np.uint64)
    if (integers := as_integers(column)) is not None:
        return "i", np.asarray(integers).view(np.uint64)
    if pa.types.is_floating(kind):
        numbers = np.asarray(pc.cast(column, pa.float64())) + 0.0
        return "d", np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)
    if pa.types.is_decimal128(kind) and kind.scale >= 0:
        return "m", _words_of_decimals(column)
    for tag, large, fits in _TEXTS:
        if fits(kind):
            return tag, _words_of_texts(column.cast(large))
    return chr(encode_value(column[0].as_py())[0]), _words_of_distinct(column)


_TEXTS: Final[tuple[tuple[str, pa.DataType, Callable[[pa.DataType], bool]], ...]] = (
    (
        "s",
        pa.large_string(),
        lambda kind: (
            pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
        ),
    ),
    (
        "b",
        pa.large_binary(),
        lambda kind: (
            pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
        ),
    ),
    ("b", pa.large_binary(), pa.types.is_fixed_size_binary),
)


def _values_present(column: pa.Array) -> tuple[npt.NDArray[np.int64] | slice, pa.Array]:
    """The rows in which a column has values, and the values; not copied if adjacent."""
    rows = np.flatnonzero(np.asarray(column.is_valid()))
    first, count = int(rows[0]), len(rows)
    if rows[-1] - first + 1 == count:
        return slice(first, first + count), column.slice(first, count)
    return rows, _with_kernels(column).drop_null()


def _with_kernels(column: pa.Array) -> pa.Array:
    """The same values in a type for which Arrow can take rows."""
    for _, large, fits in _TEXTS:
        if fits(column.type):
            return column.cast(large)
    return column


def _words_of_texts(column: pa.Array) -> Words:
    """Texts or bytes with 64-bit offsets: short ones mixed, eight bytes of all at a time; others digested."""
    offsets = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column) + 1]
    sizes = np.diff(offsets)
    octets = np.frombuffer(column.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    octets = np.concatenate([octets, np.zeros(8, np.uint8)])  # so that eight bytes follow every place
    words = sizes.astype(np.uint64)
    rows = np.flatnonzero((sizes > 0) & (sizes <= _SHORT_BYTES))
    for place in range(0, int(sizes[rows].max(initial=0)), 8):
        rows = rows[sizes[rows] > place]
        starts = offsets[rows] - offsets[0] + place
        eight_bytes = (
            np.lib.stride_tricks.sliding_window_view(octets, 8)[starts].view(">u8").ravel().astype(np.uint64)
        )
        eight_bytes &= _HEADS[np.minimum(sizes[rows] - place, 8)]
        mixed_word = words[rows] ^ eight_bytes
        mixed_word *= np.uint64(_TEXT_MULTIPLIER)
        words[rows] = mixed_word ^ mixed_word >> np.uint64(32)
    if len(long := np.flatnonzero(sizes > _SHORT_BYTES)):
        words[long] = _words_of_distinct(column.take(pa.array(long)))
    return words


def _words_of_decimals(column: pa.Array) -> Words:
    """Decimals that are 64-bit integers are their own words; others are digested."""
    parts = np.frombuffer(column.buffers()[1], np.int64)[
        2 * column.offset : 2 * (column.offset + len(column))
    ].reshape(-1, 2)
    low, unit = parts[:, 0], 10**column.type.scale
    is_short = parts[:, 1] == low >> 63
    if unit < 1 << 63:
        integers, fractions = (low, 0) if unit == 1 else np.divmod(low, unit)
        is_short &= fractions == 0
    else:
        integers, is_short = low, low == 0
    if is_short.all():
        return np.ascontiguousarray(integers).view(np.uint64)
    words, others = integers.astype(np.uint64), np.flatnonzero(~is_short)
    words[others] = _words_of_distinct(column.take(pa.array(others)))
    return words


def _words_of_distinct(column: pa.Array) -> Words:
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_binary_view(kind) or pa.types.is_string_view(kind):
        return _words_one_by_one(column)
    by_dictionary = column.dictionary_encode()
    words: Words = _words_one_by_one(by_dictionary.dictionary)[np.asarray(by_dictionary.indices)]
    return words


def _words_one_by_one(column: pa.Array) -> Words:
    return np.array([_word_of_value(row) for row in encode_rows([column], b"").to_pylist()], np.uint64)


def row_digests(table: pa.Table, names: Sequence[str], prefix: str = "") -> list[bytes]:
    """SHA-256 of each row's canonical encoding over the named columns, 32 bytes each, in row order."""
    head = encode_value(prefix)
    return [
        row.digest()
        for batch in table.select(names).to_batches(max_chunksize=_ROWS_ENCODED_AT_ONCE)
        for row in map(hashlib.sha256, encode_rows(batch.columns, head).to_pylist())
    ]


class ContentHash:
    """The content hash of the rows added so far, in any order and in any pieces: `rows`, their number; `high`
    and `low`, the sums of the halves of their fingerprints, mod 2**64.
    """

    def __init__(self, rows: int = 0, high: int = 0, low: int = 0) -> None:
        self.rows = rows
        self.high = high
        self.low = low

    def add(self, table_name: str, table: pa.Table, without: Iterable[str]) -> None:
        """Add rows over all columns but `without`; `table_name` distinguishes equal rows of two tables."""
        excluded_columns = set(without)
        names = [name for name in table.column_names if name not in excluded_columns]
        if not names:
            raise ValueError(f"{table_name}: no column is left to hash")
        head = encode_value(table_name)
        for batch in table.select(names).to_batches(max_chunksize=_ROWS_AT_ONCE):
            if batch.num_rows:
                self._add(batch.num_rows, *(int(half.sum()) for half in fingerprints(batch.columns, head)))

    def merge(self, other: ContentHash) -> None:
        self._add(other.rows, other.high, other.low)

    def remove(self, other: ContentHash) -> None:
        """Subtract the rows of another hash, which were added before."""
        self._add(-other.rows, -other.high, -other.low)

    def _add(self, rows: int, high: int, low: int) -> None:
        self.rows += rows
        self.high = (self.high + high) & _MASK
        self.low = (self.low + low) & _MASK

    def __str__(self) -> str:
        return f"{self.rows}:{self.high:016x}{self.low:016x}"

    @classmethod
    def parse(cls, text: str) -> ContentHash:
        rows, sums = text.split(":")
        return cls(int(rows), int(sums[:16], 16), int(sums[16:], 16))
