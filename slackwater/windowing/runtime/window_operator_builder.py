"""From declarations to a checked WindowOperatorConfig (Flink: WindowOperatorBuilder, WindowedStream)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from slackwater.windowing.assigners import CountWindows, MergingWindowAssigner, WindowAssigner
from slackwater.windowing.durations import require_duration_ms
from slackwater.windowing.errors import ConfigurationError, UnsupportedCombinationError
from slackwater.windowing.evictors import Evictor
from slackwater.windowing.folds import AggregateFunction, CallableReduce, ReduceFunction
from slackwater.windowing.functions import (
    AllWindowFunction,
    Function,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from slackwater.windowing.key_types import BYTE, KeyType
from slackwater.windowing.runtime.window_operator_config import (
    FoldAtFiring,
    InternalWindowFunction,
    IterableProcess,
    PassThrough,
    SingleValue,
    WindowOperatorConfig,
)
from slackwater.windowing.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from slackwater.windowing.triggers import Trigger

CONTENTS = "window-contents"

KeyedWindowFunction = ProcessWindowFunction | WindowFunction
AnyWindowFunction = KeyedWindowFunction | ProcessAllWindowFunction | AllWindowFunction


class WindowOperatorBuilder:
    """Collects choices; `reduce`, `aggregate` or `process` ends with a config. `key_selector` is element →
    key, or None when the caller has the keys.
    """

    def __init__(
        self, key_type: KeyType, assigner: WindowAssigner, key_selector: Callable[[Any], Any] | None = None
    ) -> None:
        _check_kind("The key type", key_type, KeyType)
        _check_kind("The assigner", assigner, WindowAssigner)
        self._key_type, self._assigner, self._key_selector = key_type, assigner, key_selector
        self._trigger = assigner.get_default_trigger()
        self._evictor = assigner.get_default_evictor()
        self._allowed_lateness_ms = 0
        self._has_late_output = False
        self._is_flink_exact = False

    @classmethod
    def window_all(cls, assigner: WindowAssigner) -> WindowOperatorBuilder:
        """Windows over all elements: the key is the byte 0 (Flink: windowAll, NullByteKeySelector)."""
        return cls(BYTE, assigner, _the_one_key)

    @classmethod
    def count_window(
        cls,
        key_type: KeyType,
        size: int,
        slide: int | None = None,
        key_selector: Callable[[Any], Any] | None = None,
    ) -> WindowOperatorBuilder:
        """Windows of `size` elements, or of the last `size` every `slide` elements (Flink: countWindow)."""
        return cls(key_type, CountWindows.of(size, slide), key_selector)

    def trigger(self, trigger: Trigger) -> WindowOperatorBuilder:
        """Use this trigger. Raises UnsupportedCombinationError when windows merge and the trigger cannot."""
        _check_kind("The trigger", trigger, Trigger)
        if isinstance(self._assigner, MergingWindowAssigner) and not trigger.can_merge:
            raise UnsupportedCombinationError(
                f"{type(self._assigner).__name__} merges windows, and {trigger!r} cannot merge; use a "
                "trigger that implements on_merge."
            )
        self._trigger = trigger
        return self

    def evictor(self, evictor: Evictor) -> WindowOperatorBuilder:
        _check_kind("The evictor", evictor, Evictor)
        self._evictor = evictor
        return self

    def allowed_lateness(self, lateness: timedelta) -> WindowOperatorBuilder:
        """How long after its last instant a window stays, in event time."""
        return self.allowed_lateness_ms(require_duration_ms("The allowed lateness", lateness))

    def allowed_lateness_ms(self, lateness_ms: int) -> WindowOperatorBuilder:
        """`allowed_lateness` in milliseconds. Raises ConfigurationError below zero."""
        if lateness_ms < 0:
            raise ConfigurationError(f"The allowed lateness cannot be negative, got {lateness_ms} ms.")
        self._allowed_lateness_ms = lateness_ms
        return self

    def side_output_late_data(self) -> WindowOperatorBuilder:
        """Emit late elements to the late side output instead of dropping and counting them."""
        self._has_late_output = True
        return self

    def flink_exact(self) -> WindowOperatorBuilder:
        """Lose what Flink 2.3.0 loses: a merged session whose bounds an element's own window equals."""
        self._is_flink_exact = True
        return self

    def reduce(
        self,
        function: ReduceFunction | Callable[[Any, Any], Any],
        window_function: AnyWindowFunction | None = None,
    ) -> WindowOperatorConfig:
        """Fold elements as they come; a window function, if any, gets the one value."""
        if not isinstance(function, ReduceFunction):
            if not callable(function):
                raise ConfigurationError(
                    f"reduce needs a ReduceFunction or a callable of two values, got {function!r}."
                )
            function = CallableReduce(function)
        _check_not_rich(function)
        inner = _function_of_value("reduce", window_function)
        if self._evictor is not None:
            return self._config(ListStateDescriptor(CONTENTS), FoldAtFiring(function, inner))
        fold = function.function if isinstance(function, CallableReduce) else function.reduce
        return self._config(ReducingStateDescriptor(CONTENTS, fold), inner)

    def aggregate(
        self, function: AggregateFunction, window_function: AnyWindowFunction | None = None
    ) -> WindowOperatorConfig:
        """Fold elements into an accumulator as they come; a window function, if any, gets the one result."""
        if not isinstance(function, AggregateFunction):
            raise ConfigurationError(f"aggregate needs an AggregateFunction, got {function!r}.")
        _check_not_rich(function)
        inner = _function_of_value("aggregate", window_function)
        if self._evictor is not None:
            return self._config(ListStateDescriptor(CONTENTS), FoldAtFiring(function, inner))
        return self._config(AggregatingStateDescriptor(CONTENTS, function), inner)

    def process(self, function: ProcessWindowFunction | ProcessAllWindowFunction) -> WindowOperatorConfig:
        """Keep all elements, and call the function with them at each firing."""
        if not isinstance(function, ProcessWindowFunction | ProcessAllWindowFunction):
            raise ConfigurationError(
                f"process needs a ProcessWindowFunction or ProcessAllWindowFunction, got {function!r}."
            )
        return self._config(ListStateDescriptor(CONTENTS), IterableProcess(function))

    def apply(self, function: WindowFunction | AllWindowFunction) -> WindowOperatorConfig:
        """As `process`, with the older kind of function."""
        if not isinstance(function, WindowFunction | AllWindowFunction):
            raise ConfigurationError(f"apply needs a WindowFunction or AllWindowFunction, got {function!r}.")
        return self._config(ListStateDescriptor(CONTENTS), IterableProcess(function))

    def _config(self, contents: StateDescriptor, function: InternalWindowFunction) -> WindowOperatorConfig:
        return WindowOperatorConfig(
            key_type=self._key_type,
            key_selector=self._key_selector,
            assigner=self._assigner,
            trigger=self._trigger,
            evictor=self._evictor,
            allowed_lateness_ms=self._allowed_lateness_ms,
            has_late_output=self._has_late_output,
            contents=contents,
            function=function,
            is_flink_exact=self._is_flink_exact,
        )


def _the_one_key(element: Any) -> int:
    return 0


def _check_kind(what: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise ConfigurationError(f"{what} must be {article} {kind.__name__}, got {value!r}.")


def _function_of_value(call: str, function: Any) -> InternalWindowFunction:
    if function is None:
        return PassThrough()
    if not isinstance(function, AnyWindowFunction):
        raise ConfigurationError(
            f"{call} hands its value to a ProcessWindowFunction or WindowFunction, got {function!r}."
        )
    return SingleValue(IterableProcess(function))


def _check_not_rich(function: object) -> None:
    if isinstance(function, Function):
        raise UnsupportedCombinationError(
            f"{type(function).__name__} lives inside state and cannot be opened or have state of its own; "
            "use a window function for that."
        )
