"""One watermark from several splits or inputs, by Flink 2.3.0's rules. Core only, not used by replays."""

from __future__ import annotations

from slackwater.windowing.errors import WatermarkStateError
from slackwater.windowing.java import LONG_MIN
from slackwater.windowing.watermarks.status import StatusOutput, WatermarkOutput, WatermarkStatus


class PartialWatermark:
    """The watermark and idleness of one split or input (Flink: CombinedWatermarkStatus.PartialWatermark)."""

    def __init__(self) -> None:
        self.watermark = LONG_MIN
        self.is_idle = False

    def advance(self, timestamp: int) -> bool:
        """Set the watermark, which also ends idleness. Returns whether it rose."""
        self.is_idle = False
        is_higher = timestamp > self.watermark
        self.watermark = max(timestamp, self.watermark)
        return is_higher


class CombinedWatermarkStatus:
    """Minimum over the active partial watermarks; the maximum over all when none is active. It never falls.
    Flink's CombinedWatermarkStatus as of 2.3.0 (with FLINK-38454: the flush when all are idle).
    """

    def __init__(self) -> None:
        self._partials: list[PartialWatermark] = []
        self.watermark = LONG_MIN
        self.is_idle = False

    def add(self, partial: PartialWatermark) -> None:
        self._partials.append(partial)

    def remove(self, partial: PartialWatermark) -> None:
        """If it held the watermark back, that shows at the next update only."""
        self._partials.remove(partial)

    def update(self) -> bool:
        """Recompute the watermark and `is_idle`, if there is anything to combine; returns whether it rose."""
        if not self._partials:
            return False
        active = [partial.watermark for partial in self._partials if not partial.is_idle]
        self.is_idle = not active
        watermark = min(active) if active else max(partial.watermark for partial in self._partials)
        if watermark <= self.watermark:
            return False
        self.watermark = watermark
        return True


class WatermarkOutputMultiplexer:
    """Combines the watermarks of the splits of one source (Flink: WatermarkOutputMultiplexer). A split's
    immediate output recombines at each call; its deferred output only at `on_periodic_emit`.
    """

    def __init__(self, output: WatermarkOutput) -> None:
        self._output = output
        self._partials: dict[str, PartialWatermark] = {}
        self._combined_status = CombinedWatermarkStatus()

    def register(self, split: str) -> None:
        """Raises WatermarkStateError when the split is registered already."""
        if split in self._partials:
            raise WatermarkStateError(
                f"Split {split!r} has an output already; unregister it first.", split=split
            )
        self._partials[split] = PartialWatermark()
        self._combined_status.add(self._partials[split])

    def unregister(self, split: str) -> bool:
        partial = self._partials.pop(split, None)
        if partial is None:
            return False
        self._combined_status.remove(partial)
        return True

    def immediate_output(self, split: str) -> WatermarkOutput:
        """Raises WatermarkStateError for an unregistered split."""
        return _ImmediateOutput(self._partial(split), self)

    def deferred_output(self, split: str) -> WatermarkOutput:
        """Raises WatermarkStateError for an unregistered split."""
        return _DeferredOutput(self._partial(split))

    def on_periodic_emit(self) -> None:
        if self._combined_status.update():
            self._output.emit_watermark(self._combined_status.watermark)
        if self._combined_status.is_idle:
            self._output.mark_idle()

    @property
    def watermark(self) -> int:
        return self._combined_status.watermark

    def _partial(self, split: str) -> PartialWatermark:
        if split not in self._partials:
            split_names = ", ".join(sorted(self._partials)) or "none"
            raise WatermarkStateError(
                f"Split {split!r} has no output; registered are: {split_names}.",
                split=split,
                flink="IllegalArgumentException",
            )
        return self._partials[split]


class _DeferredOutput:
    def __init__(self, partial: PartialWatermark) -> None:
        self._partial = partial

    def emit_watermark(self, timestamp: int) -> None:
        self._partial.advance(timestamp)

    def mark_idle(self) -> None:
        self._partial.is_idle = True

    def mark_active(self) -> None:
        self._partial.is_idle = False


class _ImmediateOutput:
    def __init__(self, partial: PartialWatermark, multiplexer: WatermarkOutputMultiplexer) -> None:
        self._partial = partial
        self._multiplexer = multiplexer

    def emit_watermark(self, timestamp: int) -> None:
        if self._partial.advance(timestamp) and timestamp > self._multiplexer.watermark:
            self._multiplexer.on_periodic_emit()

    def mark_idle(self) -> None:
        self._partial.is_idle = True
        self._multiplexer.on_periodic_emit()

    def mark_active(self) -> None:
        self._partial.is_idle = False
        self._multiplexer.on_periodic_emit()


class CombinedInputs:
    """The watermark of an operator with several inputs (Flink: AbstractStreamOperator.processWatermark1/2 on
    an IndexedCombinedWatermarkStatus).
    """

    def __init__(self, inputs: int, output: StatusOutput) -> None:
        self._output = output
        self._partials = [PartialWatermark() for _ in range(inputs)]
        self._combined_status = CombinedWatermarkStatus()
        for partial in self._partials:
            self._combined_status.add(partial)

    def process_watermark(self, timestamp: int, index: int) -> None:
        """A watermark on input `index`. It ends that input's idleness without a status, as in Flink."""
        self._partials[index].advance(timestamp)
        if self._combined_status.update():
            self._output.emit_watermark(self._combined_status.watermark)

    def process_watermark_status(self, status: WatermarkStatus, index: int) -> None:
        """A status on input `index`: emits a watermark no longer held back, then a changed status."""
        was_idle = self._combined_status.is_idle
        self._partials[index].is_idle = status.is_idle
        if self._combined_status.update():
            self._output.emit_watermark(self._combined_status.watermark)
        if was_idle != self._combined_status.is_idle:
            self._output.emit_watermark_status(status)
