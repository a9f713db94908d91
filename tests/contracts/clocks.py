"""The variants of processing time: a clock with its own rule, and how a test moves it. No variant sleeps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from slackwater.windowing.processing_time_service import (
    HarnessProcessingTimeService,
    ReplayProcessingTimeService,
)
from slackwater.windowing.system_processing_time_service import SystemProcessingTimeService


class ManualTimeSource:
    """A TimeSource that stands still between two moves and stops at each alarm on its way; then the
    operator's thread has its turn.
    """

    def __init__(self, now: int, after_wake: Callable[[], None] = lambda: None) -> None:
        self.now, self.is_closed = now, False
        self._after_wake = after_wake
        self._request: tuple[int, Callable[[], None]] | None = None

    def now_ms(self) -> int:
        return self.now

    def wake_at(self, moment: int, wake: Callable[[], None]) -> None:
        self._request = (moment, wake)

    def close(self) -> None:
        self.is_closed, self._request = True, None

    def advance_to(self, timestamp: int) -> None:
        while self._request is not None and self._request[0] <= timestamp:
            (moment, wake), self._request = self._request, None
            self.now = max(self.now, moment)
            wake()
            self._after_wake()
        self.now = max(self.now, timestamp)


class Mailbox:
    """The mails that wait for the operator's thread. None of them runs while `is_busy`."""

    def __init__(self) -> None:
        self.mails: deque[Callable[[], None]] = deque()
        self.is_busy = False

    def put(self, mail: Callable[[], None]) -> None:
        self.mails.append(mail)

    def run(self) -> None:
        while self.mails and not self.is_busy:
            self.mails.popleft()()


class SystemClock:
    """A SystemProcessingTimeService whose time is moved by hand and whose mails run in this thread, as soon
    as they come.
    """

    def __init__(self, start_ms: int) -> None:
        self.mailbox, self.errors = Mailbox(), list[Exception]()
        self.source = ManualTimeSource(start_ms, self.mailbox.run)
        self.service = SystemProcessingTimeService(self.mailbox.put, self.errors.append, self.source)

    def advance_to(self, timestamp: int) -> None:
        self.source.advance_to(timestamp)
        self.mailbox.run()


@dataclass(frozen=True)
class Clock:
    """One service under test.

    Attributes:
        lateness_ms: a timer for t is due at t plus this.
        past_ms: a timer for the past is due this much after its registration.
        stops: whether the clock stops at each due moment on its way, so that callbacks see it.
    """

    service: Any
    advance_to: Callable[[int], None]
    lateness_ms: int
    past_ms: int
    stops: bool


def harness_clock(start_ms: int) -> Clock:
    service = HarnessProcessingTimeService(start_ms)
    return Clock(service, service.advance_to, lateness_ms=0, past_ms=0, stops=False)


def replay_clock(start_ms: int) -> Clock:
    service = ReplayProcessingTimeService(start_ms)
    return Clock(service, service.advance_to, lateness_ms=1, past_ms=1, stops=True)


def system_clock(start_ms: int) -> Clock:
    system = SystemClock(start_ms)
    return Clock(system.service, system.advance_to, lateness_ms=1, past_ms=0, stops=True)


CLOCKS = [
    pytest.param(make, id=make.__name__.removesuffix("_clock"))
    for make in (harness_clock, replay_clock, system_clock)
]
