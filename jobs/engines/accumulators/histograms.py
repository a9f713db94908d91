"""Quantiles from a histogram with buckets of equal relative width: a function of the multiset of values
alone.

In the style of DDSketch (Masson et al. 2019), without its collapsing of buckets, which depends on the order
of the values (and is why no library is used). Bucket borders are roots of two, computed in decimals: every
machine and every engine puts a value into the same bucket.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import pyarrow as pa

from slackwater.jobs.engines.accumulators.accumulator import OneByOne, Part

NAN_BUCKET, INFINITY_BUCKET = 2**31 - 1, 2**31 - 2
LEAST_EXPONENT = -1021  # of the least normal double, 0.5 · 2 ** −1021; smaller values count as 0
BUCKET = pa.struct([pa.field("bucket", pa.int32()), pa.field("count", pa.int64())])


@cache
def buckets_per_octave(relative_error: float) -> int:
    """The fewest buckets between a number and its double whose middle is within `relative_error` of all that
    they hold.
    """
    error = Fraction(repr(relative_error))
    width = (1 + error) / (1 - error)
    number = max(1, int(0.999 / math.log2(width)))
    while width**number < 2:
        number += 1
    return number


@cache
def octave(buckets: int) -> tuple[float, ...]:
    """The lower borders of the buckets in [0.5, 1): 2 ** (i / buckets − 1) for each i, as the nearest
    doubles.
    """
    exact = Context(prec=60)
    return tuple(
        float(exact.power(2, exact.divide(Decimal(i - buckets), Decimal(buckets)))) for i in range(buckets)
    )


def bucket_of(value: float, buckets: int) -> int:
    """The bucket of a value, with `buckets` an octave: 0 for 0, growing with the value, NaN's the greatest."""
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
    """The value that stands for a bucket: 2·a·b / (a + b) between its borders a and b, at equal relative
    distance from both.
    """
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


class ApproxQuantile(OneByOne):
    """Accumulator: bucket → how many values it holds; changed in place. Values of any numeric column go in as
    the nearest double.
    """

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
