"""A user's `reduce` or `aggregate` on lists of element numbers, called in order of arrival, firing by firing.
The value of a parked window is the first number of its list, and no element.

The kernels give every firing the list of all elements that its window had taken by then. A fold has put
these together, and takes the increment since the firing before:

    lists of one window's firings    1 2 3    1 2 3 7    1 2 3 7 9 12    parked  1 2 3 7 9 12 20
    increments                       1 2 3    7          9 12                    20
"""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.engine.functions.left_over import leaving_errors
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import group_pairs
from slackwater.windowing.columnar.element_lists import ElementLists
from slackwater.windowing.columnar.window_columns import NO_CONTENTS, Firings, OpenWindows
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


class Increments(NamedTuple):
    """The increments of the windows of a slice.

    Attributes:
        owners: int64[k], the number of each firing's window.
        window_owners: int64[n], the number of each window that is open at the slice's end.
        lists_of_windows: what came to each open window after its last firing in the slice.
    """

    owners: Longs
    lists_of_firings: ElementLists
    window_owners: Longs
    lists_of_windows: ElementLists

    @classmethod
    def of(
        cls,
        firings: Firings,
        lists: ElementLists,
        windows: OpenWindows,
        accumulators: ElementLists,
        *,
        accumulates: bool,
    ) -> "Increments":
        """The increments of firings, in call order with `lists` of their elements, and of open windows, whose
        `contents` are rows of `accumulators`. Where firings purge, a list is an increment.
        """
        count = len(firings.keys)
        lists_of_windows = contents_of(windows, accumulators)
        groups, _, _ = group_pairs(
            np.append(firings.keys, windows.keys), np.append(firings.starts, windows.starts)
        )
        owners, window_owners = groups.codes[:count], groups.codes[count:]
        if not accumulates:
            return cls(owners, lists, window_owners, lists_of_windows)
        lengths = np.append(lists.lengths, lists_of_windows.lengths)
        order = np.argsort(groups.codes, kind="stable")
        lengths_before = np.zeros(len(lengths), np.int64)
        follows = groups.codes[order[1:]] == groups.codes[order[:-1]]
        lengths_before[order[1:][follows]] = lengths[order[:-1][follows]]
        lengths_before = np.minimum(lengths_before, lengths)
        return cls(
            owners,
            lists.without_first(lengths_before[:count]),
            window_owners,
            lists_of_windows.without_first(lengths_before[count:]),
        )


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
            self._increments.owners.tolist(), self._increments.lists_of_firings
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
            self._increments.window_owners.tolist(), self._increments.lists_of_windows
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


def contents_of(windows: OpenWindows, accumulators: ElementLists) -> ElementLists:
    """The elements of each window; none of a window without contents."""
    has_contents = windows.contents != NO_CONTENTS
    bounds = np.zeros((2, len(windows.keys)), np.int64)
    lists_of_windows = accumulators.take(windows.contents[has_contents])
    bounds[:, has_contents] = lists_of_windows.starts, lists_of_windows.ends
    return ElementLists(accumulators.numbers, *bounds)
