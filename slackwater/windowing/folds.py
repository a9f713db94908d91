"""Folds of elements into a value (Flink: ReduceFunction, AggregateFunction): pure, no state, no window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class ReduceFunction:
    """Folds two values of one type into one (Flink: ReduceFunction), without changing its arguments."""

    def reduce(self, a: Any, b: Any) -> Any:
        """`a` is the value so far, `b` the newer element or, in a merge, the other window's value."""
        raise NotImplementedError


class AggregateFunction:
    """Folds elements into an accumulator, which is state (Flink: AggregateFunction).

    `get_result` is called at every firing on the same accumulator and must not change it; None emits nothing.
    """

    def create_accumulator(self) -> Any:
        """A new, empty accumulator; never None."""
        raise NotImplementedError

    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with one more element; it may be changed in place and returned."""
        raise NotImplementedError

    def get_result(self, accumulator: Any) -> Any:
        """The value that a firing emits or passes to the window function."""
        raise NotImplementedError

    def merge(self, a: Any, b: Any) -> Any:
        """The accumulator of both, called when sessions merge; `a` may be changed in place and returned."""
        raise NotImplementedError


class CallableReduce(ReduceFunction):
    """A reduce function from a plain callable (a, b) -> value."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function

    def reduce(self, a: Any, b: Any) -> Any:
        return self.function(a, b)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallableReduce) and other.function == self.function

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return f"CallableReduce({self.function!r})"
