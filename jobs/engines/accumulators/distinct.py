"""How many different values a column has, exactly: the values themselves are the state."""

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from slackwater.jobs.engines.accumulators.accumulator import OneByOne, Part
from slackwater.jobs.engines.accumulators.extremes import nan_greatest


def as_member(value: Any) -> Any:
    """`value` as the set holds it: None stands for NaN. NaN equals no other, so a set that has been
    pickled, by a state back end on disk, would take in a second one. Nulls don't come here."""
    return None if isinstance(value, float) and math.isnan(value) else value


class CountDistinct(OneByOne):
    """Accumulator: a set of values (`as_member`), changed in place."""

    result_type = pa.int64()

    def __init__(self, column_type: pa.DataType) -> None:
        self.parts: tuple[Part, ...] = (("values", pa.list_(column_type)),)

    def create(self) -> set[Any]:
        return set()

    def add(self, accumulator: set[Any], value: Any) -> set[Any]:
        accumulator.add(as_member(value))
        return accumulator

    def merge(self, a: set[Any], b: set[Any]) -> set[Any]:
        a |= b
        return a

    def result(self, accumulator: set[Any]) -> int:
        return len(accumulator)

    def encode(self, accumulator: set[Any]) -> tuple[list[Any]]:
        """In order, which is the one order that a set of values has."""
        values = (math.nan if member is None else member for member in accumulator)
        return (sorted(values, key=nan_greatest),)

    def decode(self, parts: Sequence[Any]) -> set[Any]:
        return set(map(as_member, parts[0]))
