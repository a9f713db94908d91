"""A user's `reduce` or `aggregate` on lists of element numbers, called in order of arrival, firing by firing.
The value of a parked window is the first number of its list, and no element.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any

import pyarrow as pa

from slackwater.engine.functions.increments import Increments
from slackwater.engine.functions.left_over import leaving_errors
from slackwater.windowing.columnar.element_lists import ElementLists
from slackwater.windowing.snapshot import JsonValues
from slackwater.windowing.state.descriptors import (
    AggregatingStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)

ElementsOf = Callable[[ElementLists], Iterator[list[Any]]]


class ReducingFold:
    """Flink's ReducingState. A reduce that has returned None begins anew. `add` folds elements into a value,
    None before the first; `merge` makes two values one; `result` is what a firing hands on, None for nothing.
    """

    def __init__(self, state: ReducingStateDescriptor) -> None:
        self._reduce = state.reduce

    def add(self, value: Any, elements: Iterable[Any]) -> Any:
        return reduce(lambda old, new: new if old is None else self._reduce(old, new), elements, value)

    def merge(self, value: Any, other: Any) -> Any:
        return self._reduce(value, other)

    def result(self, value: Any) -> Any:
        return value


class AggregatingFold:
    """Flink's AggregatingState; methods as of ReducingFold."""

    def __init__(self, state: AggregatingStateDescriptor) -> None:
        self._aggregate = state.aggregate

    def add(self, value: Any, elements: Iterable[Any]) -> Any:
        add, create = self._aggregate.add, self._aggregate.create_accumulator
        for element in elements:
            value = add(element, create() if value is None else value)
        return value

    def merge(self, value: Any, other: Any) -> Any:
        return self._aggregate.merge(value, other)

    def result(self, value: Any) -> Any:
        return None if value is None else self._aggregate.get_result(value)


WindowFold = ReducingFold | AggregatingFold


def fold_of(state: StateDescriptor) -> WindowFold | None:
    """The fold of a window's contents; None where these are a list."""
    if isinstance(state, ReducingStateDescriptor):
        return ReducingFold(state)
    return AggregatingFold(state) if isinstance(state, AggregatingStateDescriptor) else None


class Folding:
    """The folds of the windows of one range and slice; the parked value i is element number i."""

    def __init__(
        self,
        fold: WindowFold,
        increments: Increments,
        parked_texts: pa.Array,
        json: JsonValues,
        *,
        elements_of: ElementsOf,
        accumulates: bool,
    ) -> None:
        self._fold = fold
        self._increments = increments
        self._parked_texts = parked_texts
        self._json = json
        self._elements_of = elements_of
        self._accumulates = accumulates
        self._values: dict[int, Any] = {}

    def results(self) -> Iterator[Any]:
        """The result of each firing in call order, made on demand: user code may change a value in place."""
        fold = self._fold
        for owner, elements, parked_number in self._with_owners(
            self._increments.owners.tolist(), self._increments.of_firings
        ):
            with leaving_errors("the fold"):
                value = self._values[owner] = self._fold_into(owner, elements, parked_number)
                result = fold.result(value)
            yield result
            if not self._accumulates:
                del self._values[owner]

    def texts(self) -> list[str | None]:
        """The snapshot values of the open windows, None where empty. Called once, after the results."""
        texts: list[str | None] = []
        for owner, elements, parked_number in self._with_owners(
            self._increments.window_owners.tolist(), self._increments.of_windows
        ):
            if owner not in self._values and not elements and parked_number is None:
                texts.append(None)
                continue
            with leaving_errors("the fold"):
                texts.append(self._json.dumps(self._fold_into(owner, elements, parked_number)))
        return texts

    def _with_owners(
        self, owners: list[int], lists: ElementLists
    ) -> Iterator[tuple[int, list[Any], int | None]]:
        parked_count = len(self._parked_texts)
        numbers = lists.numbers[lists.starts[lists.lengths > 0]].tolist()
        firsts = iter(numbers)
        parked_numbers = [next(firsts) if length else parked_count for length in lists.lengths.tolist()]
        for owner, elements, number in zip(owners, self._elements_of(lists), parked_numbers, strict=True):
            if number < parked_count:
                yield owner, elements[1:], number
            else:
                yield owner, elements, None

    def _fold_into(self, owner: int, elements: list[Any], parked_number: int | None) -> Any:
        if parked_number is None:
            value = self._values.get(owner)
        else:
            value = self._json.loads(self._parked_texts[parked_number].as_py())
        return self._fold.add(value, elements)
