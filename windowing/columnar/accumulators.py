"""What a kernel asks of the accumulators of windows, whatever they are made of.

A kernel decides which rows of them belong together; only their owner knows how two of them combine. The
engines bring Arrow columns of a pipeline's aggregates, tests bring sets of elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.groups import Groups
from slackwater.windowing.columnar.arrays.spans import Spans

Accumulators_ = TypeVar("Accumulators_", bound="Accumulators")


class Accumulators(Protocol):
    """Accumulators, one a row; each method gives new ones and leaves these as they are."""

    def take(self: Accumulators_, rows: Longs | slice) -> Accumulators_:
        """Those rows, in that order; a row may be taken more than once."""

    def join(self: Accumulators_, others: Sequence[Accumulators_]) -> Accumulators_:
        """These rows, and behind them those of the others."""

    def combine(self: Accumulators_, groups: Groups) -> Accumulators_:
        """A row a group: all rows of the group as one accumulator."""

    def combine_spans(self: Accumulators_, spans: Spans) -> Accumulators_:
        """A row a span: all rows of the span as one accumulator."""

    def running(self: Accumulators_, starts: Longs) -> Accumulators_:
        """Each row combined with the rows before it in its run; run i begins at row starts[i], the first at
        row 0.
        """
