"""The operator of a KeyedProcessFunction, exactly as in Flink 2.3.0: elements and time in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Unpack

from slackwater.windowing.errors import PROCESSING_ELEMENT, ConfigurationError, UserCodeError, WindowingError
from slackwater.windowing.functions import KeyedProcessFunction
from slackwater.windowing.key_types import KeyType
from slackwater.windowing.processing_time_service import ProcessingTimeService
from slackwater.windowing.runtime.contexts import OperatorProcessContext
from slackwater.windowing.runtime.keyed_operator import Domain, KeyedOperator, Moment, OperatorOptions
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
        self.process_all([(key, value, timestamp, None)], _stand_still)

    def process_all(
        self, elements: Iterable[tuple[Any, Any, int | None, Moment]], move_time: Callable[[Any], None]
    ) -> None:
        # Without a call for each element: the user's function is the only one.
        context, transaction = self._context, self._transaction
        process_element, collect = self._function.process_element, self._output.collect
        now = None
        for key, value, timestamp, moment in elements:
            if moment != now:
                move_time(moment)
                now = moment
            self.current_key = key
            context.timestamp = timestamp
            if transaction is not None:
                transaction.begin()
            try:
                rows = process_element(value, context)
                if rows is not None:
                    for row in rows:
                        collect(row, timestamp, None, key)
            except WindowingError as error:
                error.locate(key, None, timestamp)
                self._take_back(error)
                raise
            except Exception as error:
                failure = UserCodeError.of(error, PROCESSING_ELEMENT, key, None, timestamp)
                raise self._take_back(failure) from error
            if transaction is not None:
                transaction.commit()
            self.elements_processed += 1

    def _on_timer(self, domain: Domain, timestamp: int, key: Any, namespace: Any) -> None:
        context, collect = self._context, self._output.collect
        context.timestamp, context.time_domain = timestamp, domain
        timestamp_of_rows = timestamp if domain == "event" else None
        try:
            rows = self._function.on_timer(timestamp, context)
            if rows is not None:
                for row in rows:
                    collect(row, timestamp_of_rows, None, key)
        except WindowingError as error:
            error.locate(key, None, timestamp)
            raise
        except Exception as error:
            raise UserCodeError.of(
                error, f"handling a timer of {domain} time", key, None, timestamp
            ) from error


def _stand_still(moment: Moment) -> None:
    """Time does not move between elements that are processed one by one."""
