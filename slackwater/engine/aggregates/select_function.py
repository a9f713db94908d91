"""A pipeline's `select` as one Flink AggregateFunction, for the operator engine."""

from collections.abc import Sequence
from operator import call
from typing import Any

from slackwater.engine.aggregates.accumulator import Accumulator
from slackwater.windowing.folds import AggregateFunction


class SelectFunction(AggregateFunction):
    """All aggregates of a `select` at once: the element is a row number, which never enters state, the
    accumulator a list of accumulators. `columns[i]` has the operands of aggregate i; None where it counts
    rows.
    """

    def __init__(self, accumulators: Sequence[Accumulator], columns: Sequence[Sequence[Any] | None]) -> None:
        self._accumulators = tuple(accumulators)
        self._columns = tuple(columns)
        self._results = tuple(a.result for a in self._accumulators)
        self._creators = tuple(a.create for a in self._accumulators)
        self._adders = tuple(
            (i, a.add, c) for i, (a, c) in enumerate(zip(self._accumulators, self._columns, strict=True))
        )

    def create_accumulator(self) -> list[Any]:
        return list(map(call, self._creators))

    def add(self, value: int, accumulator: list[Any]) -> list[Any]:
        for i, add, column in self._adders:
            if column is None:
                accumulator[i] = add(accumulator[i], None)
            elif (item := column[value]) is not None:
                accumulator[i] = add(accumulator[i], item)
        return accumulator

    def get_result(self, accumulator: list[Any]) -> tuple[Any, ...]:
        return tuple(map(call, self._results, accumulator))

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        return [bound.merge(x, y) for bound, x, y in zip(self._accumulators, a, b, strict=True)]
