"""The operator of a KeyedProcessFunction, exactly as in Flink 2.3.0: elements and time in, rows out."""

from __future__ import annotations

from typing import Any, Unpack

from slackwater.windowing.errors import PROCESSING_ELEMENT, ConfigurationError, UserCodeError, WindowingError
from slackwater.windowing.functions import KeyedProcessFunction, Results
from slackwater.windowing.key_types import KeyType
from slackwater.windowing.processing_time_service import ProcessingTimeService
from slackwater.windowing.runtime.contexts import OperatorProcessContext
from slackwater.windowing.runtime.keyed_operator import Domain, KeyedOperator, OperatorOptions
from slackwater.windowing.runtime.operator_output import OperatorOutput
from slackwater.windowing.runtime.operator_storage import IN_MEMORY, OperatorStorage

TIMER_SERVICE = "user-timers"


class KeyedProcessOperator(KeyedOperator):
    """A KeyedProcessFunction on the keys of one range of key groups (Flink: KeyedProcessOperator)."""

    def __init__(
        self,
        function: KeyedProcessFunction,
        key_type: KeyType,
        output: OperatorOutput,
        clock: ProcessingTimeService,
        *,
        storage: OperatorStorage = IN_MEMORY,
        **options: Unpack[OperatorOptions],
    ) -> None:
        if not isinstance(function, KeyedProcessFunction):
            raise ConfigurationError(f"A KeyedProcessOperator runs a KeyedProcessFunction, got {function!r}.")
        super().__init__(TIMER_SERVICE, function, key_type, output, clock, storage=storage, **options)
        self._context = OperatorProcessContext(self, self._output, self.timer_service)

    def process_element(self, key: Any, value: Any, timestamp: int | None) -> None:
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
            failure = UserCodeError.of(error, PROCESSING_ELEMENT, key, None, timestamp)
            raise self._take_back(failure) from error
        if transaction is not None:
            transaction.commit()

    def _on_timer(self, domain: Domain, timestamp: int, key: Any, namespace: Any) -> None:
        context = self._context
        context.timestamp, context.time_domain = timestamp, domain
        try:
            rows = self._function.on_timer(timestamp, context)
            self._collect(rows, timestamp if domain == "event" else None)
        except WindowingError as error:
            error.locate(key, None, timestamp)
            raise
        except Exception as error:
            raise UserCodeError.of(
                error, f"handling a timer of {domain} time", key, None, timestamp
            ) from error

    def _collect(self, rows: Results, timestamp: int | None) -> None:
        for row in rows or ():
            self._output.collect(row, timestamp, None, self.current_key)
