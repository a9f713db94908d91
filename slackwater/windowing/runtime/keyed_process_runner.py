"""Replays one key-group range of a KeyedProcessFunction through one slice, and records its rows."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any, NamedTuple, Unpack

from slackwater.windowing.functions import KeyedProcessFunction
from slackwater.windowing.key_types import KeyType
from slackwater.windowing.runtime.keyed_operator import OperatorOptions
from slackwater.windowing.runtime.keyed_process_operator import KeyedProcessOperator
from slackwater.windowing.runtime.operator_storage import IN_MEMORY, OperatorStorage
from slackwater.windowing.runtime.slice_runner import SliceRunner, WatermarkTimeline
from slackwater.windowing.runtime.window_log import OperatorLog, SideRow
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


class ProcessLog(OperatorLog):
    """Records the rows of a process operator, each with its cause."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[ProcessRow] = []
        self._ordinals: defaultdict[tuple[Any, int | None], int] = defaultdict(int)
        self._side_ordinals: defaultdict[tuple[str, Any, int | None], int] = defaultdict(int)

    def collect(self, value: Any, timestamp: int | None, window: Window, key: Any) -> None:
        """A row of the main output; only rows of event-time timers and elements have a timestamp."""
        ordinal = self._ordinals[key, timestamp]
        self._ordinals[key, timestamp] = ordinal + 1
        self.rows.append(
            ProcessRow(
                key=key,
                timestamp=timestamp,
                ordinal=ordinal,
                value=value,
                watermark=self.watermark,
                tick_end=self.clock if self.calls_timers and timestamp is not None else None,
                cause_arrival=None if self.calls_timers else self.clock,
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


class KeyedProcessRunner(SliceRunner):
    """A process function on one key-group range, for one slice. Arguments as in operator and SliceRunner."""

    _log: ProcessLog

    def __init__(
        self,
        function: KeyedProcessFunction,
        key_type: KeyType,
        *,
        timeline: WatermarkTimeline,
        from_ms: int,
        storage: OperatorStorage = IN_MEMORY,
        **options: Unpack[OperatorOptions],
    ) -> None:
        log = ProcessLog()
        make_operator = partial(KeyedProcessOperator, function, key_type, log, **options)
        super().__init__(make_operator, log, timeline=timeline, from_ms=from_ms, storage=storage)

    @property
    def rows(self) -> list[ProcessRow]:
        return self._log.rows

    def counts(self) -> dict[str, int]:
        return {**super().counts(), "rows_emitted": len(self.rows)}
