"""Sums and means of float columns, exact: limbs of a fixed-point number, rounded once when a window fires.

The scalar counterpart is `slackwater.jobs.engines.exact_sums`.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.engines.columnar.aggregates.counts import count_values, running_sum
from slackwater.jobs.engines.columnar.aggregates.limb_columns import (
    decode_exact,
    encode_exact,
    pack_limbs,
    unpack_limbs,
)
from slackwater.jobs.engines.columnar.aggregates.protocol import Columns, Parts
from slackwater.windowing.columnar import limbs
from slackwater.windowing.columnar.columns import Longs
from slackwater.windowing.columnar.groups import Groups, sum_of_groups

_SPECIALS = ("nan", "positive_infinity", "negative_infinity")


class ColumnarDouble:
    """Sum or mean of a float column.

    Accumulator: `exact`, the base and the limbs of the sum as 64-bit words, equally many in all rows of one
    partial; how often each special value came; how many values there were.
    """

    columns: Parts = (
        ("exact", pa.binary()),
        *((name, pa.int64()) for name in _SPECIALS),
        ("count", pa.int64()),
    )

    def __init__(self, column: str, is_mean: bool) -> None:
        self._column = column
        self._is_mean = is_mean

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        column = rows.column(self._column)
        counts = count_values(column, groups)
        is_valid = np.asarray(column.is_valid())
        codes, values = groups.codes[is_valid], column.drop_null().cast(pa.float64()).to_numpy()
        specials = [
            np.bincount(codes[found], minlength=groups.size)
            for found in (np.isnan(values), values == np.inf, values == -np.inf)
        ]
        is_finite = np.isfinite(values)
        numbers, base = limbs.of_doubles(values[is_finite])
        return _columns(
            limbs.sum_limbs(numbers, Groups(codes[is_finite], groups.size)), base, specials, counts
        )

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        numbers, base, specials, counts = _read(accumulators)
        return _columns(
            limbs.sum_limbs(numbers, groups),
            base,
            [sum_of_groups(found, groups) for found in specials],
            sum_of_groups(counts, groups),
        )

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        numbers, base, specials, counts = _read(accumulators)
        return _columns(
            limbs.running_limbs(numbers, starts),
            base,
            [running_sum(found, starts) for found in specials],
            running_sum(counts, starts),
        )

    def results(self, accumulators: Columns) -> pa.Array:
        numbers, base, specials, counts = _read(accumulators)
        sums = self._rounded(numbers, base, specials, np.maximum(counts, 1) if self._is_mean else None)
        return pc.if_else(pa.array(counts > 0), pa.array(sums), pa.scalar(None, pa.float64()))

    def encode(self, accumulators: Columns) -> Columns:
        numbers, base, specials, counts = _read(accumulators)
        flags = np.sum([(found > 0) << place for place, found in enumerate(specials)], axis=0)
        exact = encode_exact(numbers, limbs.BITS * base, flags)
        return [pa.array(self._rounded(numbers, base, specials, None)), exact, pa.array(counts)]

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        numbers, base, flags = decode_exact(parts[1], 0)
        return _columns(
            numbers, base, [flags >> place & 1 for place in range(len(_SPECIALS))], parts[2].to_numpy()
        )

    def _rounded(
        self, numbers: Longs, base: int, specials: Sequence[Longs], divisors: Longs | None
    ) -> np.ndarray:
        sums = limbs.to_doubles(
            numbers, limbs.BITS * base - limbs.UNIT_BITS, () if divisors is None else [divisors]
        )
        is_nan, is_positive, is_negative = (found > 0 for found in specials)
        sums[is_positive], sums[is_negative] = np.inf, -np.inf
        sums[is_nan | (is_positive & is_negative)] = np.nan
        return sums


def _columns(numbers: Longs, base: int, specials: Sequence[Longs], counts: Longs) -> Columns:
    return [pack_limbs(numbers, base), *(pa.array(found) for found in specials), pa.array(counts)]


def _read(accumulators: Columns) -> tuple[Longs, int, list[Longs], Longs]:
    """Limbs of one base and one width, that base, special values, counts."""
    exact, *rest = accumulators
    *specials, counts = (column.to_numpy() for column in rest)
    return *unpack_limbs(exact), specials, counts
