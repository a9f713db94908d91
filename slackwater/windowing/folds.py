"""Folds: what users write to keep a value instead of a window's elements, and what back ends call in state
(Flink: ReduceFunction, AggregateFunction).

Pure: a fold has no state and knows no window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class ReduceFunction:
    """Folds two values of one type into one (Flink: ReduceFunction). It must not change its arguments, and
    has no state of its own.
    """

    def reduce(self, a: Any, b: Any) -> Any:
        """`a` is what there is, `b` the newer element or, in a merge, the other window's value."""
        raise NotImplementedError


class AggregateFunction:
    """Folds elements into an accumulator (Flink: AggregateFunction). It has no state of its own: it lives
    inside state.

    `get_result` is called at every firing on the same accumulator and must not change it; a result of None
    emits nothing.
    """

    def create_accumulator(self) -> Any:
        """A fresh accumulator of no elements; never None."""
        raise NotImplementedError

    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with one more element; it may be changed in place and returned."""
        raise NotImplementedError

    def get_result(self, accumulator: Any) -> Any:
        """What a firing hands to the window function, or emits."""
        raise NotImplementedError

    def merge(self, a: Any, b: Any) -> Any:
        """The accumulator of both; called when sessions merge. It may change `a` in place and return it."""
        raise NotImplementedError


class BulkAggregateFunction(AggregateFunction):
    """An aggregate that adds many elements in one call. It raises on none of them, and their order does not
    matter to it.
    """

    def add_all(self, values: Sequence[Any], accumulator: Any) -> Any:
        """The accumulator with all of `values` added, as after a call of `add` for each in turn."""
        for value in values:
            accumulator = self.add(value, accumulator)
        return accumulator

    def accumulator_of(self, values: Sequence[Any]) -> Any:
        """The accumulator of `values` and no other elements."""
        return self.add_all(values, self.create_accumulator())


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
