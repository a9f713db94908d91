"""Flink's binary heap, sift by sift: equal priorities are ordered by all earlier additions and removals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from slackwater.windowing.java import expected_size_capacity, grown_table, hash_order, long_hash, wrap_int
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.own_windows import java_hash
from slackwater.windowing.runtime.timer_queue import EMPTY_PRIORITY, Timer


class HeapElement(Protocol):
    """An element with a `priority`, lowest first (after a change, call `adjust`), and its heap position."""

    priority: int
    heap_index: int


E = TypeVar("E", bound=HeapElement)


class HeapPriorityQueue(Generic[E]):
    """Flink: HeapPriorityQueue. One-based array; only strictly smaller elements move up."""

    def __init__(self) -> None:
        self._heap: list[Any] = [None]

    def __len__(self) -> int:
        return len(self._heap) - 1

    def __iter__(self) -> Iterator[E]:
        return iter(self._heap[1:])

    def peek(self) -> E | None:
        return self._heap[1] if len(self._heap) > 1 else None

    def add(self, element: E) -> None:
        element.heap_index = len(self._heap)
        self._heap.append(element)
        self._sift_up(element)

    def remove(self, element: E) -> None:
        heap = self._heap
        index = element.heap_index
        last = heap[-1]
        if last is not element:
            heap[index] = last
            last.heap_index = index
            self.adjust(last)  # the array still ends with the old slot of `last` while it sifts, as in Flink
        heap.pop()

    def poll(self) -> E | None:
        element = self.peek()
        if element is not None:
            self.remove(element)
        return element

    def adjust(self, element: E) -> None:
        index = element.heap_index
        self._sift_down(element)
        if element.heap_index == index:
            self._sift_up(element)

    def _sift_up(self, element: E) -> None:
        heap, index, priority = self._heap, element.heap_index, element.priority
        parent = index >> 1
        while parent > 0 and priority < heap[parent].priority:
            heap[index] = parent_element = heap[parent]
            parent_element.heap_index = index
            index, parent = parent, parent >> 1
        heap[index] = element
        element.heap_index = index

    def _sift_down(self, element: E) -> None:
        heap, index, priority = self._heap, element.heap_index, element.priority
        size = len(heap)
        child = index << 1
        while child < size:
            if child + 1 < size and heap[child + 1].priority < heap[child].priority:
                child += 1
            child_element = heap[child]
            if child_element.priority >= priority:
                break
            heap[index] = child_element
            child_element.heap_index = index
            index, child = child, child << 1
        heap[index] = element
        element.heap_index = index


class _HeapTimer:
    __slots__ = ("heap_index", "priority", "timer")

    def __init__(self, timer: Timer) -> None:
        self.timer = timer
        self.priority = timer[0]
        self.heap_index = 0


class _KeyGroupTimers:
    """The distinct timers of one key group. `table` is the size of Flink's hash map, which never shrinks."""

    __slots__ = ("by_timer", "table")

    def __init__(self, table: int) -> None:
        self.by_timer: dict[Timer, _HeapTimer] = {}
        self.table = table


class HeapPriorityQueueSet:
    """A TimerQueue on one heap over all key groups, with one set per key group (Flink: HeapPriorityQueueSet).

    `key_hash` is Java's hash code of a key, for the order of Flink's legacy timer snapshots.
    """

    def __init__(
        self, key_groups: KeyGroupRange, key_group_of: Callable[[Any], int], key_hash: Callable[[Any], int]
    ) -> None:
        self._heap: HeapPriorityQueue[_HeapTimer] = HeapPriorityQueue()
        self._key_group_of, self._key_hash = key_group_of, key_hash
        table = expected_size_capacity(1 + _MINIMUM_CAPACITY // len(key_groups))
        self._groups = {key_group: _KeyGroupTimers(table) for key_group in key_groups}

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Timer]:
        return iter([element.timer for element in self._heap])

    def __contains__(self, timer: Timer) -> bool:
        return timer in self._groups[self._key_group_of(timer[1])].by_timer

    def add(self, timestamp: int, key: Any, namespace: Any) -> None:
        timer = (timestamp, key, namespace)
        group = self._groups[self._key_group_of(key)]
        if timer in group.by_timer:
            return
        group.by_timer[timer] = element = _HeapTimer(timer)
        group.table = grown_table(group.table, len(group.by_timer))
        self._heap.add(element)

    def remove(self, timestamp: int, key: Any, namespace: Any) -> None:
        element = self._groups[self._key_group_of(key)].by_timer.pop((timestamp, key, namespace), None)
        if element is not None:
            self._heap.remove(element)

    def head_timestamp(self) -> int:
        head = self._heap.peek()
        return EMPTY_PRIORITY if head is None else head.priority

    def poll_due(self, limit: int) -> Timer | None:
        head = self._heap.peek()
        if head is None or head.priority > limit:
            return None
        self._heap.remove(head)
        timer = head.timer
        del self._groups[self._key_group_of(timer[1])].by_timer[timer]
        return timer

    def snapshot(self, key_group: int) -> list[Timer]:
        """In the order of the heap's array (Flink: KeyGroupPartitioner over the array)."""
        return [element.timer for element in self._heap if self._key_group_of(element.timer[1]) == key_group]

    def legacy_snapshot(self, key_group: int) -> list[Timer]:
        """The order of Flink's InternalTimersSnapshot: the hash map, read back through a hash set."""
        group = self._groups[key_group]
        written = hash_order(group.by_timer, self._timer_hash, group.table)
        table = grown_table(expected_size_capacity(len(written)), len(written))
        return hash_order(written, self._timer_hash, table)

    def restore(self, timers: Iterable[Timer]) -> None:
        for timer in timers:
            self.add(*timer)

    def _timer_hash(self, timer: Timer) -> int:
        timestamp, key, namespace = timer
        namespace_hash = _VOID_NAMESPACE_HASH if namespace is None else java_hash(namespace)
        return wrap_int(31 * (31 * long_hash(timestamp) + self._key_hash(key)) + namespace_hash)


_MINIMUM_CAPACITY = 128  # of a queue, as Flink's factory makes it
_VOID_NAMESPACE_HASH = 99
