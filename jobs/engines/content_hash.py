"""A hash of rows that depends on their values alone: not on their order, their files, or the width of a type.

The content hash of a table is (number of rows, sum mod 2**256 of SHA-256 over each row's canonical encoding).
"""

import hashlib
import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from jobs.engines.inputs import EPOCH

_MODULUS = 1 << 256
_NAN = struct.pack(">d", math.nan)


def encode_value(value: Any) -> bytes:
    """One value: a tag, for what has no fixed width its length (4 bytes, big-endian), and the value.

    Integers of any width are alike, -0.0 is 0.0, there is one NaN; times and dates are the integers that Arrow stores (µs, days).
    """
    if value is None:
        return b"n"
    if isinstance(value, bool):
        return b"t" if value else b"f"
    if isinstance(value, int):
        data = value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
        return b"i" + len(data).to_bytes(4, "big") + data
    if isinstance(value, float):
        return b"d" + (_NAN if math.isnan(value) else struct.pack(">d", value + 0.0))
    if isinstance(value, str):
        data = value.encode()
        return b"s" + len(data).to_bytes(4, "big") + data
    if isinstance(value, bytes):
        return b"b" + len(value).to_bytes(4, "big") + value
    if isinstance(value, Decimal):
        text = format(abs(value) if value.is_zero() else value, "f")
        data = (text.rstrip("0").rstrip(".") if "." in text else text).encode()
        return b"m" + len(data).to_bytes(4, "big") + data
    if isinstance(value, datetime):
        return encode_value(((value if value.tzinfo else value.replace(tzinfo=UTC)) - EPOCH) // EPOCH.resolution)
    if isinstance(value, date):
        return encode_value((value - EPOCH.date()).days)
    if isinstance(value, dict):
        return b"{" + b"".join(encode_value(item) for item in value.values()) + b"}"
    if isinstance(value, list | tuple):
        return b"[" + b"".join(encode_value(item) for item in value) + b"]"
    raise TypeError(f"no canonical encoding for {type(value).__name__}")


def plain_columns(table: pa.Table, names: Sequence[str]) -> list[list[Any]]:
    """The named columns as Python values; timestamps and dates as the integers that they are stored as."""
    columns = []
    for name in names:
        column = table.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
        elif pa.types.is_date32(column.type):
            column = column.cast(pa.int32())
        columns.append(column.to_pylist())
    return columns


def row_digests(table: pa.Table, names: Sequence[str], prefix: str = "") -> Iterator[bytes]:
    """SHA-256 of each row's canonical encoding over the named columns, in row order."""
    head = encode_value(prefix)
    if not names:
        return
    for values in zip(*plain_columns(table, names), strict=True):
        yield hashlib.sha256(head + b"".join(map(encode_value, values))).digest()


class ContentHash:
    """The content hash of the rows added so far. Adding tables in any order, or in any pieces, gives the same hash."""

    def __init__(self, rows: int = 0, total: int = 0) -> None:
        self.rows = rows
        self.total = total

    def add(self, table_name: str, table: pa.Table, without: Iterable[str]) -> None:
        """Add the rows of `table` over all columns but `without`; `table_name` keeps equal rows of two tables apart."""
        skipped = set(without)
        for digest in row_digests(table, [name for name in table.column_names if name not in skipped], table_name):
            self.rows += 1
            self.total = (self.total + int.from_bytes(digest, "big")) % _MODULUS

    def merge(self, other: "ContentHash") -> None:
        """Add the rows of another hash."""
        self.rows += other.rows
        self.total = (self.total + other.total) % _MODULUS

    def __str__(self) -> str:
        return f"{self.rows}:{self.total:064x}"

    @classmethod
    def parse(cls, text: str) -> "ContentHash":
        """The inverse of `str`."""
        rows, total = text.split(":")
        return cls(int(rows), int(total, 16))
