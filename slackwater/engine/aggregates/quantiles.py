"""`median` and `quantile`: exact quantiles of numbers, between two values by linear interpolation.

Of n values in order, counted from 0, the quantile q is the value at position q · (n − 1). Where that is no
whole number it lies between two neighbours a and b, as `quantile_cont` of SQL says:

    values 10, 20, 40   quantile 0.5    position 1     20
                        quantile 0.75   position 1.5   20 + 0.5 · (40 − 20) = 30
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.engine.aggregates.bound_aggregate import Columns
from slackwater.engine.aggregates.value_lists import ValueLists
from slackwater.windowing.columnar.arrays.groups import Groups, sum_of_groups


class Quantile(ValueLists):
    has_counts = True
    result_type = pa.float64()

    def __init__(self, column: str, kind: pa.DataType, quantile: float) -> None:
        super().__init__(column, kind)
        self._quantile = Fraction(repr(quantile))

    def results(self, accumulators: Columns) -> pa.Array:
        size = len(accumulators[0])
        rows, values, counts = self._items(accumulators)
        totals = sum_of_groups(counts, Groups(rows, size))
        before, ends = np.cumsum(totals) - totals, np.cumsum(counts)
        positions = [self._quantile * max(total - 1, 0) for total in totals.tolist()]
        low_places = before + np.array([math.floor(position) for position in positions], np.int64)
        high_places = before + np.array([math.ceil(position) for position in positions], np.int64)
        low_values, high_values = (
            values.take(pa.array(np.searchsorted(ends, places, side="right"), mask=totals == 0)).to_pylist()
            for places in (low_places, high_places)
        )
        return pa.array(map(_interpolate, low_values, high_values, positions), pa.float64())


def _interpolate(low: Any, high: Any, position: Fraction) -> float | None:
    """The nearest double to the value at a position between two neighbours. Between a number and an infinite
    one it is infinite, between opposite infinities and before NaN it is NaN.
    """
    share = position % 1
    if low is None or share == 0 or low == high:
        return None if low is None else float(low)
    if isinstance(low, float) and not (math.isfinite(low) and math.isfinite(high)):
        return float(low + high)
    exact = Fraction(low) + share * (Fraction(high) - Fraction(low))
    return exact.numerator / exact.denominator + 0.0
