"""The rows of a KeyedProcessFunction, each with its cause. It is the operator's output; changes nothing."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from slackwater.windowing.runtime.window_log import SideRow
from slackwater.windowing.windows import Window


class ProcessRow(NamedTuple):
    """One row of the main output; `timestamp` is the element's or event timer's, otherwise None.

    Attributes:
        ordinal: 0, 1, …: position among the rows of this key and timestamp.
        tick_end: end of the tick whose watermark called the function's timer; otherwise None.
        cause_arrival: arrival of the element for which the function was called; None for a timer.
    """

    key: Any
    timestamp: int | None
    ordinal: int
    value: Any
    watermark: int
    tick_end: int | None
    cause_arrival: int | None

    @property
    def window(self) -> None:
        """None: a KeyedProcessFunction has no windows."""
        return


class ProcessLog:
    """Records the rows of a process operator. The runner sets `clock`, `watermark` and `cause_arrival` (None
    between elements) before it drives the operator, and counts `elements_processed`.
    """

    def __init__(self) -> None:
        self.clock = 0
        self.watermark = 0
        self.cause_arrival: int | None = None
        self.elements_processed = 0
        self.rows: list[ProcessRow] = []
        self.side_rows: list[SideRow] = []
        self._ordinals: defaultdict[tuple[Any, int | None], int] = defaultdict(int)
        self._side_ordinals: defaultdict[tuple[str, Any, int | None], int] = defaultdict(int)

    def collect(self, value: Any, timestamp: int | None, window: Window, key: Any) -> None:
        """A row of the main output; only rows of event-time timers and elements have a timestamp."""
        ordinal = self._ordinals[key, timestamp]
        self._ordinals[key, timestamp] = ordinal + 1
        tick_end = self.clock if self.cause_arrival is None and timestamp is not None else None
        self.rows.append(
            ProcessRow(
                key=key,
                timestamp=timestamp,
                ordinal=ordinal,
                value=value,
                watermark=self.watermark,
                tick_end=tick_end,
                cause_arrival=self.cause_arrival,
            )
        )

    def late(self, value: Any, timestamp: int | None, key: Any) -> None:
        raise AssertionError("for a KeyedProcessFunction nothing is ever late")

    def side(self, tag: str, value: Any, timestamp: int | None, window: Window, key: Any) -> None:
        ordinal = self._side_ordinals[tag, key, timestamp]
        self._side_ordinals[tag, key, timestamp] = ordinal + 1
        self.side_rows.append(
            SideRow(
                tag=tag,
                key=key,
                window=window,
                firing=None,
                ordinal=ordinal,
                timestamp=timestamp,
                value=value,
            )
        )
