"""A clock with timers, and the two clocks that their owner moves. No wall clock is read here."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Protocol

from slackwater.windowing.errors import ConfigurationError, WindowingError

TimerCallback = Callable[[int], None]

_SWEEP_FROM = 64


class ClockStoppedError(WindowingError):
    fault = "bug"
    flink = "IllegalStateException"


class ScheduledTimer:
    """One registration: its callback gets `timestamp`; the schedule sets `due`, when it is called next."""

    __slots__ = ("callback", "due", "timestamp")

    def __init__(self, timestamp: int, callback: TimerCallback) -> None:
        self.timestamp = self.due = timestamp
        self.callback: TimerCallback | None = callback

    def cancel(self) -> None:
        self.callback = None

    def next_timestamp(self, now: int) -> int | None:
        """When the timer is due again after a call that ended at `now`; None for never."""
        return None


class _PeriodicTimer(ScheduledTimer):
    __slots__ = ("period_ms",)

    def __init__(self, timestamp: int, callback: TimerCallback, period_ms: int) -> None:
        if period_ms <= 0:
            raise ConfigurationError(
                f"The period of a processing-time task must be at least 1 ms, got {period_ms} ms."
            )
        super().__init__(timestamp, callback)
        self.period_ms = period_ms


class FixedRateTimer(_PeriodicTimer):
    """Due every `period_ms`, however late a call was: missed calls follow each other at once."""

    __slots__ = ()

    def next_timestamp(self, now: int) -> int:
        return self.timestamp + self.period_ms


class FixedDelayTimer(_PeriodicTimer):
    __slots__ = ()

    def next_timestamp(self, now: int) -> int:
        return now + self.period_ms


class ProcessingTimeService(Protocol):
    """A clock with timers (Flink: ProcessingTimeService). Times are milliseconds.

    No callback runs inside a registration; timers due at one moment are called in order of registration; a
    callback may register, cancel, quiesce and shut down.
    """

    @property
    def current_processing_time(self) -> int: ...

    def register_timer(self, timestamp: int, callback: TimerCallback) -> ScheduledTimer:
        """Call `callback(timestamp)` once when the timer is due, by the clock's own rule."""

    def schedule_at_fixed_rate(
        self, callback: TimerCallback, initial_delay_ms: int, period_ms: int
    ) -> ScheduledTimer:
        """Call `callback(t)` at each t = now + initial delay + k·period, k = 0, 1, …, whatever the rule for
        single timers. Raises ConfigurationError for a period below 1 ms.
        """

    def schedule_with_fixed_delay(
        self, callback: TimerCallback, initial_delay_ms: int, period_ms: int
    ) -> ScheduledTimer:
        """Call `callback(t)` at t = now + initial delay, then at each t = end of the last call + period.
        Raises ConfigurationError for a period below 1 ms.
        """

    def pending(self) -> int:
        """Registrations that wait for a call, without cancelled ones."""

    def quiesce(self) -> None:
        """Make no further calls, as at the end of a Flink job's input; a running callback finishes. Pending
        timers stay so, later ones are never due and not counted (Flink: NeverCompleteFuture).
        """

    def shutdown(self) -> None:
        """Quiesce and drop what is pending; idempotent. Later registrations raise ClockStoppedError."""


class TimerSchedule:
    """A clock's timers in the order in which they are due; none is due after `quiesce`."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, ScheduledTimer]] = []
        self._registrations = 0
        self._sweep_at = _SWEEP_FROM
        self._is_shut_down = False
        self.is_alive = True

    def add(self, due: int, timer: ScheduledTimer) -> ScheduledTimer:
        """Register a timer. Raises ClockStoppedError after `shutdown`."""
        if self._is_shut_down:
            raise ClockStoppedError(
                f"The clock is shut down and takes no timer for {timer.timestamp}; close what registers "
                "timers before its clock."
            )
        if self.is_alive:
            self._push(due, timer)
        return timer

    def repeat(self, timer: ScheduledTimer, now: int) -> None:
        """Put back a timer whose call ended at `now`, if it is due again; cancelled ones drop out later."""
        timestamp = timer.next_timestamp(now)
        if timestamp is not None and self.is_alive:
            timer.timestamp = timestamp
            self._push(timestamp, timer)

    def next_due(self) -> int | None:
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap and self.is_alive else None

    def pop_due(self, moment: int) -> ScheduledTimer | None:
        """The next timer due at or before `moment`, earliest first, equal ones in order of registration."""
        due = self.next_due()
        return heapq.heappop(self._heap)[2] if due is not None and due <= moment else None

    def pending(self) -> int:
        return sum(timer.callback is not None for _, _, timer in self._heap)

    def quiesce(self) -> None:
        self.is_alive = False

    def shutdown(self) -> None:
        self.is_alive, self._is_shut_down = False, True
        self._heap.clear()

    def _push(self, due: int, timer: ScheduledTimer) -> None:
        # Otherwise a timer service that moves its physical timer forward again and again would keep every
        # cancelled timer until it is due.
        if len(self._heap) >= self._sweep_at:
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._sweep_at = max(_SWEEP_FROM, 2 * len(self._heap))
        self._registrations += 1
        timer.due = due
        heapq.heappush(self._heap, (due, self._registrations, timer))


class _ManualClock:
    """A clock that only its owner moves; the move raises callbacks' errors, which end a periodic timer."""

    def __init__(self, start_ms: int) -> None:
        self.current_processing_time = start_ms
        self._timers = TimerSchedule()

    def schedule_at_fixed_rate(
        self, callback: TimerCallback, initial_delay_ms: int, period_ms: int
    ) -> ScheduledTimer:
        timestamp = self.current_processing_time + initial_delay_ms
        return self._timers.add(timestamp, FixedRateTimer(timestamp, callback, period_ms))

    def pending(self) -> int:
        return self._timers.pending()

    def quiesce(self) -> None:
        self._timers.quiesce()

    def shutdown(self) -> None:
        self._timers.shutdown()

    def _call(self, timer: ScheduledTimer) -> None:
        if timer.callback is not None:
            timer.callback(timer.timestamp)
            self._timers.repeat(timer, self.current_processing_time)


class HarnessProcessingTimeService(_ManualClock):
    """The clock of Flink's test harness: a timer for t is due at t (Flink: TestProcessingTimeService). It
    jumps: callbacks read the time it was moved to. A timer for the past waits for the next move.
    """

    def __init__(self, start_ms: int = 0) -> None:
        super().__init__(start_ms)

    def register_timer(self, timestamp: int, callback: TimerCallback) -> ScheduledTimer:
        return self._timers.add(timestamp, ScheduledTimer(timestamp, callback))

    def schedule_with_fixed_delay(
        self, callback: TimerCallback, initial_delay_ms: int, period_ms: int
    ) -> ScheduledTimer:
        """The same as `schedule_at_fixed_rate`, as in Flink's harness."""
        return self.schedule_at_fixed_rate(callback, initial_delay_ms, period_ms)

    def advance_to(self, timestamp: int) -> None:
        """Set the clock, forwards or backwards, then call due timers, earliest first."""
        self.current_processing_time = timestamp
        while (timer := self._timers.pop_due(timestamp)) is not None:
            self._call(timer)


class ReplayProcessingTimeService(_ManualClock):
    """The clock of a replay: a timer for t, registered when the clock read c, is due at max(t, c) + 1 ms.

    This is Flink's production rule, except that a live job calls a timer for the past (t < c) at once. Here
    the clock moves on between a registration and its call, or a callback that registers for the past would
    hold it forever.

    The clock stops at each due moment m on its way, and callbacks see it. The callback of a single timer gets
    m - 1, the newest time that has passed completely: all timers up to it are due, so what one key sees does
    not depend on the timers of another.
    """

    def register_timer(self, timestamp: int, callback: TimerCallback) -> ScheduledTimer:
        last_passed_time = max(timestamp, self.current_processing_time)
        return self._timers.add(last_passed_time + 1, ScheduledTimer(last_passed_time, callback))

    def schedule_with_fixed_delay(
        self, callback: TimerCallback, initial_delay_ms: int, period_ms: int
    ) -> ScheduledTimer:
        timestamp = self.current_processing_time + initial_delay_ms
        return self._timers.add(timestamp, FixedDelayTimer(timestamp, callback, period_ms))

    def advance_to(self, timestamp: int) -> None:
        """Move on to `timestamp`, calling due timers on the way. ConfigurationError for a move back."""
        if timestamp < self.current_processing_time:
            raise ConfigurationError(
                f"The clock of a replay cannot go back from {self.current_processing_time} to {timestamp}."
            )
        while (timer := self._timers.pop_due(timestamp)) is not None:
            self.current_processing_time = max(timer.due, self.current_processing_time)
            self._call(timer)
        self.current_processing_time = timestamp
