"""Sessions and their panes as columns: what the kernels of sessions take and give.

Arrays only; no rule of Flink is applied here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from slackwater.windowing.columnar.columns import Longs

ON_TIME, LATE, WITHDRAWN = 0, 1, 2  # kinds of panes
NO_TIME: Final = int(np.iinfo(np.int64).min)  # in a column of times: none
NO_CONTENTS: Final = -1

Columns = TypeVar("Columns", "SessionColumns", "SessionPanes")


class SessionColumns(NamedTuple):
    """Sessions, one a row; int64[n] each, times in milliseconds.

    Attributes:
        keys: the key's code; the caller keeps codes and keys apart.
        starts, ends: the session's span, half-open; its newest element lies one gap before its end.
        elements: accepted so far.
        firings: so far.
        last_fired_at: clock at the newest firing, or NO_TIME.
        first_arrivals, last_arrivals: clock at the first and at the newest element.
        contents: which contents it holds, or NO_CONTENTS.
    """

    keys: Longs
    starts: Longs
    ends: Longs
    elements: Longs
    firings: Longs
    last_fired_at: Longs
    first_arrivals: Longs
    last_arrivals: Longs
    contents: Longs


class SessionPanes(NamedTuple):
    """Firings and withdrawals, one a row; int64[n] each, times in milliseconds.

    Attributes:
        keys, starts, ends: the session.
        firings: 1, 2, …: Flink's count of the session's firings.
        kinds: ON_TIME, LATE or WITHDRAWN.
        elements: accepted by the session when it fired; 0 for a withdrawal.
        watermarks: in force.
        tick_ends: of the watermark that fired it, or NO_TIME.
        causes: clock at the element that fired or absorbed it, or NO_TIME.
        contents: what it shows; NO_CONTENTS for a withdrawal.
    """

    keys: Longs
    starts: Longs
    ends: Longs
    firings: Longs
    kinds: Longs
    elements: Longs
    watermarks: Longs
    tick_ends: Longs
    causes: Longs
    contents: Longs


def columns_of(kind: type[Columns], rows: Sequence[tuple[int, ...]]) -> Columns:
    """Rows, each in the order of the columns, as columns."""
    table = np.array(rows, np.int64).reshape(len(rows), len(kind._fields))
    return kind(*np.ascontiguousarray(table.T))


def together(parts: Sequence[Columns]) -> Columns:
    """The rows of all parts, at least one, one part after the other."""
    return type(parts[0])(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def rows_of(columns: Columns, rows: Any) -> Columns:
    """The rows at those positions, or where a mask is set."""
    return type(columns)(*(column[rows] for column in columns))


def renumbered(columns: Columns, first: int) -> Columns:
    """The same rows, their contents counted from `first`."""
    contents = columns.contents
    return columns._replace(contents=np.where(contents == NO_CONTENTS, contents, contents + first))


def concatenated(parts: Iterable[Longs]) -> Longs:
    """Arrays one after the other; none of them, too."""
    return np.concatenate([np.zeros(0, np.int64), *parts])
