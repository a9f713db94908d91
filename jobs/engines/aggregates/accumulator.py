"""What every accumulator is: the contract between an aggregate, the engines, and the typed columns of
`window_state`.

All of them are commutative and associative, so neither the order of elements nor the partitioning can show in
a result.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Part = tuple[str, pa.DataType]
Starts = npt.NDArray[np.int64]


class Accumulator(Protocol):
    """One aggregate bound to the type of its column. Accumulators are plain values; None in a result is SQL's
    null.

    Attributes:
        parts: (suffix, type) of the columns `<result>__<suffix>` that hold the accumulator.
        result_type: type of the result column.
    """

    parts: tuple[Part, ...]
    result_type: pa.DataType

    def create(self) -> Any:
        """The accumulator of no elements."""

    def add(self, accumulator: Any, value: Any) -> Any:
        """The accumulator with one more value of the column, never null."""

    def add_all(self, accumulator: Any, values: Sequence[Any]) -> Any:
        """The accumulator with these values more."""

    def totals(self, column: pa.ChunkedArray | None, starts: Starts) -> list[Any] | None:
        """The accumulators of rows starts[i] to starts[i + 1] - 1 of a column without nulls, all of them at
        once and none of them to be changed; None where they can't be had so."""

    def merge(self, a: Any, b: Any) -> Any:
        """The accumulator of both sets of elements."""

    def result(self, accumulator: Any) -> Any:
        """What a firing emits."""

    def encode(self, accumulator: Any) -> tuple[Any, ...]:
        """The values of `parts`, canonical: equal multisets of values give equal parts."""

    def decode(self, parts: Sequence[Any]) -> Any:
        """The inverse of `encode`."""


class OneByOne:
    """Accumulators that know no shorter way to add many values, unless they say so."""

    add: Callable[[Any, Any], Any]

    def add_all(self, accumulator: Any, values: Sequence[Any]) -> Any:
        add = self.add
        for value in values:
            accumulator = add(accumulator, value)
        return accumulator

    def totals(self, column: pa.ChunkedArray | None, starts: Starts) -> list[Any] | None:
        return None


class ResultOverflow(ArithmeticError):
    """An integer sum left the range of its result type."""
