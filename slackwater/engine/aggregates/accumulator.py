"""The protocol of accumulators: commutative and associative, so order and tasks never change a result."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Part = tuple[str, pa.DataType]
Starts = npt.NDArray[np.int64]


class Accumulator(Protocol):
    """One aggregate, bound to the type of its column. `parts` are (suffix, type) of the columns
    `<result>__<suffix>` of its accumulators, which are plain values; a result of None is SQL's null.
    """

    parts: tuple[Part, ...]
    result_type: pa.DataType

    def create(self) -> Any: ...

    def add(self, accumulator: Any, value: Any) -> Any: ...

    def add_all(self, accumulator: Any, values: Sequence[Any]) -> Any: ...

    def totals(self, column: pa.ChunkedArray | None, starts: Starts) -> list[Any] | None:
        """The accumulators of rows starts[i] to starts[i + 1] - 1 of a column without nulls, or of no column;
        not to be changed in place. None: there is no fast way to compute them together.
        """

    def merge(self, a: Any, b: Any) -> Any: ...

    def result(self, accumulator: Any) -> Any: ...

    def encode(self, accumulator: Any) -> tuple[Any, ...]:
        """The values of `parts`, canonical: equal multisets of values give equal parts."""

    def decode(self, parts: Sequence[Any]) -> Any: ...


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


class SumAndCount(OneByOne):
    """Accumulator: (count, sum). Subclasses choose the representation of the sum and how it is read."""

    zero: Any

    def create(self) -> tuple[int, Any]:
        return (0, self.zero)

    def add(self, accumulator: tuple[int, Any], value: Any) -> tuple[int, Any]:
        return (accumulator[0] + 1, accumulator[1] + value)

    def merge(self, a: tuple[int, Any], b: tuple[int, Any]) -> tuple[int, Any]:
        return (a[0] + b[0], a[1] + b[1])


class ResultOverflow(ArithmeticError):
    """An integer sum left the range of its result type."""
