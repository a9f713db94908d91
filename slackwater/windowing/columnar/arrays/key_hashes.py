"""Key groups and places of whole key columns: the hashes of `key_types` and `key_groups`, from Arrow columns;
the Arrow type decides which Java type hashes.

A place orders all keys by key group, then by scrambled hash, so that a key group can be divided (unknown to
Flink):

    place = key group · 2^31 + murmurHash(hashCode), 0 <= murmurHash < 2^31
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slackwater.windowing.columnar.arrays.texts import text_offsets
from slackwater.windowing.errors import KeyTypeError

Codes = NDArray[np.uint32]

_TUPLE: Final = np.uint32(31)
_TRUE, _FALSE = np.uint32(1231), np.uint32(1237)
_FEW_UNITS: Final = 64
PLACE_BITS: Final = 31  # of a scrambled hash: so many places has a key group
# Rows are hashed piece by piece, so that the intermediate columns of a piece stay in the processor's cache.
_CHUNK_BYTES: Final = 1 << 18
_HASHED_AT_ONCE: Final = 1 << 14


def key_groups(columns: Sequence[pa.Array | pa.ChunkedArray], max_parallelism: int) -> NDArray[np.int32]:
    """int32[n]: the key group of each row, 0 to max_parallelism - 1.

    `columns` are the key columns, without nulls: one is a plain key, several are a Flink tuple. Raises
    KeyTypeError for a column whose type cannot be a key.
    """
    codes = hash_codes(columns)
    groups = np.empty(len(codes), np.int32)
    for start in range(0, len(codes), _HASHED_AT_ONCE):
        chunk = slice(start, start + _HASHED_AT_ONCE)
        groups[chunk] = _scramble(codes[chunk]) % np.uint32(max_parallelism)
    return groups


def key_places(columns: Sequence[pa.Array | pa.ChunkedArray], max_parallelism: int) -> NDArray[np.int64]:
    """int64[n]: the place of each row's key, below max_parallelism · 2^31; otherwise as `key_groups`."""
    codes = hash_codes(columns)
    places = np.empty(len(codes), np.int64)
    for start in range(0, len(codes), _HASHED_AT_ONCE):
        chunk = slice(start, start + _HASHED_AT_ONCE)
        hashes = _scramble(codes[chunk])
        places[chunk] = hashes % np.uint32(max_parallelism)
        places[chunk] <<= PLACE_BITS
        places[chunk] |= hashes
    return places


def hash_codes(columns: Sequence[pa.Array | pa.ChunkedArray]) -> Codes:
    """uint32[n]: Java's `hashCode`: integers up to 32 bits as Integer, 64 as Long, dates as LocalDate."""
    total: Codes = _column_codes(columns[0])
    for column in columns[1:]:
        total = total * _TUPLE + _column_codes(column)
    return total


def _column_codes(column: pa.Array | pa.ChunkedArray) -> Codes:
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return np.concatenate([np.zeros(0, np.uint32), *(_codes(chunk) for chunk in chunks)])


def _codes(column: Any) -> Codes:
    kind = column.type
    if pa.types.is_dictionary(kind):
        codes_of_rows: Codes = _codes(column.dictionary)[column.indices.to_numpy()]
        return codes_of_rows
    for fits, codes in _KINDS:
        if fits(kind):
            return codes(column)
    raise KeyTypeError(f"Keys are integers, strings, booleans and dates, got a column of {kind}.")


def _integer_codes(column: Any) -> Codes:
    numbers = column.to_numpy()
    if numbers.dtype.itemsize < 8:
        return np.asarray(numbers.astype(np.int32).view(np.uint32))
    bits = numbers.view(np.uint64)
    return np.asarray((bits ^ (bits >> np.uint64(32))).astype(np.uint32))


def _boolean_codes(column: Any) -> Codes:
    return np.where(column.to_numpy(zero_copy_only=False), _TRUE, _FALSE)


def _date_codes(column: Any) -> Codes:
    days = column.cast(pa.int32()).to_numpy().astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    day = (days - months).astype(np.int64) + 1
    year, month = np.divmod(months.astype(np.int64), 12)
    year += 1970
    return np.asarray(((year & 0xFFFFF800) ^ ((year << 11) + ((month + 1) << 6) + day)).astype(np.uint32))


def _text_codes(column: Any) -> Codes:
    offsets = text_offsets(column).astype(np.int64)
    codes = np.zeros(len(column), np.uint32)
    data = column.buffers()[2]
    if data is None or not len(column):
        return codes
    for first, beyond in _pieces(offsets):
        piece = offsets[first : beyond + 1]
        text = data[int(piece[0]) : int(piece[-1])]
        codes[first:beyond] = _polynomials(*_units(text, piece - piece[0]))
    return codes


def _pieces(offsets: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Runs of texts of about `_CHUNK_BYTES` together; a longer text is a run of its own."""
    rows, first = len(offsets) - 1, 0
    while first < rows:
        beyond = max(
            int(np.searchsorted(offsets, offsets[first] + _CHUNK_BYTES, side="right")) - 1, first + 1
        )
        yield first, beyond
        first = beyond


def _units(text: Any, offsets: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The UTF-16 units of adjacent UTF-8 texts, and where each text begins among them."""
    octets = np.frombuffer(text, np.uint8)
    if not len(octets) or octets.max() < 0x80:
        return octets, offsets
    units = np.frombuffer(
        text.to_pybytes().decode("utf-8", "surrogatepass").encode("utf-16-le", "surrogatepass"), "<u2"
    )
    # A sequence's first byte says how many units it makes: two beyond the basic plane, one below; those after
    # it make none.
    unit_counts = np.where(octets >= 0xF0, 2, (octets & 0xC0) != 0x80)
    return units, np.concatenate([[0], np.cumsum(unit_counts)])[offsets]


def _polynomials(units: NDArray[Any], offsets: NDArray[np.int64]) -> Codes:
    """Σ unit[i] · 31^(length - 1 - i) of each text, mod 2^32. 31 is odd and so has an inverse: one running
    sum of unit[i] · 31^-i over all texts gives every text by a difference.
    """
    lengths = np.diff(offsets)
    length = int(lengths[0]) if len(lengths) else 0
    if 0 < length <= _FEW_UNITS and bool(np.all(lengths == length)):
        # Identifiers mostly have one length: one column of units at a time, for all texts.
        codes = np.zeros(len(lengths), np.uint32)
        for column in units.reshape(-1, length).T:
            codes *= _TUPLE
            codes += column
        return codes
    powers, inverses = _powers(max(1 << len(units).bit_length(), 1 << 12))
    running = np.zeros(len(units) + 1, np.uint32)
    np.cumsum(units.astype(np.uint32) * inverses[: len(units)], out=running[1:], dtype=np.uint32)
    # An empty text has no last unit; its sum is 0 whatever the power.
    return np.asarray((running[offsets[1:]] - running[offsets[:-1]]) * powers[np.maximum(offsets[1:] - 1, 0)])


@lru_cache(maxsize=4)
def _powers(length: int) -> tuple[Codes, Codes]:
    up, down = (np.full(length, base, np.uint32) for base in (31, pow(31, -1, 2**32)))
    up[0] = down[0] = 1
    return np.cumprod(up, dtype=np.uint32), np.cumprod(down, dtype=np.uint32)


_KINDS: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any], Codes]], ...]] = (
    (pa.types.is_signed_integer, _integer_codes),
    (lambda kind: bool(pa.types.is_string(kind) or pa.types.is_large_string(kind)), _text_codes),
    (pa.types.is_boolean, _boolean_codes),
    (pa.types.is_date32, _date_codes),
)


def _scramble(codes: Codes) -> Codes:
    """Flink's MathUtils.murmurHash of each code: 0 to 2^31 - 1."""
    bits = codes * np.uint32(0xCC9E2D51)
    bits = bits << np.uint32(15) | bits >> np.uint32(17)
    bits *= np.uint32(0x1B873593)
    bits = bits << np.uint32(13) | bits >> np.uint32(19)
    bits *= np.uint32(5)
    bits += np.uint32(0xE6546B64)
    bits ^= np.uint32(4)
    for shift, multiplier in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        bits ^= bits >> np.uint32(shift)
        bits *= np.uint32(multiplier)
    bits ^= bits >> np.uint32(16)
    # Math.abs of the signed number, and 0 for Integer.MIN, whose only set bit is the sign.
    return np.abs(bits.view(np.int32)).view(np.uint32) & np.uint32(0x7FFFFFFF)
