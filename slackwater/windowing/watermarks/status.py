"""What a source of watermarks reports (a watermark, idle, or active), and the outputs that take it.

Shapes only: nothing here decides when a watermark is due. Core only, not used by replays.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Protocol


class WatermarkStatus(Enum):
    """Whether watermarks and elements are to be expected from an input (Flink: WatermarkStatus)."""

    ACTIVE = "active"
    IDLE = "idle"

    @property
    def is_idle(self) -> bool:
        return self is WatermarkStatus.IDLE


class WatermarkOutput(Protocol):
    """Where a generator puts its watermarks (Flink: WatermarkOutput). Emitting a watermark also means
    active.
    """

    def emit_watermark(self, timestamp: int) -> None: ...

    def mark_idle(self) -> None: ...

    def mark_active(self) -> None: ...


class StatusOutput(Protocol):
    """Where combined watermarks and statuses leave an operator (Flink: Output, DataOutput)."""

    def emit_watermark(self, timestamp: int) -> None: ...

    def emit_watermark_status(self, status: WatermarkStatus) -> None: ...


class ElementOutput(StatusOutput, Protocol):
    """A StatusOutput that takes elements too; `timestamp` None = the element has none."""

    def collect(self, value: Any, timestamp: int | None) -> None: ...
