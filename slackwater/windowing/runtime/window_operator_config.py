"""A window operator's configuration: the user's choices in one frozen, picklable value for executors, and how
it calls each kind of user function (Flink: runtime/operators/windowing/functions).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from slackwater.windowing.assigners import WindowAssigner
from slackwater.windowing.evictors import Evictor
from slackwater.windowing.folds import AggregateFunction, ReduceFunction
from slackwater.windowing.functions import (
    AllWindowFunction,
    Function,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    Results,
    RuntimeContext,
    WindowContext,
    WindowFunction,
)
from slackwater.windowing.key_types import KeyType
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.triggers import Trigger
from slackwater.windowing.windows import Window


class InternalWindowFunction:
    """Turns contents into rows by `function`, if any; an operator runs a copy (Flink:
    InternalWindowFunction). Compared by value, if the user's function is.
    """

    function: Function | None = None

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"
        )

    def open(self, runtime_context: RuntimeContext) -> None:
        if self.function is not None:
            self.function.open(runtime_context)

    def close(self) -> None:
        if self.function is not None:
            self.function.close()

    def process(self, key: Any, window: Window, context: WindowContext, contents: Any) -> Results:
        raise NotImplementedError

    def clear(self, context: WindowContext) -> None:
        """The window is collected."""


class PassThrough(InternalWindowFunction):
    """Contents are the row: reduce or aggregate alone (Flink: PassThroughWindowFunction)."""

    def process(self, key: Any, window: Window, context: WindowContext, contents: Any) -> Results:
        return (contents,)


class IterableProcess(InternalWindowFunction):
    def __init__(
        self, function: ProcessWindowFunction | WindowFunction | ProcessAllWindowFunction | AllWindowFunction
    ) -> None:
        self.function: Any = function

    def process(self, key: Any, window: Window, context: WindowContext, contents: Iterable[Any]) -> Results:
        function = self.function
        if isinstance(function, ProcessWindowFunction):
            return function.process(key, context, contents)
        if isinstance(function, WindowFunction):
            return function.apply(key, window, contents)
        if isinstance(function, ProcessAllWindowFunction):
            return function.process(context, contents)
        assert isinstance(function, AllWindowFunction)
        return function.apply(window, contents)

    def clear(self, context: WindowContext) -> None:
        if isinstance(self.function, ProcessWindowFunction | ProcessAllWindowFunction):
            self.function.clear(context)


class SingleValue(InternalWindowFunction):
    """Passes the folded value as an iterable of one (Flink: InternalSingleValueProcessWindowFunction)."""

    def __init__(self, inner: InternalWindowFunction) -> None:
        self.inner = inner
        self.function = inner.function

    def process(self, key: Any, window: Window, context: WindowContext, contents: Any) -> Results:
        return self.inner.process(key, window, context, [contents])

    def clear(self, context: WindowContext) -> None:
        self.inner.clear(context)


class FoldAtFiring(InternalWindowFunction):
    """With an evictor: folds the surviving elements at each firing (Flink: ReduceApply… and AggregateApply…
    functions). Without survivors, a reduce yields None, an aggregate the result of its empty accumulator.
    """

    def __init__(self, fold: ReduceFunction | AggregateFunction, inner: InternalWindowFunction) -> None:
        self.fold, self.inner = fold, inner
        self.function = inner.function

    def process(self, key: Any, window: Window, context: WindowContext, contents: Iterable[Any]) -> Results:
        return self.inner.process(key, window, context, self._fold_elements(contents))

    def clear(self, context: WindowContext) -> None:
        self.inner.clear(context)

    def _fold_elements(self, contents: Iterable[Any]) -> Any:
        if isinstance(self.fold, AggregateFunction):
            accumulator = self.fold.create_accumulator()
            for value in contents:
                accumulator = self.fold.add(value, accumulator)
            return self.fold.get_result(accumulator)
        result = None
        for value in contents:
            result = value if result is None else self.fold.reduce(result, value)
        return result


@dataclass(frozen=True, kw_only=True)
class WindowOperatorConfig:
    """Built by WindowOperatorBuilder, which checks combinations.

    Attributes:
        key_selector: element → key; None when callers have the keys.
        allowed_lateness_ms: how long after its last instant a window of event time stays.
        has_late_output: late elements go to the late side output instead of being counted and dropped.
        contents: the state of a window's contents, which `function` turns into rows.
        is_flink_exact: reproduce Flink's loss of a session, see MergingWindowSet.
    """

    key_type: KeyType
    key_selector: Callable[[Any], Any] | None
    assigner: WindowAssigner
    trigger: Trigger
    evictor: Evictor | None
    allowed_lateness_ms: int
    has_late_output: bool
    contents: StateDescriptor
    function: InternalWindowFunction
    is_flink_exact: bool
