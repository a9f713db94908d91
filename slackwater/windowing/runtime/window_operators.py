"""Creates the window operator for a config, with or without an evictor."""

from __future__ import annotations

from typing import Any, Literal

from slackwater.windowing.evictors import TimestampedValue
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.processing_time_service import ProcessingTimeService
from slackwater.windowing.runtime.element_transaction import ElementTransaction
from slackwater.windowing.runtime.key_group_index import KeyGroupIndex
from slackwater.windowing.runtime.operator_output import OperatorOutput, WindowListener
from slackwater.windowing.runtime.operator_storage import (
    MakeBackend,
    MakeTimerQueue,
    heap_backend,
    queue_in_memory,
)
from slackwater.windowing.runtime.window_operator import WindowOperator
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.windows import Window


class EvictingWindowOperator(WindowOperator):
    """Keeps every element with its timestamp and evicts at each firing (Flink: EvictingWindowOperator)."""

    def emit_contents(
        self, key: Any, window: Window, state_window: Window, contents: list[TimestampedValue]
    ) -> None:
        evictor, elements = self.config.evictor, list(contents)
        assert evictor is not None
        evictor.evict_before(elements, len(elements), window, self._context)
        self._emit(key, window, [element.value for element in elements])
        evictor.evict_after(elements, len(elements), window, self._context)
        self._contents.update(key, state_window, elements)


def window_operator(
    config: WindowOperatorConfig,
    output: OperatorOutput,
    clock: ProcessingTimeService,
    *,
    key_groups: KeyGroupRange | None = None,
    max_parallelism: int = 128,
    known_key_groups: KeyGroupIndex | None = None,
    order_mode: OrderMode = OrderMode.ROCKSDB,
    make_backend: MakeBackend = heap_backend,
    make_timer_queue: MakeTimerQueue = queue_in_memory,
    listener: WindowListener | None = None,
    on_error: Literal["fail", "quarantine"] = "fail",
    collected_mark: int | None = None,
) -> WindowOperator:
    """An operator for `config`, new and unopened.

    Args:
        key_groups: the range of keys; default: all.
        max_parallelism: number of key groups, fixed for the life of the state.
        known_key_groups: an index of the same range, shared with the caller, which may have filled it.
        order_mode: whose order equal timers and merges have.
        make_backend, make_timer_queue: where state and timers live; see OperatorStorage.
        on_error: "quarantine" undoes an element's changes when a function raises on it (`undone`); a failure
            in a firing, merge or timer is never undone.
        collected_mark: the lineage's collected mark, in milliseconds; see WindowOperator.
    """
    index = known_key_groups
    if index is None:
        index = KeyGroupIndex(
            config.key_type, key_groups or KeyGroupRange(0, max_parallelism - 1), max_parallelism
        )
    operator = WindowOperator if config.evictor is None else EvictingWindowOperator
    transaction = ElementTransaction(output, listener) if on_error == "quarantine" else None
    return operator(
        config,
        output,
        clock,
        key_groups=index,
        order_mode=order_mode,
        make_backend=make_backend,
        make_timer_queue=make_timer_queue,
        listener=listener,
        transaction=transaction,
        collected_mark=collected_mark,
    )
