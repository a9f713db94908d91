"""The smallest and the greatest value of a column."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.jobs.engines.accumulators.accumulator import OneByOne, Part, Starts


def nan_greatest(value: Any) -> tuple[bool, Any]:
    """Sort key in which one NaN is greater than every number."""
    return (True, 0) if isinstance(value, float) and math.isnan(value) else (False, value)


class Extremum(OneByOne):
    """Smallest or greatest value of a column. Accumulator: the value, None for none."""

    def __init__(self, kind: str, column_type: pa.DataType) -> None:
        self.parts: tuple[Part, ...] = ((kind, column_type),)
        self.result_type = column_type
        self._pick: Callable[..., Any] = min if kind == "min" else max
        self._pick_all = np.minimum if kind == "min" else np.maximum

    def create(self) -> None:
        return None

    def add(self, accumulator: Any, value: Any) -> Any:
        return value if accumulator is None else self._pick(accumulator, value, key=nan_greatest)

    def totals(self, column: pa.ChunkedArray | None, starts: Starts) -> list[Any] | None:
        if column is None or not len(column) or not pa.types.is_integer(column.type):
            return None
        return list(self._pick_all.reduceat(column.to_numpy(), starts[:-1]).tolist())

    def merge(self, a: Any, b: Any) -> Any:
        return a if b is None else self.add(a, b)

    def result(self, accumulator: Any) -> Any:
        return accumulator

    def encode(self, accumulator: Any) -> tuple[Any]:
        return (accumulator,)

    def decode(self, parts: Sequence[Any]) -> Any:
        return parts[0]
