"""The operator of a KeyedProcessFunction, exactly as in Flink 2.3.0: elements and time in, rows out."""

from __future__ import annotations

import copy
from typing import Any, Literal

from slackwater.windowing.errors import PROCESSING_ELEMENT, ConfigurationError, UserCodeError, WindowingError
from slackwater.windowing.functions import KeyedProcessFunction, Results, TimerService
from slackwater.windowing.java import LONG_MIN
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.key_types import KeyType
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.processing_time_service import ProcessingTimeService
from slackwater.windowing.runtime.element_transaction import ElementTransaction
from slackwater.windowing.runtime.internal_time_service_manager import InternalTimeServiceManager
from slackwater.windowing.runtime.internal_timer_service import InternalTimerService
from slackwater.windowing.runtime.key_group_index import KeyGroupIndex
from slackwater.windowing.runtime.keyed_state_store import NamespacedStateStore
from slackwater.windowing.runtime.operator_output import OperatorOutput
from slackwater.windowing.runtime.operator_storage import (
    MakeBackend,
    MakeTimerQueue,
    heap_backend,
    queue_in_memory,
)
from slackwater.windowing.state.handles import KeyContext

TIMER_SERVICE = "user-timers"


class SimpleTimerService:
    """A TimerService of the current key, without windows (Flink: SimpleTimerService)."""

    __slots__ = ("_keys", "_timers")

    def __init__(self, keys: KeyContext, timers: InternalTimerService) -> None:
        self._keys, self._timers = keys, timers

    @property
    def current_watermark(self) -> int:
        return self._timers.current_watermark

    @property
    def current_processing_time(self) -> int:
        return self._timers.current_processing_time

    def register_event_time_timer(self, timestamp: int) -> None:
        self._timers.register_event_time_timer(timestamp, self._keys.current_key, None)

    def register_processing_time_timer(self, timestamp: int) -> None:
        self._timers.register_processing_time_timer(timestamp, self._keys.current_key, None)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._timers.delete_event_time_timer(timestamp, self._keys.current_key, None)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._timers.delete_processing_time_timer(timestamp, self._keys.current_key, None)


class OperatorProcessContext:
    """One operator's KeyedProcessContext and OnTimerContext, set to an element or timer before each call."""

    __slots__ = ("_operator", "_output", "time_domain", "timer_service", "timestamp")

    def __init__(
        self, operator: KeyedProcessOperator, output: OperatorOutput, timers: InternalTimerService
    ) -> None:
        self._operator, self._output = operator, output
        self.timer_service: TimerService = SimpleTimerService(operator, timers)
        self.timestamp: int | None = None
        self.time_domain = "event"

    @property
    def current_key(self) -> Any:
        return self._operator.current_key

    def output(self, tag: str, value: Any) -> None:
        if tag is None:
            raise ConfigurationError("A side output needs a tag, got None.")
        timestamp = LONG_MIN if self.timestamp is None else self.timestamp
        self._output.side(tag, value, timestamp, None, self._operator.current_key)


class KeyedProcessOperator:
    """A KeyedProcessFunction on the keys of one range of key groups (Flink: KeyedProcessOperator).

    Arguments as for `window_operator`; the operator runs its own copy of `function`. Its timer service has
    the name "user-timers".
    """

    def __init__(
        self,
        function: KeyedProcessFunction,
        key_type: KeyType,
        output: OperatorOutput,
        clock: ProcessingTimeService,
        *,
        key_groups: KeyGroupRange | None = None,
        max_parallelism: int = 128,
        order_mode: OrderMode = OrderMode.ROCKSDB,
        make_backend: MakeBackend = heap_backend,
        make_timer_queue: MakeTimerQueue = queue_in_memory,
        on_error: Literal["fail", "quarantine"] = "fail",
    ) -> None:
        if not isinstance(function, KeyedProcessFunction):
            raise ConfigurationError(f"A KeyedProcessOperator runs a KeyedProcessFunction, got {function!r}.")
        index = KeyGroupIndex(key_type, key_groups or KeyGroupRange(0, max_parallelism - 1), max_parallelism)
        self._transaction = ElementTransaction(output) if on_error == "quarantine" else None
        journal = None if self._transaction is None else self._transaction.journal
        self._output: OperatorOutput = output if self._transaction is None else self._transaction.output
        self.current_key: Any = None
        self.backend = make_backend(index, order_mode, journal)
        self.time_services = InternalTimeServiceManager(index, order_mode, clock, journal, make_timer_queue)
        self._timers = self.time_services.get_internal_timer_service(TIMER_SERVICE, self)
        self._function = copy.deepcopy(function)
        self._context = OperatorProcessContext(self, self._output, self._timers)

    def open(self) -> None:
        self._function.open(NamespacedStateStore(self.backend, self))

    def close(self) -> None:
        self._function.close()
        self.backend.close()

    @property
    def current_watermark(self) -> int:
        return self._timers.current_watermark

    def process_watermark(self, timestamp: int) -> None:
        """Advance event time. The caller forwards the watermark afterwards."""
        self.time_services.advance_watermark(timestamp)

    def initialize_watermark(self, timestamp: int) -> None:
        self.time_services.initialize_watermark(timestamp)

    def process_element(self, key: Any, value: Any, timestamp: int | None) -> None:
        """Process one element. Raises the function's UserCodeError; if `undone`, the operator can go on."""
        self.current_key = key
        context = self._context
        context.timestamp = timestamp
        transaction = self._transaction
        if transaction is not None:
            transaction.begin()
        try:
            rows = self._function.process_element(value, context)
            if rows is not None:
                self._collect(rows, timestamp)
        except WindowingError as error:
            error.locate(key, None, timestamp)
            self._take_back(error)
            raise
        except Exception as error:
            raise self._take_back(
                UserCodeError.of(error, PROCESSING_ELEMENT, key, None, timestamp)
            ) from error
        if transaction is not None:
            transaction.commit()

    def on_event_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        self._on_timer("event", timestamp, timestamp)

    def on_processing_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        self._on_timer("processing", timestamp, None)

    def _on_timer(self, domain: str, timestamp: int, row_timestamp: int | None) -> None:
        context = self._context
        context.timestamp = timestamp
        context.time_domain = domain
        try:
            self._collect(self._function.on_timer(timestamp, context), row_timestamp)
        except WindowingError as error:
            error.locate(self.current_key, None, timestamp)
            raise
        except Exception as error:
            raise UserCodeError.of(
                error, f"handling a timer of {domain} time", self.current_key, None, timestamp
            ) from error

    def _take_back(self, failure: WindowingError) -> WindowingError:
        if self._transaction is not None:
            self._transaction.undo()
            failure.undone = True
        return failure

    def _collect(self, rows: Results, timestamp: int | None) -> None:
        for row in rows or ():
            self._output.collect(row, timestamp, None, self.current_key)
