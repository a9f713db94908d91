"""The accumulator interface that kernels use: a kernel decides which rows are combined, the implementation
how. The engine passes Arrow columns of aggregates, tests pass sets of elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups, Spans

Accumulators_ = TypeVar("Accumulators_", bound="Accumulators")


class Accumulators(Protocol):
    """A column of accumulators, one per row. Methods return new columns and change none."""

    def take(self: Accumulators_, rows: Longs | slice) -> Accumulators_:
        """The accumulators of these rows, in this order; a row may occur more than once."""

    def join(self: Accumulators_, others: Sequence[Accumulators_]) -> Accumulators_:
        """These rows followed by the rows of the others."""

    def combine(self: Accumulators_, groups: Groups) -> Accumulators_:
        """One row per group: its rows combined."""

    def combine_spans(self: Accumulators_, spans: Spans) -> Accumulators_:
        """One row per span: its rows combined."""

    def running(self: Accumulators_, starts: Longs) -> Accumulators_:
        """Each row combined with the earlier rows of its run; run i begins at starts[i], the first at 0."""
