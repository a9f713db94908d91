"""How many different values a column has, exactly: the values themselves are the state."""

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from jobs.engines.accumulators.accumulator import OneByOne, Part
from jobs.engines.accumulators.extremes import nan_greatest


def one_nan(value: Any) -> Any:
    """`value`, all NaN being one object, which a set holds once."""
    return math.nan if isinstance(value, float) and math.isnan(value) else value


class CountDistinct(OneByOne):
    """Accumulator: a set of values, changed in place."""

    result_type = pa.int64()

    def __init__(self, column_type: pa.DataType) -> None:
        self.parts: tuple[Part, ...] = (("values", pa.list_(column_type)),)

    def create(self) -> set[Any]:
        return set()

    def add(self, accumulator: set[Any], value: Any) -> set[Any]:
        accumulator.add(one_nan(value))
        return accumulator

    def merge(self, a: set[Any], b: set[Any]) -> set[Any]:
        a |= b
        return a

    def result(self, accumulator: set[Any]) -> int:
        return len(accumulator)

    def encode(self, accumulator: set[Any]) -> tuple[list[Any]]:
        """In order, which is the one order that a set of values has."""
        return (sorted(accumulator, key=nan_greatest),)

    def decode(self, parts: Sequence[Any]) -> set[Any]:
        return set(map(one_nan, parts[0]))
