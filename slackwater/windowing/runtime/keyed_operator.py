"""The operator on the keys of one range of key groups: its state, timers and time, and the transaction of an
element. `WindowOperator` and `KeyedProcessOperator` are the two operators.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal, TypedDict

from slackwater.windowing.errors import WindowingError
from slackwater.windowing.key_groups import KeyGroupIndex, KeyGroupRange
from slackwater.windowing.key_types import KeyType
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.processing_time_service import ProcessingTimeService
from slackwater.windowing.runtime.contexts import NamespacedStateStore
from slackwater.windowing.runtime.internal_timer_service import InternalTimerService
from slackwater.windowing.runtime.operator_output import OperatorOutput
from slackwater.windowing.runtime.operator_storage import IN_MEMORY, OperatorStorage
from slackwater.windowing.state.backend import UndoJournal

Domain = Literal["event", "processing"]
Moment = int | None  # of the clock, in milliseconds


class _StandIn:
    """Forwards calls to output or listener through the transaction: now, or after the element succeeded."""

    def __init__(self, target: Any, transaction: ElementTransaction) -> None:
        self._target, self._transaction = target, transaction

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)
        return lambda *arguments: self._transaction.pass_on(method, arguments)


class ElementTransaction:
    """Between `begin` and `commit` or `undo`, state and timers note changes in `journal`, and rows wait.

    The operator calls the attributes `output` and `listener` in place of the real ones. `is_undoable` is
    False during a firing or merge, which change what other elements have left.
    """

    def __init__(self, output: Any, listener: Any = None) -> None:
        self.journal = UndoJournal()
        self.output: Any = _StandIn(output, self)
        self.listener: Any = None if listener is None else _StandIn(listener, self)
        self._pending_calls: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._is_open = False
        self.is_undoable = True

    def pass_on(self, method: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if self._is_open:
            self._pending_calls.append((method, arguments))
        else:
            method(*arguments)

    def begin(self) -> None:
        self.journal.begin()
        self._is_open = self.is_undoable = True

    def commit(self) -> None:
        self.journal.commit()
        self._is_open = False
        pending_calls, self._pending_calls = self._pending_calls, []
        for method, arguments in pending_calls:
            method(*arguments)

    def undo(self) -> None:
        self.journal.undo()
        self._is_open = False
        self._pending_calls = []


class OperatorOptions(TypedDict, total=False):
    """Options of every operator.

    key_groups: the range of keys; default: all.
    max_parallelism: number of key groups, fixed for the life of the state; default: 128.
    order_mode: whose order equal timers and merges have; default: RocksDB's.
    on_error: "quarantine" undoes an element's changes when a function raises on it (`undone`); a failure in a
    firing, merge or timer is never undone. Default: "fail".
    """

    key_groups: KeyGroupRange
    max_parallelism: int
    order_mode: OrderMode
    on_error: Literal["fail", "quarantine"]


class KeyedOperator:
    """Runs its own copy of `function` on keyed elements, new and unopened.

    Callers feed elements in arrival order and interleave `process_watermark` and clock advances themselves.
    After an exception the operator must not be used again, unless the error's `undone` is True.
    """

    def __init__(
        self,
        timer_service: str,
        function: Any,
        key_type: KeyType,
        output: OperatorOutput,
        clock: ProcessingTimeService,
        *,
        listener: Any = None,
        storage: OperatorStorage = IN_MEMORY,
        key_groups: KeyGroupRange | None = None,
        max_parallelism: int = 128,
        order_mode: OrderMode = OrderMode.ROCKSDB,
        on_error: Literal["fail", "quarantine"] = "fail",
    ) -> None:
        self.key_groups = KeyGroupIndex(
            key_type, key_groups or KeyGroupRange(0, max_parallelism - 1), max_parallelism
        )
        self.order_mode = order_mode
        self.current_key: Any = None
        self.elements_processed = 0
        self.on_event_time = partial(self._on_timer, "event")
        self.on_processing_time = partial(self._on_timer, "processing")
        self._transaction: ElementTransaction | None = None
        self._output, self._listener = output, listener
        journal = None
        if on_error == "quarantine":
            self._transaction = transaction = ElementTransaction(output, listener)
            self._output, self._listener, journal = (
                transaction.output,
                transaction.listener,
                transaction.journal,
            )
        self.backend = storage.make_backend(self.key_groups, order_mode, journal)
        self.timer_service = InternalTimerService(
            timer_service, self, self.key_groups, order_mode, clock, journal=journal, storage=storage
        )
        # Operators of one process must not share what a function keeps in `self`.
        self._function = copy.deepcopy(function)

    def open(self) -> None:
        """Open the user's function. Called once, before anything else but restoring."""
        self._function.open(NamespacedStateStore(self.backend, self))

    def close(self) -> None:
        self._function.close()
        self.backend.close()

    @property
    def current_watermark(self) -> int:
        return self.timer_service.current_watermark

    def process_watermark(self, timestamp: int) -> None:
        """Advance event time and call due timers. The caller then forwards the watermark."""
        self.timer_service.advance_watermark(timestamp)

    def initialize_watermark(self, timestamp: int) -> None:
        """Restore the watermark; nothing fires. In Flink every element is on time until the next one."""
        self.timer_service.initialize_watermark(timestamp)

    def process_element(self, key: Any, value: Any, timestamp: int | None) -> None:
        """Process one element; `timestamp` is in milliseconds, None for an element without one.

        Raises:
            UserCodeError: a function of the user raised.
            WindowingError: Flink refuses it too, e.g. a missing timestamp; has key, window and timestamp.
        """
        raise NotImplementedError

    def process_all(
        self, elements: Iterable[tuple[Any, Any, int | None, Moment]], move_time: Callable[[Any], None]
    ) -> None:
        """`process_element` for each (key, value, timestamp, moment), and count it in `elements_processed`.
        `move_time` is called first where the moment, if there is one, is not that of the element before.
        After an error of `process_element` the elements that follow can be processed by another call.
        """
        now, process_element = None, self.process_element
        for key, value, timestamp, moment in elements:
            if moment != now:
                move_time(moment)
                now = moment
            process_element(key, value, timestamp)
            self.elements_processed += 1

    def _on_timer(self, domain: Domain, timestamp: int, key: Any, namespace: Any) -> None:
        raise NotImplementedError

    def _take_back(self, failure: WindowingError) -> WindowingError:
        """Undo the element, unless it failed in a firing or merge, which changes what others have left."""
        if self._transaction is not None and self._transaction.is_undoable:
            self._transaction.undo()
            failure.undone = True
        return failure
