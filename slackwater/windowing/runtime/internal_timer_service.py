"""One operator's timers under one name: event time by the watermark, processing time by a physical timer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Protocol

from slackwater.windowing.java import LONG_MAX, LONG_MIN
from slackwater.windowing.key_groups import KeyGroupIndex
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.processing_time_service import ProcessingTimeService, ScheduledTimer
from slackwater.windowing.runtime.operator_storage import IN_MEMORY, OperatorStorage
from slackwater.windowing.runtime.timer_queue import EMPTY_PRIORITY, Timer, TimerQueue
from slackwater.windowing.state.backend import UndoJournal


class Triggerable(Protocol):
    """The owner of timers, called when due with `current_key` set (Flink: Triggerable, KeyContext)."""

    current_key: Any

    def on_event_time(self, timestamp: int, key: Any, namespace: Any) -> None: ...

    def on_processing_time(self, timestamp: int, key: Any, namespace: Any) -> None: ...


RegisterTimer = Callable[[int, Any, Any], None]


class InternalTimerService:
    """Timers (timestamp, key, namespace), each once per domain (Flink: InternalTimerServiceImpl).

    Args:
        name: under which snapshots keep the timers.
        clock: where the physical timer for the head of the processing-time queue is registered.
        journal: where to note how to undo registrations and deletions; None for none.

    Attributes:
        current_watermark: Long.MIN until the first `advance_watermark` or `initialize_watermark`.
        has_gone_back: whether the watermark has ever fallen: it was set lower, or timers were restored
            without it. Timers that it had passed may then have to be registered again.
    """

    def __init__(
        self,
        name: str,
        target: Triggerable,
        key_groups: KeyGroupIndex,
        order_mode: OrderMode,
        clock: ProcessingTimeService,
        *,
        journal: UndoJournal | None = None,
        storage: OperatorStorage = IN_MEMORY,
    ) -> None:
        self.name = name
        self._target, self._clock, self._journal = target, clock, journal
        event_timers, self.processing_timers = (
            storage.make_timer_queue(f"{domain}_{name}", key_groups, order_mode)
            for domain in ("event", "processing")
        )
        self.event_timers = event_timers
        self.current_watermark = LONG_MIN
        self.has_gone_back = False
        self._physical: ScheduledTimer | None = None
        # Bound here, because these two are called for every element.
        self.register_event_time_timer: RegisterTimer = (
            event_timers.add if journal is None else partial(self._add_undoably, event_timers)
        )
        self.delete_event_time_timer: RegisterTimer = (
            event_timers.remove if journal is None else partial(self._remove_undoably, event_timers)
        )

    @property
    def current_processing_time(self) -> int:
        return self._clock.current_processing_time

    def register_processing_time_timer(self, timestamp: int, key: Any, namespace: Any) -> None:
        queue = self.processing_timers
        head = queue.head_timestamp()
        self._add_undoably(queue, timestamp, key, namespace)
        if timestamp < min(head, LONG_MAX):  # as in Flink, a timer at Long.MAX alone is not scheduled
            self._schedule(timestamp)

    def delete_processing_time_timer(self, timestamp: int, key: Any, namespace: Any) -> None:
        """Delete the timer. The physical one stays: it finds nothing due and is registered anew."""
        self._remove_undoably(self.processing_timers, timestamp, key, namespace)

    def advance_watermark(self, timestamp: int) -> None:
        """Set the watermark, then call every event timer <= it, also those registered meanwhile."""
        if timestamp < self.current_watermark:
            self.has_gone_back = True
        self.current_watermark = timestamp
        target, poll_due = self._target, self.event_timers.poll_due
        while (timer := poll_due(timestamp)) is not None:
            target.current_key = timer[1]
            target.on_event_time(*timer)

    def initialize_watermark(self, timestamp: int) -> None:
        """Set a restored service's watermark from its snapshot without firing; Flink restores it as Long.MIN.
        The caller vouches that it had not fallen before the snapshot.
        """
        self.current_watermark = timestamp
        self.has_gone_back = False

    def for_each_event_time_timer(self) -> Iterator[Timer]:
        """Every event timer, its key current (Flink's forEachEventTimeTimer can miss some in RocksDB)."""
        return self._for_each(self.event_timers)

    def for_each_processing_time_timer(self) -> Iterator[Timer]:
        return self._for_each(self.processing_timers)

    def pending(self) -> int:
        return len(self.event_timers) + len(self.processing_timers)

    def restore(self, event_timers: Iterable[Timer], processing_timers: Iterable[Timer]) -> None:
        """Restore timers in snapshot order, by ascending key group, and schedule the clock's first one."""
        self.event_timers.restore(event_timers)
        self.has_gone_back = self.current_watermark == LONG_MIN
        self.processing_timers.restore(processing_timers)
        self._schedule_head()

    def _on_physical_timer(self, timestamp: int) -> None:
        self._physical = None
        target, poll_due = self._target, self.processing_timers.poll_due
        while (timer := poll_due(timestamp)) is not None:
            target.current_key = timer[1]
            target.on_processing_time(*timer)
        if self._physical is None:
            self._schedule_head()

    def _schedule_head(self) -> None:
        head = self.processing_timers.head_timestamp()
        if head != EMPTY_PRIORITY:
            self._schedule(head)

    def _schedule(self, timestamp: int) -> None:
        if self._physical is not None:
            self._physical.cancel()
        self._physical = self._clock.register_timer(timestamp, self._on_physical_timer)

    def _for_each(self, queue: TimerQueue) -> Iterator[Timer]:
        for timer in queue:
            self._target.current_key = timer[1]
            yield timer

    def _add_undoably(self, queue: TimerQueue, timestamp: int, key: Any, namespace: Any) -> None:
        if self._journal is not None and (timestamp, key, namespace) not in queue:
            self._journal.note(queue.remove, timestamp, key, namespace)
        queue.add(timestamp, key, namespace)

    def _remove_undoably(self, queue: TimerQueue, timestamp: int, key: Any, namespace: Any) -> None:
        if self._journal is not None and (timestamp, key, namespace) in queue:
            self._journal.note(queue.add, timestamp, key, namespace)
        queue.remove(timestamp, key, namespace)
