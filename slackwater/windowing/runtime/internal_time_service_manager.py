"""One operator's timer services, by name: created, advanced, snapshotted and restored; no windows here."""

from __future__ import annotations

from collections.abc import Iterator

from slackwater.windowing.java import hash_order, string_hash
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.processing_time_service import ProcessingTimeService
from slackwater.windowing.runtime.internal_timer_service import InternalTimerService, Triggerable
from slackwater.windowing.runtime.key_group_index import KeyGroupIndex
from slackwater.windowing.runtime.operator_storage import MakeTimerQueue, queue_in_memory
from slackwater.windowing.runtime.timer_queue import TimerQueue
from slackwater.windowing.state.journal import UndoJournal


class InternalTimeServiceManager:
    """Flink: InternalTimeServiceManagerImpl. `clock` is the processing time of all services."""

    def __init__(
        self,
        key_groups: KeyGroupIndex,
        order_mode: OrderMode,
        clock: ProcessingTimeService,
        journal: UndoJournal | None = None,
        make_timer_queue: MakeTimerQueue = queue_in_memory,
    ) -> None:
        self._key_groups, self._order_mode, self._clock, self._journal = (
            key_groups,
            order_mode,
            clock,
            journal,
        )
        self._make_timer_queue = make_timer_queue
        self._services: dict[str, InternalTimerService] = {}

    def get_internal_timer_service(self, name: str, target: Triggerable) -> InternalTimerService:
        """The service of that name, created for `target` at the first call."""
        if name not in self._services:
            event, processing = (self._make_queue(f"{domain}_{name}") for domain in ("event", "processing"))
            self._services[name] = InternalTimerService(target, event, processing, self._clock, self._journal)
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

    def _make_queue(self, name: str) -> TimerQueue:
        return self._make_timer_queue(name, self._key_groups, self._order_mode)
