"""The watermark of one task from its input channels. Flink 2.3.0's StatusWatermarkValve, not the later one:
the flush when all are idle depends on the channel that became idle last. Core only, not used by replays.
"""

from __future__ import annotations

from slackwater.windowing.java import LONG_MIN
from slackwater.windowing.watermarks.status import StatusOutput, WatermarkStatus


class _Channel:
    def __init__(self) -> None:
        self.watermark = LONG_MIN
        self.is_idle = False
        self.is_aligned = True  # only aligned channels hold the output back


class StatusWatermarkValve:
    """Minimum over the aligned channels; a channel that returns below the output is not aligned until it has
    caught up. Flink's StatusWatermarkValve as of 2.3.0, before FLINK-40475.
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
