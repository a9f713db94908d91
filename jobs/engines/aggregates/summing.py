"""What sums and means of every numeric type share: exact totals of a window's values."""

from typing import Any

from slackwater.jobs.engines.aggregates.accumulator import OneByOne


class SumAndCount(OneByOne):
    """Sum and count of values; subclasses say how a sum is held and read. Accumulator: (count, sum)."""

    zero: Any

    def create(self) -> tuple[int, Any]:
        return (0, self.zero)

    def add(self, accumulator: tuple[int, Any], value: Any) -> tuple[int, Any]:
        return (accumulator[0] + 1, accumulator[1] + value)

    def merge(self, a: tuple[int, Any], b: tuple[int, Any]) -> tuple[int, Any]:
        return (a[0] + b[0], a[1] + b[1])
