"""Timers in RocksDB, in the order of key_group_partitioned_priority_queue.py: per key group a set with its
first timers cached, across key groups a heap of these sets. `state.rocksdb.rows` lays out the rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.runtime.heap_priority_queue import HeapPriorityQueue
from slackwater.windowing.runtime.timer_queue import EMPTY_PRIORITY, Owner, Timer
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
    """The timers of one key group, as rows, written through (Flink: RocksDBCachingPriorityQueueSet).

    Args:
        rows: the timers; empty for this key group, unless `load` is called next.
        cache_size: how many of the first timers are cached, at least 1.
        is_flink_exact: count and iterate as Flink does: from the seek hint on, unless all timers are cached.
            That misses live ones that were added below the hint.
    """

    __slots__ = (
        "_all_in_cache",
        "_cache",
        "_cache_size",
        "_end",
        "_is_flink_exact",
        "_rows",
        "_seek_hint",
        "_start",
        "heap_index",
        "priority",
    )

    def __init__(self, rows: TimerRows, key_group: int, cache_size: int, is_flink_exact: bool) -> None:
        self._rows = rows
        self._start, self._end = key_group_start(key_group), key_group_start(key_group + 1)
        self._cache_size, self._is_flink_exact = cache_size, is_flink_exact
        self._cache: list[bytes] = []  # the first rows, in order
        self._all_in_cache = True
        self._seek_hint = self._start  # no row lies at or below it while the cache is empty
        self.priority = EMPTY_PRIORITY
        self.heap_index = 0

    def load(self) -> None:
        """Read the first timers from rows that were written to the column family directly."""
        self._cache, self._seek_hint, self._all_in_cache = [], self._start, False
        self._update_head()

    def add(self, row: bytes) -> None:
        cache = self._cache
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
            self.priority = timer_timestamp(row)

    def remove(self, row: bytes) -> None:
        self._rows.delete(row)
        cache = self._cache
        position = bisect_left(cache, row)
        if position == len(cache) or cache[position] != row:
            return
        del cache[position]
        if not cache:
            self._seek_hint = row
        if position == 0:
            self._update_head()

    def poll(self) -> bytes:
        row = self._cache.pop(0)
        self._rows.delete(row)
        if not self._cache:
            self._seek_hint = row
        self._update_head()
        return row

    def count(self) -> int:
        return len(self._cache) if self._all_in_cache else sum(1 for _ in self.iterate())

    def iterate(self) -> Iterator[bytes]:
        """Rows in order: every one, or with `is_flink_exact` those that Flink iterates over."""
        if self._is_flink_exact:
            return (row for row, _ in self._rows.scan(self._seek_hint + b"\x00", self._end))
        return self.rows_in_order()

    def rows_in_order(self) -> Iterator[bytes]:
        """Every row in order, from the first cached one on: deleted rows below it are slow to skip."""
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


class RocksDBTimerQueue:
    """A TimerQueue with one set per key group (Flink: KeyGroupPartitionedPriorityQueue). `rows` is an empty
    column family of its own; `layout` writes and reads its rows.
    """

    def __init__(
        self,
        key_groups: KeyGroupRange,
        key_group_of: Callable[[Any], int],
        rows: TimerRows,
        layout: RowLayout,
        *,
        cache_size: int,
        is_flink_exact: bool,
    ) -> None:
        self._key_group_of, self._rows = key_group_of, rows
        self._row, self._timer = layout.timer_row, layout.read_timer_row
        self._first_key_group = key_groups.first
        self._groups = [
            RocksDBCachingPriorityQueueSet(rows, key_group, cache_size, is_flink_exact)
            for key_group in key_groups
        ]
        self._heap = self._heap_of_groups()

    def __len__(self) -> int:
        return sum(group.count() for group in self._groups)

    def __contains__(self, timer: Timer) -> bool:
        return self._rows.get(self._row(*timer)) is not None

    def __iter__(self) -> Iterator[Timer]:
        return iter([self._timer(row) for group in self._groups for row in group.iterate()])

    def add(self, timestamp: int, key: Any, namespace: Any) -> None:
        group = self._groups[self._key_group_of(key) - self._first_key_group]
        head = group.priority
        group.add(self._row(timestamp, key, namespace))
        if group.priority != head:
            self._heap.adjust(group)

    def remove(self, timestamp: int, key: Any, namespace: Any) -> None:
        group = self._groups[self._key_group_of(key) - self._first_key_group]
        head = group.priority
        group.remove(self._row(timestamp, key, namespace))
        if group.priority != head:
            self._heap.adjust(group)

    def head_timestamp(self) -> int:
        head = self._heap.peek()
        return EMPTY_PRIORITY if head is None else head.priority

    def poll_due(self, limit: int) -> Timer | None:
        group = self._heap.peek()
        if group is None or group.priority > limit:
            return None
        head = group.priority
        row = group.poll()
        if group.priority != head:
            self._heap.adjust(group)
        return self._timer(row)

    def poll_together(self, limit: int) -> tuple[int, Sequence[Owner]] | None:
        timer = self.poll_due(limit)
        return None if timer is None else (timer[0], [timer[1:]])

    def snapshot(self, key_group: int) -> list[Timer]:
        return [self._timer(row) for row in self._groups[key_group - self._first_key_group].rows_in_order()]

    legacy_snapshot = snapshot

    def restore(self, timers: Iterable[Timer]) -> None:
        """Fill the sets, then build the heap of sets: as in Flink, cross-group ties show this order."""
        restored_groups = set()
        for timer in timers:
            self._rows.put(self._row(*timer), _NO_VALUE)
            restored_groups.add(self._key_group_of(timer[1]))
        for key_group in restored_groups:
            self._groups[key_group - self._first_key_group].load()
        self._heap = self._heap_of_groups()

    def _heap_of_groups(self) -> HeapPriorityQueue[RocksDBCachingPriorityQueueSet]:
        heap: HeapPriorityQueue[RocksDBCachingPriorityQueueSet] = HeapPriorityQueue()
        for group in self._groups:
            heap.add(group)
        return heap
