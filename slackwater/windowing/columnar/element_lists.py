"""Lists of elements as accumulators: a window's contents for a function that is called with its elements.

An element is its number: the elements of parked windows come first, window by window, then the slice's,
in order of arrival. A window's list is its elements' numbers, ascending, so no kernel sees an element. A list
is a span of one long column, because the lists of a window's refires begin alike:

    numbers              4  9 │ 1  2  7  8
    on time   [1, 2]            └────┘
    refire    [1, 2, 7]         └───────┘
    refire    [1, 2, 7, 8]      └──────────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups, Spans
from slackwater.windowing.columnar.arrays.orders import stable_order


@dataclass(frozen=True, eq=False)
class ElementLists:
    """One list of elements per row: row i holds numbers[starts[i] : ends[i]]."""

    numbers: Longs
    starts: Longs
    ends: Longs

    @classmethod
    def from_lengths(cls, lengths: Longs, first: int = 0) -> ElementLists:
        """Lists of these lengths, whose elements are numbered consecutively from `first`."""
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        return cls(np.arange(first, first + total), ends - lengths, ends)

    @property
    def lengths(self) -> Longs:
        lengths: Longs = self.ends - self.starts
        return lengths

    def explode(self) -> Longs:
        lengths = self.lengths
        before = np.cumsum(lengths) - lengths
        places = np.arange(int(lengths.sum())) + np.repeat(self.starts - before, lengths)
        numbers: Longs = self.numbers[places]
        return numbers

    def distinct_numbers(self) -> Longs:
        """The numbers of all lists, each once: the refires of one window hold each element repeatedly."""
        depths = np.zeros(len(self.numbers) + 1, np.int64)
        np.add.at(depths, self.starts, 1)
        np.add.at(depths, self.ends, -1)
        numbers = self.numbers[np.cumsum(depths[:-1]) > 0]
        is_held = np.zeros(int(numbers.max(initial=-1)) + 1, np.bool_)
        is_held[numbers] = True
        return np.flatnonzero(is_held)

    def take(self, rows: Longs | slice) -> ElementLists:
        return ElementLists(self.numbers, self.starts[rows], self.ends[rows])

    def join(self, others: Sequence[ElementLists]) -> ElementLists:
        parts = [self, *(other for other in others if len(other.starts))]
        columns: list[Longs] = []
        firsts: dict[int, int] = {}
        total = 0
        for part in parts:
            if id(part.numbers) not in firsts:
                firsts[id(part.numbers)] = total
                columns.append(part.numbers)
                total += len(part.numbers)
        shifts = [firsts[id(part.numbers)] for part in parts]
        return ElementLists(
            columns[0] if len(columns) == 1 else np.concatenate(columns),
            np.concatenate([part.starts + shift for part, shift in zip(parts, shifts, strict=True)]),
            np.concatenate([part.ends + shift for part, shift in zip(parts, shifts, strict=True)]),
        )

    def combine(self, groups: Groups) -> ElementLists:
        numbers, codes = self.explode(), np.repeat(groups.codes, self.lengths)
        if not bool(np.all(numbers[1:] >= numbers[:-1])):
            order = np.argsort(numbers, kind="stable")
            numbers, codes = numbers[order], codes[order]
        order = stable_order(codes, groups.size)
        ends = np.cumsum(np.bincount(codes, minlength=groups.size))
        return ElementLists(numbers[order], np.append(0, ends)[: groups.size], ends)

    def combine_spans(self, spans: Spans) -> ElementLists:
        rows, groups = spans.explode()
        return self.take(rows).combine(groups)

    def running(self, starts: Longs) -> ElementLists:
        lengths = self.lengths
        ends = np.cumsum(lengths)
        starts_of_runs = (ends - lengths)[starts]
        runs = np.diff(np.append(starts, len(lengths)))
        return ElementLists(self.explode(), np.repeat(starts_of_runs, runs), ends)
