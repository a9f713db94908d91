"""The variants of processing time: a clock with its own rule, and how a test moves it. No variant sleeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from slackwater.windowing.processing_time_service import (
    HarnessProcessingTimeService,
    ReplayProcessingTimeService,
)


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


CLOCKS = [
    pytest.param(make, id=make.__name__.removesuffix("_clock")) for make in (harness_clock, replay_clock)
]
