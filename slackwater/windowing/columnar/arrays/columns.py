"""Columns of 64-bit integers: checks on entry to kernels, read-only views, row selections without copy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slackwater.windowing.errors import TimelineError

Longs = NDArray[np.int64]
Booleans = NDArray[np.bool_]


def longs(values: ArrayLike) -> Longs:
    """int64[n] from integers of any width that fits; TimelineError for anything else: no silent rounding."""
    array = np.asarray(values)
    if array.size and (array.dtype.kind not in "iu" or not np.can_cast(array.dtype, np.int64)):
        raise TimelineError(f"Expected 64-bit integers (milliseconds or partition codes), got {array.dtype}.")
    return np.atleast_1d(array.astype(np.int64, copy=False))


def freeze_columns(owner: Any, *names: str) -> None:
    """Make attributes of a frozen dataclass read-only; TimelineError unless all are columns of one length."""
    columns = {name: getattr(owner, name).view() for name in names}
    if len({column.shape for column in columns.values()}) != 1 or any(
        column.ndim != 1 for column in columns.values()
    ):
        shapes = ", ".join(f"{name} {column.shape}" for name, column in columns.items())
        raise TimelineError(f"{type(owner).__name__} needs columns of one length: {shapes}.")
    for name, column in columns.items():
        column.flags.writeable = False
        object.__setattr__(owner, name, column)


def rows_where(chosen: Booleans) -> Longs | slice:
    """The positions where `chosen` is set; a slice, which needs no copy, for the first or last rows."""
    count = int(np.count_nonzero(chosen))
    for run in (slice(0, count), slice(len(chosen) - count, len(chosen))):
        if chosen[run].all():
            return run
    return np.flatnonzero(chosen)


class ColumnRecord:
    """Base of dataclasses (of eq=False) with columns: equal field by field, arrays by their contents."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and all(
            np.array_equal(value, getattr(other, name)) for name, value in vars(self).items()
        )

    __hash__ = None  # type: ignore[assignment]  # arrays have no hash
