"""Timers in RocksDB's order: inside a key group by timestamp, serialized key and window; across key groups a heap of the groups' queues.

The order is RocksDB's, the storage is memory. A queue of one key group is a plain binary heap of bytes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from windowing.key_groups import KeyGroupRange
from windowing.runtime.heap_priority_queue import HeapPriorityQueue
from windowing.runtime.timer_queue import EMPTY_PRIORITY, Timer

Entry = tuple[bytes, Timer]

_TOLERATED_DEAD = 64


class KeyGroupTimers:
    """The timers of one key group, in the order of their bytes. Removed ones stay in the heap until they come up or outnumber the live.

    Attributes:
        priority: timestamp of the first timer, EMPTY_PRIORITY when there is none.
        heap_index: kept by the heap of queues.
    """

    __slots__ = ("_dead", "_heap", "_is_live", "heap_index", "priority")

    def __init__(self, is_live: Callable[[Entry], bool]) -> None:
        self._is_live = is_live
        self._heap: list[Entry] = []
        self._dead = 0
        self.priority = EMPTY_PRIORITY
        self.heap_index = 0

    def load(self, entries: list[Entry]) -> None:
        """Fill the empty queue."""
        self._heap = sorted(entries)
        self._find_head()

    def add(self, entry: Entry) -> None:
        """Add an entry that is not there."""
        heapq.heappush(self._heap, entry)
        timestamp = entry[1][0]
        if timestamp < self.priority:
            self.priority = timestamp

    def removed(self) -> None:
        """One entry has died: `is_live` denies it already."""
        self._dead += 1
        if self._dead > _TOLERATED_DEAD and self._dead * 2 > len(self._heap):
            self._heap = list(filter(self._is_live, self._heap))
            heapq.heapify(self._heap)
            self._dead = 0
        self._find_head()

    def poll(self) -> Timer:
        """Remove the first entry; the queue must hold one. The caller forgets it."""
        timer = heapq.heappop(self._heap)[1]
        self._find_head()
        return timer

    def ordered(self) -> list[Entry]:
        return sorted(filter(self._is_live, self._heap))

    def _find_head(self) -> None:
        heap = self._heap
        while heap and not self._is_live(heap[0]):
            heapq.heappop(heap)
            self._dead -= 1
        self.priority = heap[0][1][0] if heap else EMPTY_PRIORITY


class KeyGroupPartitionedPriorityQueue:
    """A TimerQueue with one queue for each key group (Flink: KeyGroupPartitionedPriorityQueue of RocksDBCachingPriorityQueueSet).

    Args:
        key_groups: the range owned.
        key_group_of: key → key group.
        serialize_key: the key's bytes, as Flink's serializer writes them.
    """

    def __init__(self, key_groups: KeyGroupRange, key_group_of: Callable[[Any], int], serialize_key: Callable[[Any], bytes]) -> None:
        self._key_group_of, self._serialize_key = key_group_of, serialize_key
        self._first_key_group = key_groups.first
        self._entries: dict[Timer, Entry] = {}
        self._groups = [KeyGroupTimers(self._is_live) for _ in key_groups]
        self._heap = self._heap_of_groups()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, timer: Timer) -> bool:
        return timer in self._entries

    def __iter__(self) -> Iterator[Timer]:
        """Group by group, in order inside each."""
        return iter([entry[1] for group in self._groups for entry in group.ordered()])

    def add(self, timestamp: int, key: Any, namespace: Any) -> None:
        timer = (timestamp, key, namespace)
        if timer in self._entries:
            return
        group = self._groups[self._key_group_of(key) - self._first_key_group]
        self._entries[timer] = entry = self._entry(timer)
        head = group.priority
        group.add(entry)
        if group.priority != head:
            self._heap.adjust(group)

    def remove(self, timestamp: int, key: Any, namespace: Any) -> None:
        if self._entries.pop((timestamp, key, namespace), None) is None:
            return
        group = self._groups[self._key_group_of(key) - self._first_key_group]
        head = group.priority
        group.removed()
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
        timer = group.poll()
        del self._entries[timer]
        if group.priority != head:
            self._heap.adjust(group)
        return timer

    def snapshot(self, key_group: int) -> list[Timer]:
        """In the order of the bytes."""
        return [entry[1] for entry in self._groups[key_group - self._first_key_group].ordered()]

    legacy_snapshot = snapshot

    def restore(self, timers: Iterable[Timer]) -> None:
        """All at once: as in Flink, the queues have their contents before the heap of queues is made, which shows in cross-group ties."""
        loads: list[list[Entry]] = [[] for _ in self._groups]
        for timer in timers:
            self._entries[timer] = entry = self._entry(timer)
            loads[self._key_group_of(timer[1]) - self._first_key_group].append(entry)
        for group, entries in zip(self._groups, loads, strict=True):
            group.load(entries)
        self._heap = self._heap_of_groups()

    def _heap_of_groups(self) -> HeapPriorityQueue[KeyGroupTimers]:
        heap: HeapPriorityQueue[KeyGroupTimers] = HeapPriorityQueue()
        for group in self._groups:
            heap.add(group)
        return heap

    def _entry(self, timer: Timer) -> Entry:
        timestamp, key, namespace = timer
        order = (timestamp + 2**63).to_bytes(8, "big") + self._serialize_key(key)
        return (order if namespace is None else order + namespace.serialize(), timer)

    def _is_live(self, entry: Entry) -> bool:
        return self._entries.get(entry[1]) is entry
