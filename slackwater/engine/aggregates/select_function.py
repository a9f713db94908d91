"""A pipeline's `select` as one Flink AggregateFunction, for the operator engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import call
from typing import Any

from slackwater.engine.aggregates.accumulator import Accumulator
from slackwater.windowing.folds import BulkAggregateFunction


class SelectFunction(BulkAggregateFunction):
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


@dataclass(slots=True)
class RowStretch:
    """Rows `start` to `stop` - 1 as one element, with an accumulator per aggregate; None: add row by row."""

    start: int
    stop: int
    totals: tuple[Any, ...]

    def __len__(self) -> int:
        return self.stop - self.start


class StretchFunction(SelectFunction):
    """A SelectFunction whose elements are stretches of rows."""

    def __init__(self, accumulators: Sequence[Accumulator], columns: Sequence[Sequence[Any] | None]) -> None:
        super().__init__(accumulators, columns)
        self._mergers = tuple(
            (i, a.merge, a.add_all, c)
            for i, (a, c) in enumerate(zip(self._accumulators, self._columns, strict=True))
        )

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        for i, merge, add_all, column in self._mergers:
            if (total := value.totals[i]) is not None:
                accumulator[i] = merge(accumulator[i], total)
            elif column is None:
                accumulator[i] = add_all(accumulator[i], range(value.start, value.stop))
            else:
                items = column[value.start : value.stop]
                accumulator[i] = add_all(
                    accumulator[i], [item for item in items if item is not None] if None in items else items
                )
        return accumulator

    def add_all(self, values: Any, accumulator: list[Any]) -> list[Any]:
        return self.add(values, accumulator)

    def accumulator_of(self, values: Any) -> list[Any]:
        return self.add(values, self.create_accumulator()) if None in values.totals else list(values.totals)
