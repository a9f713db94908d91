"""What the range side of tumbling and sliding windows works on: windows and what they have been through,
parts of them, late elements.

Columns, and how rows of several parts are put one after the other; nothing is merged or fired here.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from slackwater.jobs.engines.aggregates import Columns
from slackwater.jobs.engines.columnar.families import join_each, take_each
from slackwater.windowing.columnar.columns import Booleans, Longs


class Lives(NamedTuple):
    """Windows and what they have been through, one row each.

    Attributes:
        accumulators: one row for each window; of one without contents it means nothing.
    """

    keys: Longs
    windows: Longs
    elements: Longs
    firings: Longs
    last_fired: Longs
    first_arrivals: Longs
    last_arrivals: Longs
    is_parked: Booleans
    has_contents: Booleans
    accumulators: list[Columns]

    def take(self, rows: Longs | slice) -> "Lives":
        columns: list[Any] = [column[rows] for column in self[:-1]]
        return Lives._make([*columns, take_each(self.accumulators, rows)])

    @staticmethod
    def join(parts: "Sequence[Lives]") -> "Lives":
        return _joined(parts)

    @staticmethod
    def pick(parts: "Sequence[Lives]", rows: Longs) -> "Lives":
        """Those rows of what `join` would give; few of many, so nothing else is copied."""
        ends = np.cumsum([len(part.keys) for part in parts])
        owners = np.searchsorted(ends, rows, side="right")
        own = [np.flatnonzero(owners == number) for number in range(len(parts))]
        picked = [
            part.take(rows[places] - (end - len(part.keys)))
            for part, places, end in zip(parts, own, ends.tolist(), strict=True)
        ]
        back = np.empty(len(rows), np.int64)
        back[np.concatenate(own)] = np.arange(len(rows))
        return Lives.join(picked).take(back)


class Pieces(NamedTuple):
    """Parts of windows that have not fired, one row each."""

    keys: Longs
    windows: Longs
    elements: Longs
    first_arrivals: Longs
    last_arrivals: Longs
    accumulators: list[Columns]

    @staticmethod
    def join(parts: "Sequence[Pieces]") -> "Pieces":
        return _joined(parts)


class Refires(NamedTuple):
    """Late elements by window, in order of arrival; one row for each (element, window that is to fire
    again).
    """

    keys: Longs
    windows: Longs
    clocks: Longs
    watermarks: Longs
    accumulators: list[Columns]


Rows = TypeVar("Rows", Lives, Pieces)


def _joined(parts: Sequence[Rows]) -> Rows:
    """The rows of all parts, one after the other; without a copy where one part has them all."""
    kept = [part for part in parts if len(part.keys)] or list(parts[:1])
    if len(kept) == 1:
        return kept[0]
    columns: list[Any] = [np.concatenate(same) for same in zip(*(part[:-1] for part in kept), strict=True)]
    make: Callable[..., Rows] = type(kept[0])
    return make(*columns, join_each([part.accumulators for part in kept]))
