"""Processing time without a wall clock: clocks that are moved from outside and call back what has come due on the way.

Two rules of "due": a test harness's and a production job's. No element, key or window here.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Protocol

from windowing.errors import ConfigurationError
from windowing.java import LONG_MAX

TimerCallback = Callable[[int], None]


class ScheduledTimer:
    """One registration. `cancel` keeps it from being called; later cancels do nothing."""

    __slots__ = ("callback", "timestamp")

    def __init__(self, timestamp: int, callback: TimerCallback) -> None:
        self.timestamp = timestamp
        self.callback: TimerCallback | None = callback

    def cancel(self) -> None:
        self.callback = None


class ProcessingTimeService(Protocol):
    """A clock with timers (Flink: ProcessingTimeService). Times are milliseconds."""

    @property
    def current_processing_time(self) -> int: ...

    def register_timer(self, timestamp: int, callback: TimerCallback) -> ScheduledTimer:
        """Have `callback(timestamp)` called once when the timer is due, in order of time, equal ones in order of registration."""


class _ManualClock:
    """Timers by the moment at which they are due. After `quiesce` nothing is called back, as at the end of a Flink job's input."""

    def __init__(self, start_ms: int) -> None:
        self.current_processing_time = start_ms
        self._due: list[tuple[int, int, ScheduledTimer]] = []
        self._registrations = 0
        self._is_quiesced = False

    def register_timer(self, timestamp: int, callback: TimerCallback) -> ScheduledTimer:
        timer = ScheduledTimer(timestamp, callback)
        self._registrations += 1
        heapq.heappush(self._due, (self._due_at(timestamp), self._registrations, timer))
        return timer

    def pending(self) -> int:
        """Registrations that are neither called nor cancelled."""
        return sum(timer.callback is not None for _, _, timer in self._due)

    def quiesce(self) -> None:
        """Call nothing back from now on. Pending timers stay pending."""
        self._is_quiesced = True

    def _due_at(self, timestamp: int) -> int:
        raise NotImplementedError

    def _pop_due(self, moment: int) -> ScheduledTimer | None:
        """The next timer due at or before `moment`."""
        while not self._is_quiesced and self._due and self._due[0][0] <= moment:
            timer = heapq.heappop(self._due)[2]
            if timer.callback is not None:
                return timer
        return None


class HarnessProcessingTimeService(_ManualClock):
    """The clock of Flink's test harness: a timer for t is due at t (Flink: TestProcessingTimeService).

    The clock jumps: while timers are called back it reads the time it was moved to. A timer for the past waits for the next move.
    """

    def __init__(self, start_ms: int = 0) -> None:
        super().__init__(start_ms)

    def advance_to(self, timestamp: int) -> None:
        """Set the clock, forwards or backwards, then call back what is due, earliest first."""
        self.current_processing_time = timestamp
        while (timer := self._pop_due(timestamp)) is not None:
            assert timer.callback is not None
            timer.callback(timer.timestamp)

    def _due_at(self, timestamp: int) -> int:
        return timestamp


class ReplayProcessingTimeService(_ManualClock):
    """The clock of a replay: a timer for t, registered when the clock read c, is due at max(t, c) + 1 ms, Flink's production rule.

    The clock stops at each due moment m on its way, and callbacks see it. A callback is handed m - 1, the newest time that has passed
    completely: all timers up to it are due, so what one key sees does not depend on the timers of another.
    """

    def advance_to(self, timestamp: int) -> None:
        """Move the clock on to `timestamp`, calling back on the way. Raises ConfigurationError when it would go back."""
        if timestamp < self.current_processing_time:
            raise ConfigurationError(f"The clock of a replay cannot go back from {self.current_processing_time} to {timestamp}.")
        while self._due and not self._is_quiesced and self._due[0][0] <= timestamp:
            moment = self._due[0][0]
            timer = self._pop_due(moment)
            if timer is not None and timer.callback is not None:
                self.current_processing_time = moment
                timer.callback(moment - 1)
        self.current_processing_time = timestamp

    def _due_at(self, timestamp: int) -> int:
        return min(max(timestamp, self.current_processing_time), LONG_MAX) + 1
