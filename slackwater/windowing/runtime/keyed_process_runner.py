"""Replays one key-group range of a KeyedProcessFunction through one slice, and records its rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
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


class ProcessRows(NamedTuple):
    """The columns of the rows of the main output, in the order in which they were emitted.

    Attributes:
        timestamps: of the element or event timer, otherwise None.
        tick_ends: end of the tick whose watermark called the function's timer; otherwise None.
        cause_arrivals: arrival of the element for which the function was called; None for a timer.
    """

    keys: Sequence[Any] = ()
    timestamps: Sequence[int | None] = ()
    values: Sequence[Any] = ()
    watermarks: Sequence[int] = ()
    tick_ends: Sequence[int | None] = ()
    cause_arrivals: Sequence[int | None] = ()

    def ordinals(self) -> list[int]:
        """Of each row its position among those of its key and timestamp: 0, 1, …."""
        counts: dict[tuple[Any, int | None], int] = {}
        ordinals = []
        for owner in zip(self.keys, self.timestamps, strict=True):
            ordinal = counts.get(owner, 0)
            counts[owner] = ordinal + 1
            ordinals.append(ordinal)
        return ordinals


class ProcessLog(OperatorLog):
    """Records the rows of a process operator, each with its cause."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[Any, ...]] = []  # with the fields of ProcessRows
        self._side_ordinals: defaultdict[tuple[str, Any, int | None], int] = defaultdict(int)

    def collect(self, value: Any, timestamp: int | None, window: Window, key: Any) -> None:
        """A row of the main output; only rows of event-time timers and elements have a timestamp."""
        if self.calls_timers:
            tick_end, cause_arrival = None if timestamp is None else self.clock, None
        else:
            tick_end, cause_arrival = None, self.clock
        self.rows.append((key, timestamp, value, self.watermark, tick_end, cause_arrival))

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
    def rows(self) -> ProcessRows:
        return ProcessRows(*zip(*self._log.rows, strict=True))

    def counts(self) -> dict[str, int]:
        return {**super().counts(), "rows_emitted": len(self._log.rows)}
