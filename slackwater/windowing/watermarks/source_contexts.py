"""Source contexts, through which a source emits elements and watermarks: event time with its watermarks,
ingestion time stamped on arrival, processing time without timestamps. Core only, not used by replays.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Protocol

from slackwater.windowing.errors import ConfigurationError, WatermarkStateError
from slackwater.windowing.java import LONG_MAX, LONG_MIN, remainder, wrap_long
from slackwater.windowing.processing_time_service import ProcessingTimeService, ScheduledTimer
from slackwater.windowing.watermarks.status import ElementOutput, WatermarkStatus


class TimeCharacteristic(Enum):
    """Which time an application runs on (Flink: TimeCharacteristic)."""

    PROCESSING_TIME = "processing time"
    INGESTION_TIME = "ingestion time"
    EVENT_TIME = "event time"


class SourceContext(Protocol):
    """Flink: SourceFunction.SourceContext. After `close` each call raises WatermarkStateError."""

    def collect(self, element: Any, timestamp: int | None = None) -> None: ...

    def emit_watermark(self, timestamp: int) -> None: ...

    def mark_as_temporarily_idle(self) -> None: ...

    def close(self) -> None: ...


def source_context(
    characteristic: TimeCharacteristic,
    service: ProcessingTimeService,
    output: ElementOutput,
    *,
    watermark_interval_ms: int = 200,
    idle_timeout_ms: int | None = None,
    progressive: bool = True,
) -> SourceContext:
    """The context for one source, closed once (Flink: StreamSourceContexts.getSourceContext).

    For ingestion time a watermark is due every `watermark_interval_ms`. A source is idle after
    `idle_timeout_ms` without element or watermark; None = never. For event time, `progressive` False passes
    only the final watermark on. Raises ConfigurationError for an interval or timeout below 1 ms. Flink 2.3.0
    still has the contexts for processing and ingestion time, but builds only the one for event time.
    """
    if characteristic is TimeCharacteristic.PROCESSING_TIME:
        return NonTimestampContext(output)
    if characteristic is TimeCharacteristic.INGESTION_TIME:
        return AutomaticWatermarkContext(output, service, watermark_interval_ms, idle_timeout_ms)
    return ManualWatermarkContext(output, service, idle_timeout_ms, progressive=progressive)


class NonTimestampContext:
    """Elements without timestamps; ignores watermarks and idleness."""

    def __init__(self, output: ElementOutput) -> None:
        self._output = output
        self._is_closed = False

    def collect(self, element: Any, timestamp: int | None = None) -> None:
        _check_open(self._is_closed)
        self._output.collect(element, None)

    def emit_watermark(self, timestamp: int) -> None:
        _check_open(self._is_closed)

    def mark_as_temporarily_idle(self) -> None:
        _check_open(self._is_closed)

    def close(self) -> None:
        self._is_closed = True


class _IdlenessDetection:
    """A source is idle when a whole check period of `idle_timeout_ms` has seen neither element nor watermark
    (Flink: StreamSourceContexts.WatermarkContext). Checks follow each other while the source is busy; after a
    quiet one they rest until the next activity.
    """

    def __init__(
        self, output: ElementOutput, service: ProcessingTimeService, idle_timeout_ms: int | None
    ) -> None:
        if idle_timeout_ms is not None and idle_timeout_ms < 1:
            raise ConfigurationError(
                f"{type(self).__name__}: the idle timeout cannot be smaller than 1 ms, got {idle_timeout_ms} "
                "ms."
            )
        self._output = output
        self._service = service
        self._idle_timeout_ms = idle_timeout_ms
        self._is_idle = False
        self._is_closed = False
        self._was_active = False
        self._next_check: ScheduledTimer | None = None
        self._schedule_next_check()

    def mark_as_temporarily_idle(self) -> None:
        _check_open(self._is_closed)
        self._toggle_status(WatermarkStatus.IDLE)

    def close(self) -> None:
        self._is_closed = True
        self._cancel_next_check()

    def _activity(self) -> None:
        self._toggle_status(WatermarkStatus.ACTIVE)
        if self._next_check is None:
            self._schedule_next_check()
        else:
            self._was_active = True

    def _toggle_status(self, status: WatermarkStatus) -> None:
        if self._is_idle != status.is_idle:
            self._is_idle = status.is_idle
            self._output.emit_watermark_status(status)

    def _schedule_next_check(self) -> None:
        if self._idle_timeout_ms is not None:
            self._was_active = False
            due = wrap_long(self._service.current_processing_time + self._idle_timeout_ms)
            self._next_check = self._service.register_timer(due, self._check)

    def _check(self, timestamp: int) -> None:
        self._next_check = None
        if self._was_active:
            self._schedule_next_check()
        else:
            self._toggle_status(WatermarkStatus.IDLE)

    def _cancel_next_check(self) -> None:
        # The cancelled check stays in place, as in Flink: later activity does not schedule another one.
        if self._next_check is not None:
            self._next_check.cancel()


class ManualWatermarkContext(_IdlenessDetection):
    """Event time: the source sets timestamps (None = none) and emits watermarks itself."""

    def __init__(
        self,
        output: ElementOutput,
        service: ProcessingTimeService,
        idle_timeout_ms: int | None,
        *,
        progressive: bool = True,
    ) -> None:
        super().__init__(output, service, idle_timeout_ms)
        self._progressive = progressive

    def collect(self, element: Any, timestamp: int | None = None) -> None:
        _check_open(self._is_closed)
        self._activity()
        self._output.collect(element, timestamp)

    def emit_watermark(self, timestamp: int) -> None:
        _check_open(self._is_closed)
        if self._progressive or timestamp == LONG_MAX:
            self._activity()
            self._output.emit_watermark(timestamp)


class AutomaticWatermarkContext(_IdlenessDetection):
    """Ingestion time: the timestamp is the processing time, and the watermark that time rounded down to the
    interval. A given timestamp is ignored, and so is any watermark but the final one. The periodic watermark
    also checks for idleness.
    """

    def __init__(
        self,
        output: ElementOutput,
        service: ProcessingTimeService,
        watermark_interval_ms: int,
        idle_timeout_ms: int | None,
    ) -> None:
        super().__init__(output, service, idle_timeout_ms)
        if watermark_interval_ms < 1:
            raise ConfigurationError(
                "AutomaticWatermarkContext: the watermark interval cannot be smaller than 1 ms, got "
                f"{watermark_interval_ms} ms."
            )
        self._interval_ms = watermark_interval_ms
        self._next_watermark_time = 0
        self._last_record_time = LONG_MIN
        self._next_watermark_timer = self._register_watermark_timer()

    def collect(self, element: Any, timestamp: int | None = None) -> None:
        _check_open(self._is_closed)
        self._activity()
        self._last_record_time = self._service.current_processing_time
        self._output.collect(element, self._last_record_time)
        self._emit_watermark_if_due(self._last_record_time)

    def emit_watermark(self, timestamp: int) -> None:
        _check_open(self._is_closed)
        if timestamp == LONG_MAX and self._next_watermark_time != LONG_MAX:
            self._activity()
            self._next_watermark_time = LONG_MAX
            self._output.emit_watermark(LONG_MAX)
            self._next_watermark_timer.cancel()

    def close(self) -> None:
        super().close()
        self._next_watermark_timer.cancel()

    def _register_watermark_timer(self) -> ScheduledTimer:
        due = wrap_long(self._service.current_processing_time + self._interval_ms)
        return self._service.register_timer(due, self._on_watermark_timer)

    def _on_watermark_timer(self, timestamp: int) -> None:
        now = self._service.current_processing_time
        if not self._is_idle:
            # Before the first element the difference wraps below zero (from 1970 on): a source that never
            # spoke is left to the other check.
            if (
                self._idle_timeout_ms is not None
                and wrap_long(now - self._last_record_time) > self._idle_timeout_ms
            ):
                self._toggle_status(WatermarkStatus.IDLE)
                self._cancel_next_check()
            else:
                self._emit_watermark_if_due(now)
        self._next_watermark_timer = self._register_watermark_timer()

    def _emit_watermark_if_due(self, now: int) -> None:
        if now > self._next_watermark_time:
            watermark = wrap_long(now - remainder(now, self._interval_ms))
            self._next_watermark_time = wrap_long(watermark + self._interval_ms)
            self._output.emit_watermark(watermark)


def _check_open(is_closed: bool) -> None:
    if is_closed:
        raise WatermarkStateError("The source context has been closed already.")
