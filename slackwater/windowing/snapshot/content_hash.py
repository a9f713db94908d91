"""A hash of rows that depends on their values alone, not on order, files, or width of types."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import pyarrow as pa

from slackwater.windowing.snapshot.fingerprints import fingerprints
from slackwater.windowing.snapshot.row_encoding import encode_rows, encode_value

_MASK = (1 << 64) - 1
_ROWS_ENCODED_AT_ONCE = 1 << 15  # the columns of so many rows fit into the processor's cache
# A column of so many rows is 1 MB. With fewer, threads wait for each other more than they hash.
_ROWS_AT_ONCE = 1 << 17


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
