"""Replays one key-group range of a KeyedProcessFunction through one slice: operator, log, `SliceRunner`."""

from __future__ import annotations

from typing import Any, Literal

from slackwater.windowing.functions import KeyedProcessFunction
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.key_types import KeyType
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.processing_time_service import ReplayProcessingTimeService
from slackwater.windowing.runtime.keyed_process_operator import KeyedProcessOperator
from slackwater.windowing.runtime.operator_storage import (
    MakeBackend,
    MakeTimerQueue,
    heap_backend,
    queue_in_memory,
)
from slackwater.windowing.runtime.process_log import ProcessLog, ProcessRow
from slackwater.windowing.runtime.slice_runner import (
    AddElement,
    SliceOperator,
    SliceRunner,
    WatermarkTimeline,
)


class KeyedProcessRunner(SliceRunner):
    """A process function on one key-group range, for one slice. Arguments as in operator and SliceRunner."""

    def __init__(
        self,
        function: KeyedProcessFunction,
        key_type: KeyType,
        *,
        key_groups: KeyGroupRange,
        max_parallelism: int,
        order_mode: OrderMode,
        timeline: WatermarkTimeline,
        from_ms: int,
        make_backend: MakeBackend = heap_backend,
        make_timer_queue: MakeTimerQueue = queue_in_memory,
        on_error: Literal["fail", "quarantine"] = "fail",
    ) -> None:
        self._log = ProcessLog()

        def make_operator(
            clock: ReplayProcessingTimeService, make_backend: MakeBackend, make_timer_queue: MakeTimerQueue
        ) -> KeyedProcessOperator:
            return KeyedProcessOperator(
                function,
                key_type,
                self._log,
                clock,
                key_groups=key_groups,
                max_parallelism=max_parallelism,
                order_mode=order_mode,
                make_backend=make_backend,
                make_timer_queue=make_timer_queue,
                on_error=on_error,
            )

        super().__init__(
            make_operator,
            self._log,
            key_groups=key_groups,
            timeline=timeline,
            from_ms=from_ms,
            make_backend=make_backend,
            make_timer_queue=make_timer_queue,
            add_element_of=self._add_element_with_cause,
        )

    @property
    def rows(self) -> list[ProcessRow]:
        return self._log.rows

    def counts(self) -> dict[str, int]:
        return {**super().counts(), "rows_emitted": len(self.rows)}

    def _add_element_with_cause(self, operator: SliceOperator) -> AddElement:
        log, process_element = self._log, operator.process_element

        def add(key: Any, value: Any, timestamp: int) -> None:
            log.cause_arrival = log.clock
            try:
                process_element(key, value, timestamp)
            finally:
                log.cause_arrival = None

        return add
