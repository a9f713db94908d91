"""Timers in RocksDB's order: a queue per key group, and a heap of these queues. In memory a key group's
timers are in buckets by timestamp, each sorted when it is due.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol

from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.own_windows import serialize
from slackwater.windowing.runtime.heap_priority_queue import HeapPriorityQueue
from slackwater.windowing.runtime.timer_queue import EMPTY_PRIORITY, Owner, Timer

_ABSENT: Final = object()
_STALE_TIMES_TOLERATED = 64


class _Drain:
    """A bucket being polled: owners in firing order, up to `head`; skip those whose timers were removed."""

    __slots__ = ("bucket", "head", "owners", "timestamp")

    def __init__(self, timestamp: int, bucket: dict[Any, Any], owners: list[Owner]) -> None:
        self.timestamp, self.bucket, self.owners = timestamp, bucket, owners
        self.head = 0


class KeyGroupTimers:
    """A KeyGroupQueue in memory: by timestamp, then by the bytes of key and namespace.

    A bucket maps a key to its namespace, or to a list of them where one key has several timers at that time.
    No object per timer: a million windows have two million timers. `serialize_key` gives Flink's bytes of a
    key; none begins with another's, so keys alone order timers, except those of one key.
    """

    __slots__ = ("_drain", "_drains", "_serialize_key", "_times", "buckets", "heap_index", "priority")

    def __init__(self, serialize_key: Callable[[Any], bytes]) -> None:
        self._serialize_key = serialize_key
        self.buckets: dict[int, dict[Any, Any]] = {}
        self._drains: dict[int, _Drain] = {}
        self._drain: _Drain | None = None  # of the bucket polled last, until that is empty
        self._times: list[int] = []  # a heap; may hold timestamps whose bucket is gone
        self.priority = EMPTY_PRIORITY
        self.heap_index = 0

    def __len__(self) -> int:
        return sum(
            len(occupant) if type(occupant) is list else 1
            for bucket in self.buckets.values()
            for occupant in bucket.values()
        )

    def add(self, timestamp: int, key: Any, namespace: Any) -> None:
        bucket = self.buckets.get(timestamp)
        if bucket is None:
            self.buckets[timestamp] = {key: namespace}
            heapq.heappush(self._times, timestamp)
            if timestamp < self.priority:
                self.priority = timestamp
            return
        occupant = bucket.get(key, _ABSENT)
        if occupant is _ABSENT:
            bucket[key] = namespace
        elif type(occupant) is not list:
            if occupant == namespace:
                return
            bucket[key] = [occupant, namespace]
        elif namespace in occupant:
            return
        else:
            occupant.append(namespace)
        if timestamp in self._drains:
            drain = self._drains[timestamp]
            insort(drain.owners, (key, namespace), lo=drain.head, key=self._order)

    def remove(self, timestamp: int, key: Any, namespace: Any) -> None:
        bucket = self.buckets.get(timestamp)
        if bucket is None:
            return
        is_alone = len(bucket) == 1 and bucket.get(key, _ABSENT) is namespace
        if is_alone or (_discard(bucket, key, namespace) and not bucket):
            self._drop_bucket(timestamp)

    def contains(self, timestamp: int, key: Any, namespace: Any) -> bool:
        occupant = self.buckets.get(timestamp, {}).get(key, _ABSENT)
        return namespace in occupant if type(occupant) is list else bool(occupant == namespace)

    def poll(self) -> Timer:
        timestamp, drain = self.priority, self._drain
        if drain is None or drain.timestamp != timestamp:
            drain = self._drain = self._drain_of(timestamp)
        bucket, owners = drain.bucket, drain.owners
        while True:
            key, namespace = owners[drain.head]
            drain.head += 1
            if bucket.get(key, _ABSENT) is namespace:
                del bucket[key]
                break
            if _discard(bucket, key, namespace):
                break
        if not bucket:
            self._drop_bucket(timestamp)
        return (timestamp, key, namespace)

    def timers_in_order(self) -> Iterator[Timer]:
        for timestamp in sorted(self.buckets):
            for key, namespace in self._owners(self.buckets[timestamp]):
                yield timestamp, key, namespace

    def _drain_of(self, timestamp: int) -> _Drain:
        if timestamp not in self._drains:
            bucket = self.buckets[timestamp]
            self._drains[timestamp] = _Drain(timestamp, bucket, self._owners(bucket))
        return self._drains[timestamp]

    def _owners(self, bucket: dict[Any, Any]) -> list[Owner]:
        owners: list[Owner] = []
        for key in sorted(bucket, key=self._serialize_key) if len(bucket) > 1 else bucket:
            occupant = bucket[key]
            if type(occupant) is list:
                owners += [(key, namespace) for namespace in sorted(occupant, key=_namespace_bytes)]
            else:
                owners.append((key, occupant))
        return owners

    def _order(self, owner: Owner) -> bytes:
        key, namespace = owner
        return self._serialize_key(key) + _namespace_bytes(namespace)

    def _drop_bucket(self, timestamp: int) -> None:
        buckets, times = self.buckets, self._times
        del buckets[timestamp]
        self._drains.pop(timestamp, None)
        self._drain = None
        if len(times) > 2 * len(buckets) + _STALE_TIMES_TOLERATED:
            times[:] = buckets
            heapq.heapify(times)
        if timestamp == self.priority:
            while times and times[0] not in buckets:
                heapq.heappop(times)
            self.priority = times[0] if times else EMPTY_PRIORITY


def _namespace_bytes(namespace: Any) -> bytes:
    return b"" if namespace is None else serialize(namespace)


def _discard(bucket: dict[Any, Any], key: Any, namespace: Any) -> bool:
    occupant = bucket.get(key, _ABSENT)
    if type(occupant) is not list:
        if occupant is not namespace and (occupant is _ABSENT or occupant != namespace):
            return False
        del bucket[key]
        return True
    if namespace not in occupant:
        return False
    occupant.remove(namespace)
    if len(occupant) == 1:
        bucket[key] = occupant[0]
    return True


class KeyGroupQueue(Protocol):
    """The timers of one key group, in the order of their rows in RocksDB. `priority` is the timestamp of the
    first, EMPTY_PRIORITY for none; the heap of queues keeps `heap_index`. `buckets` are as in KeyGroupTimers;
    a queue outside memory has none.
    """

    buckets: dict[int, dict[Any, Any]]
    priority: int
    heap_index: int

    def __len__(self) -> int: ...

    def add(self, timestamp: int, key: Any, namespace: Any) -> None: ...

    def remove(self, timestamp: int, key: Any, namespace: Any) -> None: ...

    def contains(self, timestamp: int, key: Any, namespace: Any) -> bool: ...

    def poll(self) -> Timer:
        """Remove and return the first timer; there must be one."""

    def timers_in_order(self) -> Iterator[Timer]: ...


class KeyGroupPartitionedPriorityQueue:
    """A TimerQueue of one queue per key group, in memory or in RocksDB, and a heap of these queues (Flink:
    KeyGroupPartitionedPriorityQueue). `make_queue`: key group → its queue, empty.
    """

    def __init__(
        self,
        key_groups: KeyGroupRange,
        key_group_of: Callable[[Any], int],
        make_queue: Callable[[int], KeyGroupQueue],
    ) -> None:
        self._key_group_of = key_group_of
        self._first_key_group = key_groups.first
        self._groups = [make_queue(key_group) for key_group in key_groups]
        self._heap = self._heap_of_groups()

    def __len__(self) -> int:
        return sum(map(len, self._groups))

    def __contains__(self, timer: Timer) -> bool:
        return self._groups[self._key_group_of(timer[1]) - self._first_key_group].contains(*timer)

    def __iter__(self) -> Iterator[Timer]:
        return iter([timer for group in self._groups for timer in group.timers_in_order()])

    def add(self, timestamp: int, key: Any, namespace: Any) -> None:
        group = self._groups[self._key_group_of(key) - self._first_key_group]
        bucket = group.buckets.get(timestamp)
        if bucket is not None and bucket.get(key, _ABSENT) is namespace:
            return  # the most frequent case: a trigger registers the timer of its window for each element
        head = group.priority
        group.add(timestamp, key, namespace)
        if group.priority != head:
            self._heap.adjust(group)

    def remove(self, timestamp: int, key: Any, namespace: Any) -> None:
        group = self._groups[self._key_group_of(key) - self._first_key_group]
        head = group.priority
        group.remove(timestamp, key, namespace)
        if group.priority != head:
            self._heap.adjust(group)

    def head_timestamp(self) -> int:
        head = self._heap.peek()
        return EMPTY_PRIORITY if head is None else head.priority

    def poll_due(self, limit: int) -> Timer | None:
        group = self._heap.peek()
        if group is None or group.priority > limit:
            return None
        timer = group.poll()
        if group.priority != timer[0]:
            self._heap.adjust(group)
        return timer

    def snapshot(self, key_group: int) -> list[Timer]:
        return list(self._groups[key_group - self._first_key_group].timers_in_order())

    legacy_snapshot = snapshot

    def restore(self, timers: Iterable[Timer]) -> None:
        """Fill the queues, then build the heap of queues: as in Flink, cross-group ties show this order."""
        for timer in timers:
            self._groups[self._key_group_of(timer[1]) - self._first_key_group].add(*timer)
        self._heap = self._heap_of_groups()

    def _heap_of_groups(self) -> HeapPriorityQueue[KeyGroupQueue]:
        heap: HeapPriorityQueue[KeyGroupQueue] = HeapPriorityQueue()
        for group in self._groups:
            heap.add(group)
        return heap
