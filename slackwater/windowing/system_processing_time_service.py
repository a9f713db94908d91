"""Processing time of the machine: the wall clock, with timers called in a thread of the caller's choice.

The one file of windowing that may read a wall clock or start a thread, and imported by nothing else in
windowing: a replay cannot come to depend on the hour by accident.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Protocol

from slackwater.windowing.processing_time_service import (
    FixedDelayTimer,
    FixedRateTimer,
    ProcessingTimeService,
    ScheduledTimer,
    TimerCallback,
    TimerSchedule,
)

Mail = Callable[[], None]

_LONGEST_WAIT_S = 60.0


class TimeSource(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970 UTC."""

    def wake_at(self, moment: int, wake: Callable[[], None]) -> None:
        """Call `wake()` once the clock reads `moment`, never inside this call. Replaces earlier requests."""

    def close(self) -> None:
        """Start no `wake()` any more. Waits for one that is running, unless called from it."""


class WallClock:
    """The machine's clock. Its alarm is one daemon thread, from the first request until `close`."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._request: tuple[int, Callable[[], None]] | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def wake_at(self, moment: int, wake: Callable[[], None]) -> None:
        with self._condition:
            self._request = (moment, wake)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="processing time", daemon=True)
                self._thread.start()
            self._condition.notify()

    def close(self) -> None:
        with self._condition:
            self._is_closed = True
            self._condition.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while (wake := self._await_request()) is not None:
            wake()

    def _await_request(self) -> Callable[[], None] | None:
        """Blocks until the request's moment; None when closed."""
        with self._condition:
            while not self._is_closed:
                if self._request is None:
                    self._condition.wait()
                    continue
                moment, wake = self._request
                left_ms = moment - self.now_ms()
                if left_ms <= 0:
                    self._request = None
                    return wake
                # Bounded, for a wall clock that is set meanwhile; and no platform waits until Long.MAX.
                self._condition.wait(min(left_ms / 1000, _LONGEST_WAIT_S))
        return None


class SystemProcessingTimeService(ProcessingTimeService):
    """The clock of a live job: a timer for t is due when the clock has passed t, at t + 1 ms, and one for the
    past at once.

    Operators are single-threaded, so the clock's thread calls no callback itself: it hands over a mail, which
    does when it runs. A mail does nothing if its timer was cancelled, or the clock quiesced, meanwhile. Every
    method may be called from any thread. Use it in a `with` statement, or call `shutdown`.

    Args:
        execute: takes a mail to run soon, in order, in the operator's thread: `queue.SimpleQueue().put` with
            a loop that gets and runs, `loop.call_soon_threadsafe`, an executor's `submit`. It must not block.
            It is called in the clock's thread.
        on_error: called with an error of a callback, in the thread that ran it, or of `execute`. A periodic
            task goes on afterwards, as in Flink; cancel it or shut the clock down to end it. It may raise
            only if the mail's thread can bear it.
        time_source: the wall clock by default. It is closed by `shutdown`.

    Mirrors Flink's SystemProcessingTimeService behind a ProcessingTimeServiceImpl and a task's mailbox. There
    the mails of a periodic task pile up while the operator is busy; here the next one is handed over when the
    one before has run. A fixed rate gives as many calls either way.
    """

    def __init__(
        self,
        execute: Callable[[Mail], object],
        on_error: Callable[[Exception], object],
        time_source: TimeSource | None = None,
    ) -> None:
        self._execute, self._on_error = execute, on_error
        self._time_source: TimeSource = WallClock() if time_source is None else time_source
        self._state = threading.Condition()
        self._timers = TimerSchedule()
        self._handed_over: set[ScheduledTimer] = set()
        self._running: list[int] = []

    @property
    def current_processing_time(self) -> int:
        return self._time_source.now_ms()

    def register_timer(self, timestamp: int, callback: TimerCallback) -> ScheduledTimer:
        return self._add(
            max(timestamp + 1, self.current_processing_time), ScheduledTimer(timestamp, callback)
        )

    def schedule_at_fixed_rate(
        self, callback: TimerCallback, initial_delay_ms: int, period_ms: int
    ) -> ScheduledTimer:
        timestamp = self.current_processing_time + initial_delay_ms
        return self._add(timestamp, FixedRateTimer(timestamp, callback, period_ms))

    def schedule_with_fixed_delay(
        self, callback: TimerCallback, initial_delay_ms: int, period_ms: int
    ) -> ScheduledTimer:
        timestamp = self.current_processing_time + initial_delay_ms
        return self._add(timestamp, FixedDelayTimer(timestamp, callback, period_ms))

    def pending(self) -> int:
        """Registrations that wait for their time or for their mail, without cancelled ones."""
        with self._state:
            return self._timers.pending() + sum(timer.callback is not None for timer in self._handed_over)

    def quiesce(self) -> None:
        """Make no further calls. Waits for a callback running in another thread, unless in a callback."""
        with self._state:
            self._timers.quiesce()
            self._await_callbacks()

    def shutdown(self) -> None:
        """Quiesce, drop what is pending, end the clock's thread; idempotent."""
        with self._state:
            self._timers.shutdown()
            self._handed_over.clear()
            self._await_callbacks()
        self._time_source.close()

    def __enter__(self) -> SystemProcessingTimeService:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()

    def _add(self, due: int, timer: ScheduledTimer) -> ScheduledTimer:
        with self._state:
            self._timers.add(due, timer)
            self._set_alarm()
        return timer

    def _set_alarm(self) -> None:
        due = self._timers.next_due()
        if due is not None:
            self._time_source.wake_at(due, self._hand_over_due)

    def _hand_over_due(self) -> None:
        while (timer := self._pop_due()) is not None:
            try:
                self._execute(partial(self._run, timer))
            except Exception as error:  # noqa: BLE001 - the mailbox is the caller's, and so is what becomes of its errors
                self._handed_over.discard(timer)
                self._on_error(error)
                self._repeat(timer)
        with self._state:
            self._set_alarm()

    def _pop_due(self) -> ScheduledTimer | None:
        with self._state:
            timer = self._timers.pop_due(self.current_processing_time)
            if timer is not None:
                self._handed_over.add(timer)
            return timer

    def _run(self, timer: ScheduledTimer) -> None:
        thread = threading.get_ident()
        with self._state:
            if not self._timers.is_alive:
                return
            self._handed_over.discard(timer)
            callback = timer.callback
            if callback is None:
                return
            self._running.append(thread)
        try:
            callback(timer.timestamp)
        except Exception as error:  # noqa: BLE001 - the owner of the clock decides, as with Flink's ExceptionHandler
            self._on_error(error)
        finally:
            with self._state:
                self._running.remove(thread)
                self._state.notify_all()
        self._repeat(timer)

    def _repeat(self, timer: ScheduledTimer) -> None:
        with self._state:
            self._timers.repeat(timer, self.current_processing_time)
            self._set_alarm()

    def _await_callbacks(self) -> None:
        if threading.get_ident() not in self._running:
            self._state.wait_for(lambda: not self._running)
