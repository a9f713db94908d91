"""One watermark from the splits of a source, the inputs of an operator or the channels of a task, by Flink
2.3.0's rules. For the recorded traces; replays do not use it.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Protocol

from slackwater.windowing.errors import WatermarkStateError
from slackwater.windowing.java import LONG_MIN
from slackwater.windowing.watermarks.generators import WatermarkOutput


class WatermarkStatus(Enum):
    """Whether to expect watermarks and elements from an input (Flink: WatermarkStatus)."""

    ACTIVE = "active"
    IDLE = "idle"

    @property
    def is_idle(self) -> bool:
        return self is WatermarkStatus.IDLE


class StatusOutput(Protocol):
    """Takes an operator's combined watermarks and statuses (Flink: Output, DataOutput)."""

    def emit_watermark(self, timestamp: int) -> None: ...

    def emit_watermark_status(self, status: WatermarkStatus) -> None: ...


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
    Flink's CombinedWatermarkStatus as of 2.3.0 (with FLINK-38454: the flush when all are idle). A partial
    watermark that leaves the owner's `partials` counts until the next update.
    """

    def __init__(self, partials: Collection[PartialWatermark]) -> None:
        self._partials = partials
        self.watermark = LONG_MIN
        self.is_idle = False

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
        self._combined_status = CombinedWatermarkStatus(self._partials.values())

    def register(self, split: str) -> None:
        """Raises WatermarkStateError when the split is registered already."""
        if split in self._partials:
            raise WatermarkStateError(
                f"Split {split!r} has an output already; unregister it first.", split=split
            )
        self._partials[split] = PartialWatermark()

    def unregister(self, split: str) -> bool:
        return self._partials.pop(split, None) is not None

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


class _ImmediateOutput(_DeferredOutput):
    def __init__(self, partial: PartialWatermark, multiplexer: WatermarkOutputMultiplexer) -> None:
        super().__init__(partial)
        self._multiplexer = multiplexer

    def emit_watermark(self, timestamp: int) -> None:
        if self._partial.advance(timestamp) and timestamp > self._multiplexer.watermark:
            self._multiplexer.on_periodic_emit()

    def mark_idle(self) -> None:
        super().mark_idle()
        self._multiplexer.on_periodic_emit()

    def mark_active(self) -> None:
        super().mark_active()
        self._multiplexer.on_periodic_emit()


class CombinedInputs:
    """The watermark of an operator with several inputs (Flink: AbstractStreamOperator.processWatermark1/2 on
    an IndexedCombinedWatermarkStatus).
    """

    def __init__(self, inputs: int, output: StatusOutput) -> None:
        self._output = output
        self._partials = [PartialWatermark() for _ in range(inputs)]
        self._combined_status = CombinedWatermarkStatus(self._partials)

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


class _Channel:
    def __init__(self) -> None:
        self.watermark = LONG_MIN
        self.is_idle = False
        self.is_aligned = True  # only aligned channels hold the output back


class StatusWatermarkValve:
    """Minimum over the aligned channels; a channel that returns below the output is not aligned until it has
    caught up. Flink's StatusWatermarkValve as of 2.3.0, before FLINK-40475: the flush when all are idle
    depends on the channel that became idle last.
    """

    def __init__(self, channels: int, output: StatusOutput) -> None:
        self._channels = [_Channel() for _ in range(channels)]
        self._output = output
        self._last_output = LONG_MIN
        self._is_idle = False

    def input_watermark(self, timestamp: int, channel_index: int) -> None:
        """Ignored while the valve or the channel is idle, or at or below the channel's last watermark."""
        channel = self._channels[channel_index]
        if self._is_idle or channel.is_idle or timestamp <= channel.watermark:
            return
        channel.watermark = timestamp
        if timestamp >= self._last_output:
            channel.is_aligned = True
        self._output_minimum_over_aligned()

    def input_watermark_status(self, status: WatermarkStatus, channel_index: int) -> None:
        """Only a change of the channel's status counts."""
        channel = self._channels[channel_index]
        if status.is_idle == channel.is_idle:
            return
        channel.is_idle = status.is_idle
        if status.is_idle:
            self._channel_became_idle(channel)
        else:
            self._channel_became_active(channel)

    def _channel_became_idle(self, channel: _Channel) -> None:
        channel.is_aligned = False
        held_the_output = channel.watermark == self._last_output
        if all(other.is_idle for other in self._channels):
            if held_the_output:
                self._output_if_higher(max(other.watermark for other in self._channels))
            self._is_idle = True
            self._output.emit_watermark_status(WatermarkStatus.IDLE)
        elif held_the_output:
            self._output_minimum_over_aligned()

    def _channel_became_active(self, channel: _Channel) -> None:
        channel.is_aligned = channel.watermark >= self._last_output
        if self._is_idle:
            self._is_idle = False
            self._output.emit_watermark_status(WatermarkStatus.ACTIVE)

    def _output_minimum_over_aligned(self) -> None:
        aligned_watermarks = [channel.watermark for channel in self._channels if channel.is_aligned]
        if aligned_watermarks:
            self._output_if_higher(min(aligned_watermarks))

    def _output_if_higher(self, timestamp: int) -> None:
        if timestamp > self._last_output:
            self._last_output = timestamp
            self._output.emit_watermark(timestamp)
