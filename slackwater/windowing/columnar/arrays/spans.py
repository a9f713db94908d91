"""Spans of consecutive rows, which may overlap, and the sum, minimum and maximum of each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.windowing.columnar.arrays.columns import Booleans, Longs
from slackwater.windowing.columnar.arrays.groups import Groups


class Spans(NamedTuple):
    """Span i holds the rows from firsts[i] to before beyonds[i], at least one."""

    firsts: Longs
    beyonds: Longs

    def where(self, chosen: Booleans) -> Spans:
        return Spans(self.firsts[chosen], self.beyonds[chosen])

    def explode(self) -> tuple[Longs, Groups]:
        """(the rows of all spans, span after span, the span of each)."""
        counts = self.beyonds - self.firsts
        owners = np.repeat(np.arange(len(counts)), counts)
        before = np.cumsum(counts) - counts
        return np.arange(len(owners)) + (self.firsts - before)[owners], Groups(owners, len(counts))

    def sum(self, values: Longs) -> Longs:
        """The sum of each span, exact if it fits 64 bits: totals may wrap, their differences do not."""
        totals = np.zeros(len(values) + 1, np.int64)
        np.cumsum(values, out=totals[1:])
        return totals[self.beyonds] - totals[self.firsts]

    def least(self, values: Longs) -> Longs:
        return self._reduce_spans(np.minimum, values)

    def greatest(self, values: Longs) -> Longs:
        return self._reduce_spans(np.maximum, values)

    def _reduce_spans(self, function: np.ufunc, values: Longs) -> Longs:
        bounds = np.empty(2 * len(self.firsts), np.int64)
        bounds[::2], bounds[1::2] = self.firsts, self.beyonds
        # reduceat also gives a value for the rows between two spans, at every odd place.
        values_of_spans: Longs = function.reduceat(np.append(values, 0), bounds)[::2]
        return values_of_spans
