"""A clock with timers, and the two clocks that their owner moves. No wall clock is read here."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Protocol

from slackwater.windowing.errors import ConfigurationError

TimerCallback = Callable[[int], None]

_SWEEP_FROM = 64


class ScheduledTimer:
    """One registration: its callback gets `timestamp`."""

    __slots__ = ("callback", "timestamp")

    def __init__(self, timestamp: int, callback: TimerCallback) -> None:
        self.timestamp = timestamp
        self.callback: TimerCallback | None = callback

    def cancel(self) -> None:
        self.callback = None


class ProcessingTimeService(Protocol):
    """A clock with timers, in milliseconds, as operators see it (Flink: ProcessingTimeService).

    No callback runs inside a registration; timers due at one moment are called in order of registration; a
    callback may register and cancel.
    """

    @property
    def current_processing_time(self) -> int: ...

    def register_timer(self, timestamp: int, callback: TimerCallback) -> ScheduledTimer:
        """Call `callback(timestamp)` once when the timer is due, by the clock's own rule."""


class ManualClock:
    """A ProcessingTimeService that only its owner moves. There are two rules of when a timer for t is due:

    ReplayProcessingTimeService: at t + 1 ms, the clock stopping there on its way, as in a replay and a live
    Flink job. HarnessProcessingTimeService: at t, after the clock has jumped, as in Flink's own test harness.
    """

    def __init__(self, start_ms: int = 0) -> None:
        self.current_processing_time = start_ms
        self._heap: list[tuple[int, int, ScheduledTimer]] = []
        self._registrations = 0
        self._sweep_at = _SWEEP_FROM

    def register_timer(self, timestamp: int, callback: TimerCallback) -> ScheduledTimer:
        raise NotImplementedError

    def advance_to(self, timestamp: int) -> None:
        """Move the clock, and call back what is due; raises the callbacks' errors."""
        raise NotImplementedError

    def pending(self) -> int:
        """Registrations that wait for a call, without cancelled ones."""
        return sum(timer.callback is not None for _, _, timer in self._heap)

    def _add(self, due: int, timer: ScheduledTimer) -> ScheduledTimer:
        # Otherwise a timer service that moves its physical timer forward again and again would keep every
        # cancelled timer until it is due.
        if len(self._heap) >= self._sweep_at:
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._sweep_at = max(_SWEEP_FROM, 2 * len(self._heap))
        self._registrations += 1
        heapq.heappush(self._heap, (due, self._registrations, timer))
        return timer

    def _call_due(self, moment: int, *, stops: bool) -> None:
        """Call the timers due at or before `moment`, the earliest first and equal ones in order of
        registration; if the clock `stops`, it reads the due moment of each.
        """
        while self._heap and self._heap[0][0] <= moment:
            due, _, timer = heapq.heappop(self._heap)
            if timer.callback is not None:
                if stops:
                    self.current_processing_time = max(due, self.current_processing_time)
                timer.callback(timer.timestamp)


class HarnessProcessingTimeService(ManualClock):
    """The clock of Flink's test harness: a timer for t is due at t (Flink: TestProcessingTimeService). It
    jumps: callbacks read the time it was moved to. A timer for the past waits for the next move.
    """

    def register_timer(self, timestamp: int, callback: TimerCallback) -> ScheduledTimer:
        return self._add(timestamp, ScheduledTimer(timestamp, callback))

    def advance_to(self, timestamp: int) -> None:
        """Set the clock, forwards or backwards, then call due timers."""
        self.current_processing_time = timestamp
        self._call_due(timestamp, stops=False)


class ReplayProcessingTimeService(ManualClock):
    """The clock of a replay: a timer for t, registered when the clock read c, is due at max(t, c) + 1 ms.

    This is Flink's production rule, except that a live job calls a timer for the past (t < c) at once. Here
    the clock moves on between a registration and its call, or a callback that registers for the past would
    hold it forever.

    The clock stops at each due moment m on its way, and callbacks see it. The callback gets m - 1, the newest
    time that has passed completely: all timers up to it are due, so what one key sees does not depend on the
    timers of another.
    """

    def register_timer(self, timestamp: int, callback: TimerCallback) -> ScheduledTimer:
        last_passed_time = max(timestamp, self.current_processing_time)
        return self._add(last_passed_time + 1, ScheduledTimer(last_passed_time, callback))

    def advance_to(self, timestamp: int) -> None:
        """Move on to `timestamp`, calling due timers on the way. ConfigurationError for a move back."""
        if timestamp < self.current_processing_time:
            raise ConfigurationError(
                f"The clock of a replay cannot go back from {self.current_processing_time} to {timestamp}."
            )
        if self._heap:
            self._call_due(timestamp, stops=True)
        self.current_processing_time = timestamp
