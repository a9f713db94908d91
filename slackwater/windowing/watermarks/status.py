"""A source's reports (a watermark, idle, active) and the outputs that take them. Not used by replays."""

from __future__ import annotations

from enum import Enum
from typing import Any, Protocol


class WatermarkStatus(Enum):
    """Whether to expect watermarks and elements from an input (Flink: WatermarkStatus)."""

    ACTIVE = "active"
    IDLE = "idle"

    @property
    def is_idle(self) -> bool:
        return self is WatermarkStatus.IDLE


class WatermarkOutput(Protocol):
    """Takes a generator's watermarks, each of which also means active (Flink: WatermarkOutput)."""

    def emit_watermark(self, timestamp: int) -> None: ...

    def mark_idle(self) -> None: ...

    def mark_active(self) -> None: ...


class StatusOutput(Protocol):
    """Takes an operator's combined watermarks and statuses (Flink: Output, DataOutput)."""

    def emit_watermark(self, timestamp: int) -> None: ...

    def emit_watermark_status(self, status: WatermarkStatus) -> None: ...


class ElementOutput(StatusOutput, Protocol):
    """A StatusOutput that takes elements too; `timestamp` None = the element has none."""

    def collect(self, value: Any, timestamp: int | None) -> None: ...
