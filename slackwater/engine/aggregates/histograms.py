"""`approx_quantile`: quantiles from a histogram with buckets of equal relative width.

In the style of DDSketch (Masson et al. 2019), without its collapsing of buckets: that depends on the order of
the values, which is why no library is used. The result depends on the multiset of values alone. Bucket
borders are roots of two, computed in decimals, so that every machine and both engines put a value into the
same bucket:

    with 2 buckets an octave    0.5      0.707       1       1.414       2
                                 | bucket b | b + 1  | b + 2    | b + 3  |
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.aggregates.accumulator import Columns, Part
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


def bucket_of(value: float, buckets: int) -> int:
    """The bucket of a value: 0 for 0, growing with the value, greatest for NaN."""
    if math.isnan(value):
        return NAN_BUCKET
    if math.isinf(value):
        return INFINITY_BUCKET if value > 0 else -INFINITY_BUCKET
    fraction, exponent = math.frexp(abs(value))
    if value == 0 or exponent < LEAST_EXPONENT:
        return 0
    bucket = (exponent - LEAST_EXPONENT) * buckets + bisect_right(octave(buckets), fraction)
    return bucket if value > 0 else -bucket


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


def quantile_of(counts: Mapping[int, int], quantile: Fraction, buckets: int) -> float | None:
    """The middle of the bucket that holds the value at position ⌊quantile · (n − 1)⌋; None for no values."""
    total = sum(counts.values())
    position = math.floor(quantile * (total - 1))
    for bucket in sorted(counts):
        position -= counts[bucket]
        if position < 0:
            return middle(bucket, buckets)
    return None


class ApproxQuantile:
    """Accumulator: bucket → number of values (as the nearest doubles) in it, changed in place."""

    result_type = pa.float64()
    parts: tuple[Part, ...] = (("buckets", pa.list_(BUCKET)),)

    def __init__(self, quantile: float, relative_error: float) -> None:
        self.quantile = Fraction(repr(quantile))
        self.buckets = buckets_per_octave(relative_error)

    def create(self) -> dict[int, int]:
        return {}

    def add(self, accumulator: dict[int, int], value: Any) -> dict[int, int]:
        bucket = bucket_of(float(value), self.buckets)
        accumulator[bucket] = accumulator.get(bucket, 0) + 1
        return accumulator

    def merge(self, a: dict[int, int], b: dict[int, int]) -> dict[int, int]:
        for bucket, count in b.items():
            a[bucket] = a.get(bucket, 0) + count
        return a

    def result(self, accumulator: dict[int, int]) -> float | None:
        return quantile_of(accumulator, self.quantile, self.buckets)

    def encode(self, accumulator: dict[int, int]) -> tuple[list[dict[str, int]]]:
        return ([{"bucket": bucket, "count": accumulator[bucket]} for bucket in sorted(accumulator)],)

    def decode(self, parts: Sequence[Any]) -> dict[int, int]:
        return {item["bucket"]: item["count"] for item in parts[0]}


class ColumnarApproxQuantile(SparseMaps):
    """The accumulator is the parked form: buckets, and the numbers of column values in them."""

    fold = Fold.SUM

    def __init__(self, column: str, scalar: ApproxQuantile) -> None:
        super().__init__(column)
        self._scalar = scalar

    def _entries_of(self, values: pa.Array) -> tuple[Longs, Longs]:
        if pa.types.is_decimal(values.type):  # Arrow's own cast may miss the nearest double by one unit
            doubles = np.array([float(value) for value in values.to_pylist()], np.float64)
        else:
            doubles = values.cast(pa.float64(), safe=False).to_numpy()
        return buckets_of(doubles, self._scalar.buckets), np.ones(len(doubles), np.int64)

    def results(self, accumulators: Columns) -> pa.Array:
        entries = entries_of(accumulators[0])
        counts = np.bincount(entries.rows, weights=entries.values, minlength=len(accumulators[0])).astype(
            np.int64
        )
        totals, total_places = np.unique(counts, return_inverse=True)
        positions = np.array(
            [math.floor(self._scalar.quantile * (total - 1)) for total in totals.tolist()], np.int64
        )[total_places]
        before = np.cumsum(counts) - counts
        places = np.searchsorted(np.cumsum(entries.values), positions + before, side="right")
        buckets = (
            entries.keys[np.minimum(places, max(len(entries.keys) - 1, 0))]
            if len(entries.keys)
            else np.zeros(len(counts), np.int64)
        )
        kinds, numbers = np.unique(buckets, return_inverse=True)
        middles = np.array([middle(bucket, self._scalar.buckets) for bucket in kinds.tolist()], np.float64)
        return pc.if_else(pa.array(counts > 0), pa.array(middles[numbers]), pa.scalar(None, pa.float64()))

    def encode(self, accumulators: Columns) -> Columns:
        return accumulators

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return [parts[0]]


def buckets_of(values: np.ndarray, buckets: int) -> Longs:
    fractions, exponents = np.frexp(np.abs(values))
    numbers = (exponents.astype(np.int64) - LEAST_EXPONENT) * buckets + np.searchsorted(
        np.array(octave(buckets)), fractions, side="right"
    )
    numbers = np.where((values == 0) | (exponents < LEAST_EXPONENT), 0, numbers)
    numbers = np.where(np.isinf(values), INFINITY_BUCKET, numbers)
    return np.where(np.isnan(values), NAN_BUCKET, np.where(values < 0, -numbers, numbers))
