"""Functions that take the firings of many windows as one table with lists of elements, and return a table
with one row for each firing.

The declaration alone, without Arrow; the engines make the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

FRAMES: Final = ("arrow", "pandas", "polars")


@dataclass(frozen=True)
class VectorizedFunction:
    """A window function of many firings at once, made by `vectorized`; it gets tables of the kind `frame`."""

    function: Callable[[Any], Any]
    frame: str = "arrow"

    def __call__(self, firings: Any) -> Any:
        return self.function(firings)


def vectorized(function: Callable[[Any], Any], *, frame: str = "arrow") -> VectorizedFunction:
    """A function as `process=` that is called with many firings at once, also as a decorator, `@vectorized`.

    It gets a table with one row for each firing: the key columns, ``window_start`` and ``window_end``, and
    for every other column that elements have (`columns=`) a list of its values, in the order of the elements.
    It returns a table with one row for each of these rows, in the same order, and the columns that `output=`
    declares. Which firings come together is not defined, so each row of the result follows from the same row
    of the table alone.

    Args:
        function: called in the tasks, like any other function of yours.
        frame: ``arrow`` for a `pyarrow.Table`; ``pandas`` or ``polars`` for their data frames, which then
            have to be installed. What it returns may be a table of any of these.

    Raises:
        ValueError: there is no such frame.
    """
    if frame not in FRAMES:
        raise ValueError(f"frame is {frame!r}; it is one of {', '.join(FRAMES)}")
    return VectorizedFunction(function, frame)
