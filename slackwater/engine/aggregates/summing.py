"""The accumulator of exact sums and means, for every numeric type."""

from typing import Any

from slackwater.engine.aggregates.accumulator import OneByOne


class SumAndCount(OneByOne):
    """Accumulator: (count, sum). Subclasses choose the representation of the sum and how it is read."""

    zero: Any

    def create(self) -> tuple[int, Any]:
        return (0, self.zero)

    def add(self, accumulator: tuple[int, Any], value: Any) -> tuple[int, Any]:
        return (accumulator[0] + 1, accumulator[1] + value)

    def merge(self, a: tuple[int, Any], b: tuple[int, Any]) -> tuple[int, Any]:
        return (a[0] + b[0], a[1] + b[1])
