"""Java's integers and hash order: wrapping arithmetic, remainder, hash codes, HashMap iteration order."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")

LONG_MIN = -(2**63)
LONG_MAX = 2**63 - 1
INT_MIN = -(2**31)

_MASK_64 = 2**64 - 1
_MASK_32 = 2**32 - 1


def wrap_long(value: int) -> int:
    """`value` as a signed 64-bit integer, the result of Java's long arithmetic."""
    return ((value + 2**63) & _MASK_64) - 2**63


def wrap_int(value: int) -> int:
    return ((value + 2**31) & _MASK_32) - 2**31


def remainder(dividend: int, divisor: int) -> int:
    """Java's `%`: truncates toward zero, so the result has the dividend's sign; raises ZeroDivisionError."""
    left_over = abs(dividend) % abs(divisor)
    return -left_over if dividend < 0 else left_over


def quotient(dividend: int, divisor: int) -> int:
    """Java's `/` on longs: truncates toward zero."""
    result = abs(dividend) // abs(divisor)
    return wrap_long(-result if (dividend < 0) != (divisor < 0) else result)


def absolute(value: int) -> int:
    """Java's `Math.abs(long)`: Long.MIN stays negative."""
    return wrap_long(abs(value))


def long_hash(value: int) -> int:
    bits = value & _MASK_64
    return wrap_int(bits ^ (bits >> 32))


def string_hash(text: str) -> int:
    """`String.hashCode`, over UTF-16 units."""
    result = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            result = (31 * result + unit) & _MASK_32
    else:
        for unit in utf16_units(text):
            result = (31 * result + unit) & _MASK_32
    return wrap_int(result)


def utf16_units(text: str) -> tuple[int, ...]:
    utf16_bytes = text.encode("utf-16-be", "surrogatepass")
    return struct.unpack(f">{len(utf16_bytes) // 2}H", utf16_bytes)


@lru_cache(maxsize=1 << 16)  # the hash codes of sessions are asked for again with every element
def mix_to_int(value: int) -> int:
    """64 bits mixed into a signed 32-bit hash (Flink: MathUtils.longToIntWithBitMixing)."""
    bits = value & _MASK_64
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK_64
    return wrap_int(bits ^ (bits >> 31))


def table_size_for(capacity: int) -> int:
    """The power of two at or above `capacity` (Java: HashMap.tableSizeFor)."""
    return 1 << max(capacity - 1, 0).bit_length()


def expected_size_capacity(entries: int) -> int:
    """Table size of a hash map for so many entries (Flink: CollectionUtil.newHashMapWithExpectedSize)."""
    return table_size_for(entries + 1 if entries <= 2 else -(-entries * 4 // 3))


def grown_table(table: int, entries: int) -> int:
    """Table size after the insertion of entry number `entries`: doubled when three quarters are exceeded."""
    while entries * 4 > table * 3:
        table *= 2
    return table


def hash_order(items: Iterable[T], hash_code: Callable[[T], int], table: int | None = None) -> list[T]:
    """Distinct `items`, in order of insertion, in the iteration order of a `java.util.HashSet` or `HashMap`.

    By bucket, and inside a bucket by insertion, which growing the table preserves. Buckets that Java turns
    into trees (8 colliding entries in a table of 64 or more) are not modelled. `hash_code` is Java's, signed
    32 bits; `table` the table's size, unless that of a map that was only added to.
    """
    entries = list(items)
    if len(entries) < 2:
        return entries
    mask = (grown_table(16, len(entries)) if table is None else table) - 1

    def bucket(item: T) -> int:
        bits = hash_code(item) & _MASK_32
        return (bits ^ (bits >> 16)) & mask

    entries.sort(key=bucket)
    return entries
