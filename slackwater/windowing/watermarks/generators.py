"""Watermark generators, one per source partition, from the timestamps of elements to watermarks, as Flink's.
The caller calls `on_event` for each element and `on_periodic_emit` for each tick.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from slackwater.windowing.java import LONG_MIN, wrap_long


class WatermarkOutput(Protocol):
    """Takes a generator's watermarks, each of which also means active (Flink: WatermarkOutput)."""

    def emit_watermark(self, timestamp: int) -> None: ...

    def mark_idle(self) -> None: ...

    def mark_active(self) -> None: ...


class WatermarkGenerator(Protocol):
    def on_event(self, element: Any, timestamp: int, output: WatermarkOutput) -> None:
        """Called for each element, after it has been forwarded."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Called once an auto-watermark interval, and once at the end of the input."""


class BoundedOutOfOrdernessWatermarks:
    """Emits max - out_of_orderness - 1 at each periodic call, max = greatest timestamp so far, wrapping as in
    Flink; Long.MIN, which every receiver drops, before the first element.
    """

    def __init__(self, out_of_orderness_ms: int) -> None:
        self._out_of_orderness_ms = out_of_orderness_ms
        self._max_timestamp = wrap_long(LONG_MIN + out_of_orderness_ms + 1)

    def on_event(self, element: Any, timestamp: int, output: WatermarkOutput) -> None:
        self._max_timestamp = max(self._max_timestamp, timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(wrap_long(self._max_timestamp - self._out_of_orderness_ms - 1))


class AscendingTimestampsWatermarks(BoundedOutOfOrdernessWatermarks):
    """For timestamps that never fall: emits max - 1."""

    def __init__(self) -> None:
        super().__init__(0)


class NoWatermarksGenerator:
    def on_event(self, element: Any, timestamp: int, output: WatermarkOutput) -> None:
        pass

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


class PunctuatedWatermarks:
    """Emits `watermark_of(element, timestamp)` after each element, unless None; nothing periodically."""

    def __init__(self, watermark_of: Callable[[Any, int], int | None]) -> None:
        self._watermark_of = watermark_of

    def on_event(self, element: Any, timestamp: int, output: WatermarkOutput) -> None:
        watermark = self._watermark_of(element, timestamp)
        if watermark is not None:
            output.emit_watermark(watermark)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


class WatermarksWithIdleness:
    """Another generator, and `mark_idle` when no element has come for a while.

    The first periodic call without an element since the last one starts a stopwatch; a later one finds the
    source idle when the stopwatch shows strictly more than the timeout. An idle source's periodic watermarks
    are not emitted.
    """

    def __init__(
        self, watermarks: WatermarkGenerator, idle_timeout_ms: int, relative_time_ms: Callable[[], int]
    ) -> None:
        self._watermarks = watermarks
        self._idle_timeout_ms = idle_timeout_ms
        self._relative_time_ms = relative_time_ms
        self._saw_element = False
        self._quiet_since_ms = _NOT_STARTED
        self._is_idle = False

    def on_event(self, element: Any, timestamp: int, output: WatermarkOutput) -> None:
        self._watermarks.on_event(element, timestamp, output)
        self._saw_element = True
        self._is_idle = False

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        if not self._check_idle():
            self._watermarks.on_periodic_emit(output)
        elif not self._is_idle:
            output.mark_idle()
            self._is_idle = True

    def _check_idle(self) -> bool:
        if self._saw_element:
            self._saw_element = False
            self._quiet_since_ms = _NOT_STARTED
            return False
        if self._quiet_since_ms == _NOT_STARTED:
            self._quiet_since_ms = self._relative_time_ms()
            return False
        return self._relative_time_ms() - self._quiet_since_ms > self._idle_timeout_ms


# Flink's own marker: a stopwatch started at time 0 counts as not started.
_NOT_STARTED = 0
