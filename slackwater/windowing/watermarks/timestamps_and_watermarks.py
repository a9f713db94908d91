"""Timestamps and watermarks for one stream of elements: the operator that Flink puts behind a source. It
keeps no snapshot state. For the recorded traces; replays do not use it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from slackwater.windowing.java import LONG_MAX, LONG_MIN, wrap_long
from slackwater.windowing.processing_time_service import ProcessingTimeService
from slackwater.windowing.watermarks.generators import NoWatermarksGenerator
from slackwater.windowing.watermarks.inputs import StatusOutput, WatermarkStatus
from slackwater.windowing.watermarks.strategy import WatermarkStrategy

TimestampAssigner = Callable[[Any, int], int]


def record_timestamp(element: Any, timestamp: int) -> int:
    """The element's existing timestamp; LONG_MIN for none (Flink: RecordTimestampAssigner)."""
    return timestamp


class ElementOutput(StatusOutput, Protocol):
    """A StatusOutput that takes elements too; `timestamp` None = the element has none."""

    def collect(self, value: Any, timestamp: int | None) -> None: ...


class WatermarkEmitter:
    """A WatermarkOutput that only rises, and emits active before the first watermark after idleness (Flink:
    TimestampsAndWatermarksOperator.WatermarkEmitter).
    """

    def __init__(self, output: StatusOutput) -> None:
        self._output = output
        self._is_idle = False
        self.watermark = LONG_MIN

    def emit_watermark(self, timestamp: int) -> None:
        if timestamp > self.watermark:
            self.watermark = timestamp
            self.mark_active()
            self._output.emit_watermark(timestamp)

    def mark_idle(self) -> None:
        self._toggle(True)

    def mark_active(self) -> None:
        self._toggle(False)

    def _toggle(self, is_idle: bool) -> None:
        if self._is_idle != is_idle:
            self._is_idle = is_idle
            self._output.emit_watermark_status(WatermarkStatus.IDLE if is_idle else WatermarkStatus.ACTIVE)


class TimestampsAndWatermarksOperator:
    """Gives each element its timestamp, forwards it, then shows it to the strategy's generator; emits
    periodically (Flink: TimestampsAndWatermarksOperator). `service` also measures idleness.
    `timestamp_assigner` is (element, timestamp so far or LONG_MIN) -> timestamp. `progressive`: False as in
    Flink's batch execution: only the final watermark.
    """

    def __init__(
        self,
        strategy: WatermarkStrategy,
        service: ProcessingTimeService,
        output: ElementOutput,
        *,
        timestamp_assigner: TimestampAssigner = record_timestamp,
        progressive: bool = True,
    ) -> None:
        self._service = service
        self._output = output
        self._emitter = WatermarkEmitter(output)
        self._assign = timestamp_assigner
        self._interval_ms = strategy.interval_ms if progressive else 0
        self._generator = (
            strategy.create_watermark_generator(lambda: service.current_processing_time)
            if progressive
            else NoWatermarksGenerator()
        )

    def open(self) -> None:
        """Start the periodic emission, one interval from now."""
        self._register_periodic_emit()

    def process_element(self, element: Any, timestamp: int | None) -> None:
        assigned_timestamp = self._assign(element, LONG_MIN if timestamp is None else timestamp)
        self._output.collect(element, assigned_timestamp)
        self._generator.on_event(element, assigned_timestamp, self._emitter)

    def process_watermark(self, timestamp: int) -> None:
        """A watermark from upstream: swallowed, unless it is the final one."""
        if timestamp == LONG_MAX:
            self._emitter.emit_watermark(LONG_MAX)

    def process_watermark_status(self, status: WatermarkStatus) -> None:
        """A status from upstream: swallowed."""

    def finish(self) -> None:
        """End of the input: one last periodic emission. The final watermark comes from upstream."""
        self._generator.on_periodic_emit(self._emitter)

    def _register_periodic_emit(self) -> None:
        if self._interval_ms > 0:
            self._service.register_timer(
                wrap_long(self._service.current_processing_time + self._interval_ms), self._on_processing_time
            )

    def _on_processing_time(self, timestamp: int) -> None:
        self._generator.on_periodic_emit(self._emitter)
        self._register_periodic_emit()
