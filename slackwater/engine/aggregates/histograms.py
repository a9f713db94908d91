"""`histogram` between given bounds, and `approx_quantile`: quantiles from a histogram with buckets of equal
relative width.

The latter is in the style of DDSketch (Masson et al. 2019), without its collapsing of buckets: that depends
on the order of the values, which is why no library is used. The result depends on the multiset of values
alone. Bucket borders are roots of two, computed in decimals, so that every machine puts a value into the same
bucket:

    with 2 buckets an octave    0.5      0.707       1       1.414       2
                                 | bucket b | b + 1  | b + 2    | b + 3  |
"""

import math
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.aggregates.bound_aggregate import Columns, Parts, build_lists, null_if_empty
from slackwater.engine.aggregates.doubles import nearest_doubles
from slackwater.engine.aggregates.sketches import BUCKET, SparseMaps, entries_of
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.maps import Fold

NAN_BUCKET, INFINITY_BUCKET = 2**31 - 1, 2**31 - 2


LEAST_EXPONENT = -1021  # of the least normal double, 0.5 · 2 ** −1021; smaller values count as 0


@cache
def buckets_per_octave(relative_error: float) -> int:
    """The least number of buckets in an octave whose middles are within `relative_error` of their values."""
    error = Fraction(repr(relative_error))
    width = (1 + error) / (1 - error)
    number = max(1, int(0.999 / math.log2(width)))
    while width**number < 2:
        number += 1
    return number


@cache
def octave(buckets: int) -> tuple[float, ...]:
    """The lower borders of the buckets in [0.5, 1): 2 ** (i / buckets − 1), as the nearest doubles."""
    exact = Context(prec=60)
    return tuple(
        float(exact.power(2, exact.divide(Decimal(i - buckets), Decimal(buckets)))) for i in range(buckets)
    )


def middle(bucket: int, buckets: int) -> float:
    """The value that represents a bucket with the borders a and b: 2·a·b / (a + b)."""
    if bucket == NAN_BUCKET:
        return math.nan
    if abs(bucket) == INFINITY_BUCKET:
        return math.copysign(math.inf, bucket)
    if bucket == 0:
        return 0.0
    exponent, number = divmod(abs(bucket) - 1, buckets)
    borders = (*octave(buckets), 1.0)
    below, above = borders[number], borders[number + 1]
    return math.copysign(math.ldexp(2 * below * above / (below + above), exponent + LEAST_EXPONENT), bucket)


class ApproxQuantile(SparseMaps):
    """The middle of the bucket that holds the value at position ⌊quantile · (n − 1)⌋. The accumulator is the
    parked form: buckets, and the numbers of column values (as the nearest doubles) in them.
    """

    fold = Fold.SUM
    parts: Parts = (("buckets", pa.list_(BUCKET)),)
    result_type = pa.float64()

    def __init__(self, column: str, quantile: float, relative_error: float) -> None:
        super().__init__(column)
        self._quantile = Fraction(repr(quantile))
        self._buckets = buckets_per_octave(relative_error)

    def _entries_of(self, values: pa.Array) -> tuple[Longs, Longs]:
        doubles = nearest_doubles(values)
        return buckets_of(doubles, self._buckets), np.ones(len(doubles), np.int64)

    def results(self, accumulators: Columns) -> pa.Array:
        entries = entries_of(accumulators[0])
        counts = np.bincount(entries.rows, weights=entries.values, minlength=len(accumulators[0])).astype(
            np.int64
        )
        totals, total_places = np.unique(counts, return_inverse=True)
        positions = np.array(
            [math.floor(self._quantile * (total - 1)) for total in totals.tolist()], np.int64
        )[total_places]
        before = np.cumsum(counts) - counts
        places = np.searchsorted(np.cumsum(entries.values), positions + before, side="right")
        buckets = (
            entries.keys[np.minimum(places, max(len(entries.keys) - 1, 0))]
            if len(entries.keys)
            else np.zeros(len(counts), np.int64)
        )
        kinds, numbers = np.unique(buckets, return_inverse=True)
        middles = np.array([middle(bucket, self._buckets) for bucket in kinds.tolist()], np.float64)
        return pc.if_else(pa.array(counts > 0), pa.array(middles[numbers]), pa.scalar(None, pa.float64()))

    def encode(self, accumulators: Columns) -> Columns:
        return accumulators

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return [parts[0]]


class Histogram(SparseMaps):
    """The numbers of values in the intervals between bounds. The accumulator is the parked form: intervals by
    their places, and the counts of those that are not empty.
    """

    fold = Fold.SUM
    parts: Parts = (("buckets", pa.list_(BUCKET)),)
    result_type = pa.list_(pa.int64())

    def __init__(self, column: str, bounds: tuple[float, ...]) -> None:
        super().__init__(column)
        self._bounds = np.array(bounds, np.float64)

    def _entries_of(self, values: pa.Array) -> tuple[Longs, Longs]:
        intervals = np.searchsorted(self._bounds, nearest_doubles(values), side="left")
        return intervals, np.ones(len(intervals), np.int64)

    def results(self, accumulators: Columns) -> pa.Array:
        size, width = len(accumulators[0]), len(self._bounds) + 1
        entries = entries_of(accumulators[0])
        counts = np.zeros((size, width), np.int64)
        counts[entries.rows, entries.keys] = entries.values
        rows = np.flatnonzero(counts.any(axis=1))
        return null_if_empty(build_lists(np.repeat(rows, width), pa.array(counts[rows].reshape(-1)), size))

    def encode(self, accumulators: Columns) -> Columns:
        return accumulators

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return [parts[0]]


def buckets_of(values: np.ndarray, buckets: int) -> Longs:
    """The bucket of each value: 0 for 0, growing with the value, greatest for NaN."""
    fractions, exponents = np.frexp(np.abs(values))
    numbers = (exponents.astype(np.int64) - LEAST_EXPONENT) * buckets + np.searchsorted(
        np.array(octave(buckets)), fractions, side="right"
    )
    numbers = np.where((values == 0) | (exponents < LEAST_EXPONENT), 0, numbers)
    numbers = np.where(np.isinf(values), INFINITY_BUCKET, numbers)
    return np.where(np.isnan(values), NAN_BUCKET, np.where(values < 0, -numbers, numbers))
