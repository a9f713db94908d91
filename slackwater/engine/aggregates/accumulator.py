"""The protocol of accumulators: the contract between an aggregate, the engines, and the typed columns of
`window_state`.

Every accumulator is commutative and associative, so neither the order of elements nor their division into
tasks changes a result.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Part = tuple[str, pa.DataType]
Starts = npt.NDArray[np.int64]


class Accumulator(Protocol):
    """One aggregate, bound to the type of its column. What it makes, the accumulators, are plain values; a
    result of None is SQL's null.

    Attributes:
        parts: (suffix, type) of the columns `<result>__<suffix>` that hold the accumulator.
        result_type: type of the result column.
    """

    parts: tuple[Part, ...]
    result_type: pa.DataType

    def create(self) -> Any:
        """The accumulator of no elements."""

    def add(self, accumulator: Any, value: Any) -> Any:
        """The accumulator with one more value of the column, which is not null."""

    def add_all(self, accumulator: Any, values: Sequence[Any]) -> Any:
        """The accumulator with more values of the column, none of them null."""

    def totals(self, column: pa.ChunkedArray | None, starts: Starts) -> list[Any] | None:
        """For each i the accumulator of rows starts[i] to starts[i + 1] - 1 of a column without nulls (None:
        of an aggregate without a column). The caller may not change them in place. None where the aggregate
        has no fast way to compute them together."""

    def merge(self, a: Any, b: Any) -> Any:
        """The accumulator of both sets of elements."""

    def result(self, accumulator: Any) -> Any:
        """The result that a firing emits."""

    def encode(self, accumulator: Any) -> tuple[Any, ...]:
        """The values of `parts`, canonical: equal multisets of values give equal parts."""

    def decode(self, parts: Sequence[Any]) -> Any:
        """The inverse of `encode`."""


class OneByOne:
    """The default of `add_all` and `totals`: values are added one by one."""

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
