"""An output that remembers what it was given, in order: what the tests look at."""

from __future__ import annotations

from typing import Any

from slackwater.windowing.watermarks import WatermarkStatus

Entry = tuple[str, Any] | tuple[str, Any, int | None]


class Recorder:
    """Every kind of watermark output at once. `take` hands out the entries since the last call."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def collect(self, value: Any, timestamp: int | None) -> None:
        self._entries.append(("element", value, timestamp))

    def emit_watermark(self, timestamp: int) -> None:
        self._entries.append(("watermark", timestamp))

    def emit_watermark_status(self, status: WatermarkStatus) -> None:
        self._entries.append(("status", status.value))

    def mark_idle(self) -> None:
        self._entries.append(("status", "idle"))

    def mark_active(self) -> None:
        self._entries.append(("status", "active"))

    def take(self) -> list[Entry]:
        entries, self._entries = self._entries, []
        return entries
