"""The contents of windows as numbers of elements. An accumulator in the operator's state is one
integer, the number of the newest addition to a window; which elements the window holds follows from the log
of all additions, from which `lists` reads the elements of any accumulators at once, when the slice is over:

    addition   1   2   3   4   5   6        state of window A   4, before that 3 and 1
    window     A   B   A   A   B   A+B      state of window B   5, then absorbed
    element    e0  e1  e1  e2  e3           state of the merged session   6

    chains     A: e0 e1 e2      B: e1 e3      6 begins a chain of its own, after the elements of 4 and 5

A window that fires often shows prefixes of one chain, so nothing is copied for a firing, and the state stays
small, also on disk. Numbers never leave the slice: parked are the elements, or their aggregates.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

import numpy as np

from slackwater.windowing import AggregateFunction
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.orders import sort_non_negative
from slackwater.windowing.columnar.element_lists import ElementLists

T = TypeVar("T")

_NOTHING: Final = 0  # the accumulator of no elements
_NO_ELEMENTS: Final = -1  # the item that adds nothing
_NO_ADDITION: Final = -1  # of the chain of no elements, which is never extended


class ElementChains(AggregateFunction):
    """A Flink AggregateFunction over the numbers of elements. A chain is a run of additions, each to the
    result of the one before. `number_of` says the number of an element; without it, and without
    `tell_numbers`, elements are numbers.
    """

    def __init__(self, number_of: Callable[[Any], int] | None = None) -> None:
        self._number_of = number_of
        self._number: int | None = None  # of the element that the operator has taken last
        # Of each addition its chain, and what it adds: an element's number, or -1 - (a parked part's).
        self._chains = array("q", [0])
        self._items = array("q", [_NO_ELEMENTS])
        self._newest_additions = [_NO_ADDITION]  # of each chain
        self._accumulators_before: dict[int, tuple[int, ...]] = {}  # of chains that begin after others
        self._parked_count = 1

    def __deepcopy__(self, memo: object) -> ElementChains:
        return self  # an operator's copy of its function adds to the same log

    def tell_numbers(self, elements: Iterable[T]) -> Iterator[T]:
        """The same elements, numbered by their places as the operator takes one after the other."""
        for number, element in enumerate(elements):
            self._number = number
            yield element

    def create_accumulator(self) -> int:
        return _NOTHING

    def add(self, value: Any, accumulator: int) -> int:
        number = self._number
        if number is None:
            number = value if self._number_of is None else self._number_of(value)
        chain, newest_additions = self._chains[accumulator], self._newest_additions
        if newest_additions[chain] != accumulator:
            # A new window, or what came after was undone.
            return self._begin_chain(number, *((accumulator,) if accumulator else ()))
        items = self._items
        newest_additions[chain] = addition = len(items)
        items.append(number)
        self._chains.append(chain)
        return addition

    def merge(self, a: int, b: int) -> int:
        return self._begin_chain(_NO_ELEMENTS, a, b)

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def restore(self, lengths: Longs) -> list[int]:
        """The accumulators of parked contents, of so many parts each, at least one. Parts are numbered from 1
        in the order in which they are restored.
        """
        first_addition, first_chain, count = len(self._items), len(self._newest_additions), int(lengths.sum())
        numbers = np.arange(self._parked_count, self._parked_count + count)
        self._parked_count += count
        chains = np.repeat(np.arange(first_chain, first_chain + len(lengths)), lengths)
        self._items.frombytes((-1 - numbers).tobytes())
        self._chains.frombytes(chains.tobytes())
        accumulators: list[int] = (first_addition - 1 + np.cumsum(lengths)).tolist()
        self._newest_additions += accumulators
        return accumulators

    def numbers_of_parked(self, count: int) -> list[int]:
        """So many more parked parts as what `add` takes: to contents that are restored in pieces."""
        first = self._parked_count
        self._parked_count += count
        return [-1 - number for number in range(first, first + count)]

    def _begin_chain(self, item: int, *accumulators_before: int) -> int:
        addition, chain = len(self._items), len(self._newest_additions)
        self._chains.append(chain)
        self._items.append(item)
        self._newest_additions.append(addition)
        if accumulators_before:
            self._accumulators_before[chain] = accumulators_before
        return addition

    def lists(self, accumulators: Longs) -> ElementLists:
        """The numbers of what each accumulator holds, none empty: number 0 stands for no elements, then come
        the parked parts, in the order of `restore`, then the elements.
        """
        chains, items = (np.frombuffer(column, np.int64) for column in (self._chains, self._items))
        by_chain, _ = sort_non_negative(chains)
        places = np.empty(len(by_chain), np.int64)
        places[by_chain] = np.arange(len(by_chain))
        numbers = np.where(items < 0, -1 - items, items + self._parked_count)[by_chain]
        lengths = np.bincount(chains)
        starts = np.cumsum(lengths) - lengths
        lists = ElementLists(numbers, starts[chains[accumulators]], places[accumulators] + 1)
        if not self._accumulators_before:
            return lists
        return self._with_chains_before(lists, chains[accumulators], starts, places)

    def _with_chains_before(
        self, lists: ElementLists, chains_of_lists: Longs, starts: Longs, places: Longs
    ) -> ElementLists:
        """Lists of chains that begin after others are copied: the others' elements, then those of the longest
        list of the chain.
        """
        new_starts, new_ends = lists.starts.copy(), lists.ends.copy()
        columns, total = [lists.numbers], len(lists.numbers)
        rows = np.flatnonzero(np.isin(chains_of_lists, list(self._accumulators_before)))
        rows = rows[np.argsort(chains_of_lists[rows], kind="stable")]
        bounds = np.flatnonzero(np.diff(chains_of_lists[rows], prepend=-1, append=-1))
        for first, beyond in zip(bounds.tolist(), bounds[1:].tolist(), strict=False):
            rows_of_chain = rows[first:beyond]
            chain, longest = int(chains_of_lists[rows_of_chain[0]]), int(lists.ends[rows_of_chain].max())
            spans = [(int(starts[chain]), longest), *self._spans_before(chain, starts, places)]
            columns.extend(lists.numbers[start:end] for start, end in reversed(spans))
            size = sum(end - start for start, end in spans)
            new_starts[rows_of_chain] = total
            new_ends[rows_of_chain] = total + size - (longest - lists.ends[rows_of_chain])
            total += size
        return ElementLists(np.concatenate(columns), new_starts, new_ends)

    def _spans_before(self, chain: int, starts: Longs, places: Longs) -> list[tuple[int, int]]:
        """The spans of numbers that come before a chain."""
        spans = []
        accumulators = list(self._accumulators_before[chain])
        while accumulators:
            accumulator = accumulators.pop()
            chain_before = self._chains[accumulator]
            spans.append((int(starts[chain_before]), int(places[accumulator]) + 1))
            accumulators.extend(self._accumulators_before.get(chain_before, ()))
        return spans
