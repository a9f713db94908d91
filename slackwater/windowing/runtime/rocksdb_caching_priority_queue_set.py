"""Timers in RocksDB, in the order of key_group_partitioned_priority_queue.py: per key group a set with its
first timers cached. `state.rocksdb.rows` lays out the rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Protocol

from slackwater.windowing.runtime.timer_queue import EMPTY_PRIORITY, Timer
from slackwater.windowing.state.rocksdb.rows import RowLayout, key_group_start, timer_timestamp

_NO_VALUE = b""


class TimerRows(Protocol):
    """Sorted rows whose keys are timers: a column family of a RocksDBDatabase."""

    def get(self, key: bytes) -> bytes | None: ...

    def put(self, key: bytes, value: bytes) -> None: ...

    def delete(self, key: bytes) -> None: ...

    def first(self, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]: ...

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]: ...


class RocksDBCachingPriorityQueueSet:
    """A KeyGroupQueue of rows, written through (Flink: RocksDBCachingPriorityQueueSet).

    Args:
        rows: of all key groups; empty for this one.
        layout: writes and reads the rows.
        cache_size: how many of the first timers are cached, at least 1.
    """

    __slots__ = (
        "_all_in_cache",
        "_cache",
        "_cache_size",
        "_end",
        "_read",
        "_row",
        "_rows",
        "_seek_hint",
        "buckets",
        "heap_index",
        "priority",
    )

    def __init__(self, rows: TimerRows, layout: RowLayout, key_group: int, cache_size: int = 128) -> None:
        self._rows, self._row, self._read = rows, layout.timer_row, layout.read_timer_row
        self._end = key_group_start(key_group + 1)
        self._cache_size = cache_size
        self._cache: list[bytes] = []  # the first rows, in order
        self._all_in_cache = True
        # No row lies at or below it while the cache is empty.
        self._seek_hint = key_group_start(key_group)
        self.buckets: dict[int, dict[Any, Any]] = {}
        self.priority = EMPTY_PRIORITY
        self.heap_index = 0

    def __len__(self) -> int:
        return len(self._cache) if self._all_in_cache else sum(1 for _ in self._rows_in_order())

    def add(self, timestamp: int, key: Any, namespace: Any) -> None:
        row, cache = self._row(timestamp, key, namespace), self._cache
        is_full = len(cache) >= self._cache_size
        if (is_full or not self._all_in_cache) and row >= cache[-1]:
            self._rows.put(row, _NO_VALUE)
            self._all_in_cache = False
            return
        position = bisect_left(cache, row)
        if position < len(cache) and cache[position] == row:
            return
        if is_full:
            cache.pop()
            self._all_in_cache = False
        cache.insert(position, row)
        self._rows.put(row, _NO_VALUE)
        if position == 0:
            self.priority = timestamp

    def remove(self, timestamp: int, key: Any, namespace: Any) -> None:
        row, cache = self._row(timestamp, key, namespace), self._cache
        self._rows.delete(row)
        position = bisect_left(cache, row)
        if position == len(cache) or cache[position] != row:
            return
        del cache[position]
        if not cache:
            self._seek_hint = row
        if position == 0:
            self._update_head()

    def contains(self, timestamp: int, key: Any, namespace: Any) -> bool:
        return self._rows.get(self._row(timestamp, key, namespace)) is not None

    def poll(self) -> Timer:
        row = self._cache.pop(0)
        self._rows.delete(row)
        if not self._cache:
            self._seek_hint = row
        self._update_head()
        return self._read(row)

    def timers_in_order(self) -> Iterator[Timer]:
        return map(self._read, self._rows_in_order())

    def _rows_in_order(self) -> Iterator[bytes]:
        """From the first cached row on: deleted rows below it are slow to skip."""
        if self._all_in_cache:
            return iter(self._cache)
        return (row for row, _ in self._rows.scan(self._cache[0], self._end))

    def _update_head(self) -> None:
        """After the head has changed: refill the empty cache, and take the new head's timestamp."""
        if not self._cache and not self._all_in_cache:
            first_rows = self._rows.first(self._seek_hint + b"\x00", self._end, self._cache_size + 1)
            self._all_in_cache = len(first_rows) <= self._cache_size
            self._cache = [row for row, _ in first_rows[: self._cache_size]]
        self.priority = timer_timestamp(self._cache[0]) if self._cache else EMPTY_PRIORITY
