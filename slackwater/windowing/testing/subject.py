"""The operator that a harness drives: a window or process operator, created anew for each subtask and run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from slackwater.windowing.errors import ConfigurationError
from slackwater.windowing.functions import KeyedProcessFunction
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.key_types import KeyType
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.processing_time_service import ProcessingTimeService, ReplayProcessingTimeService
from slackwater.windowing.runtime.internal_time_service_manager import InternalTimeServiceManager
from slackwater.windowing.runtime.keyed_process_operator import KeyedProcessOperator
from slackwater.windowing.runtime.operator_output import OperatorOutput
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig
from slackwater.windowing.runtime.window_operators import window_operator
from slackwater.windowing.state.backend import StateBackend


@dataclass(frozen=True)
class KeyedProcess:
    function: KeyedProcessFunction
    key_type: KeyType


Subject: TypeAlias = WindowOperatorConfig | KeyedProcess


class DrivenOperator(Protocol):
    @property
    def backend(self) -> StateBackend: ...

    @property
    def time_services(self) -> InternalTimeServiceManager: ...

    @property
    def current_watermark(self) -> int: ...

    def open(self) -> None: ...

    def close(self) -> None: ...

    def process_element(self, key: Any, value: Any, timestamp: int | None) -> None: ...

    def process_watermark(self, timestamp: int) -> None: ...

    def initialize_watermark(self, timestamp: int) -> None: ...


class ManualClock(ProcessingTimeService, Protocol):
    """A clock that a test moves. There are two rules of when a timer for t is due:

    ReplayProcessingTimeService: at t + 1 ms, the clock stopping there on its way, as in a replay and a live
    Flink job. HarnessProcessingTimeService: at t, after the clock has jumped, as in Flink's own test harness.
    """

    def advance_to(self, timestamp: int) -> None:
        """Move the clock, and call back what is due."""


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """What operators run on, the same in every run of a test.

    Attributes:
        clock: first reading → a subtask's clock; see ManualClock for the two there are.
        max_parallelism: number of key groups, fixed for the life of the state.
        order_mode: whose order equal timers and merges have.
        storage: creates the place of one operator's state and timers; default: memory.
        on_error: "quarantine" undoes an element on which a function raises.
    """

    clock: Callable[[int], ManualClock] = ReplayProcessingTimeService
    max_parallelism: int = 128
    order_mode: OrderMode = OrderMode.ROCKSDB
    storage: Callable[[], OperatorStorage] = OperatorStorage
    on_error: Literal["fail", "quarantine"] = "fail"

    def operator(
        self,
        subject: Subject,
        output: OperatorOutput,
        clock: ManualClock,
        storage: OperatorStorage,
        key_groups: KeyGroupRange,
    ) -> DrivenOperator:
        """A new, unopened operator of a subtask that owns `key_groups`."""
        match subject:
            case WindowOperatorConfig():
                return window_operator(
                    subject,
                    output,
                    clock,
                    key_groups=key_groups,
                    max_parallelism=self.max_parallelism,
                    order_mode=self.order_mode,
                    make_backend=storage.make_backend,
                    make_timer_queue=storage.make_timer_queue,
                    on_error=self.on_error,
                )
            case KeyedProcess(function, key_type):
                return KeyedProcessOperator(
                    function,
                    key_type,
                    output,
                    clock,
                    key_groups=key_groups,
                    max_parallelism=self.max_parallelism,
                    order_mode=self.order_mode,
                    make_backend=storage.make_backend,
                    make_timer_queue=storage.make_timer_queue,
                    on_error=self.on_error,
                )
            case _:
                raise ConfigurationError(
                    "The kit drives a WindowOperatorConfig (what WindowOperatorBuilder ends with) or a "
                    f"KeyedProcess, got {subject!r}."
                )
