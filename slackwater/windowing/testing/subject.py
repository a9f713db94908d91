"""The operator that a harness drives: a window or process operator, created anew for each subtask and run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from slackwater.windowing.errors import ConfigurationError
from slackwater.windowing.functions import KeyedProcessFunction
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.key_types import KeyType
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.processing_time_service import ManualClock, ReplayProcessingTimeService
from slackwater.windowing.runtime.keyed_operator import KeyedOperator, OperatorOptions
from slackwater.windowing.runtime.keyed_process_operator import KeyedProcessOperator
from slackwater.windowing.runtime.operator_output import OperatorOutput
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from slackwater.windowing.runtime.window_operator import WindowOperator
from slackwater.windowing.runtime.window_operator_config import WindowOperatorConfig


@dataclass(frozen=True)
class KeyedProcess:
    function: KeyedProcessFunction
    key_type: KeyType


Subject: TypeAlias = WindowOperatorConfig | KeyedProcess


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
    ) -> KeyedOperator:
        """A new, unopened operator of a subtask that owns `key_groups`."""
        options = OperatorOptions(
            key_groups=key_groups,
            max_parallelism=self.max_parallelism,
            order_mode=self.order_mode,
            on_error=self.on_error,
        )
        match subject:
            case WindowOperatorConfig():
                return WindowOperator(subject, output, clock, storage=storage, **options)
            case KeyedProcess(function, key_type):
                return KeyedProcessOperator(function, key_type, output, clock, storage=storage, **options)
            case _:
                raise ConfigurationError(
                    "The kit drives a WindowOperatorConfig (what WindowOperatorBuilder ends with) or a "
                    f"KeyedProcess, got {subject!r}."
                )
