"""The timer services of one operator, by name: made on demand, advanced together, snapshot and restored together.

Knows the order mode, and therefore which kind of queue a service gets; knows no window.
"""

from __future__ import annotations

from collections.abc import Iterator

from windowing.java import hash_order, string_hash
from windowing.order_modes import OrderMode
from windowing.processing_time_service import ProcessingTimeService
from windowing.runtime.heap_priority_queue import HeapPriorityQueueSet
from windowing.runtime.internal_timer_service import InternalTimerService, Triggerable
from windowing.runtime.key_group_index import KeyGroupIndex
from windowing.runtime.key_group_partitioned_priority_queue import KeyGroupPartitionedPriorityQueue
from windowing.runtime.timer_queue import TimerQueue
from windowing.state.journal import UndoJournal


class InternalTimeServiceManager:
    """Flink: InternalTimeServiceManagerImpl.

    Args:
        key_groups: the operator's keys and the range it owns.
        order_mode: which queues to make.
        clock: processing time of all services.
        journal: see InternalTimerService.
    """

    def __init__(
        self, key_groups: KeyGroupIndex, order_mode: OrderMode, clock: ProcessingTimeService, journal: UndoJournal | None = None
    ) -> None:
        self._key_groups, self._order_mode, self._clock, self._journal = key_groups, order_mode, clock, journal
        self._services: dict[str, InternalTimerService] = {}

    def get_internal_timer_service(self, name: str, target: Triggerable) -> InternalTimerService:
        """The service of that name; made for `target` at the first call."""
        if name not in self._services:
            self._services[name] = InternalTimerService(target, self._queue(), self._queue(), self._clock, self._journal)
        return self._services[name]

    def services(self) -> Iterator[tuple[str, InternalTimerService]]:
        """Names and services in the order in which Flink advances them: that of a HashMap of their names."""
        return iter([(name, self._services[name]) for name in hash_order(self._services, string_hash)])

    def advance_watermark(self, timestamp: int) -> None:
        """Advance one service after the other; each sees the watermark when its turn comes."""
        for _, service in self.services():
            service.advance_watermark(timestamp)

    def initialize_watermark(self, timestamp: int) -> None:
        for _, service in self.services():
            service.initialize_watermark(timestamp)

    def _queue(self) -> TimerQueue:
        index = self._key_groups
        if self._order_mode.has_heap_timers:
            return HeapPriorityQueueSet(index.key_groups, index.__getitem__, index.key_type.hash_code)
        return KeyGroupPartitionedPriorityQueue(index.key_groups, index.__getitem__, index.key_type.serialize)
