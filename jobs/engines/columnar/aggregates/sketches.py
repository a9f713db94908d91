"""Approximate distinct counts and quantiles on whole columns: registers and buckets as maps, an entry for
each that is not empty.

Which register or bucket a value goes into, and what they say, is defined in
`slackwater.jobs.engines.accumulators`.
"""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.jobs.engines.accumulators.histograms import (
    BUCKET,
    INFINITY_BUCKET,
    LEAST_EXPONENT,
    NAN_BUCKET,
    ApproxQuantile,
    middle,
    octave,
)
from slackwater.jobs.engines.accumulators.hyperloglog import (
    HASH_BITS,
    SPARSE,
    ApproxDistinct,
    hash_of,
    sigma,
    tau,
)
from slackwater.jobs.engines.columnar.aggregates.lists import flattened, listed
from slackwater.jobs.engines.columnar.aggregates.protocol import Columns, Parts
from slackwater.windowing.columnar import maps
from slackwater.windowing.columnar.columns import Longs
from slackwater.windowing.columnar.groups import Groups
from slackwater.windowing.columnar.maps import Entries, Fold


class _Mapped(ABC):
    """Accumulator: a list of (key, value) a row, ascending keys. Subclasses say what keys and values are, and
    how values fold.
    """

    columns: Parts = (("entries", pa.list_(BUCKET)),)
    fold: Fold

    def __init__(self, column: str) -> None:
        self._column = column

    @abstractmethod
    def _entries_of(self, values: pa.Array) -> tuple[Longs, Longs]:
        """Key and value for each value of the column; none is null."""

    def partial(self, rows: pa.Table, groups: Groups) -> Columns:
        column = rows.column(self._column).combine_chunks()
        kept = np.flatnonzero(np.asarray(column.is_valid()))
        keys, values = self._entries_of(column.drop_null())
        return _columns(maps.folded(groups.codes[kept], keys, values, self.fold), groups.size)

    def combine(self, accumulators: Columns, groups: Groups) -> Columns:
        entries = _entries(accumulators[0])
        return _columns(
            maps.folded(groups.codes[entries.rows], entries.keys, entries.values, self.fold), groups.size
        )

    def running(self, accumulators: Columns, starts: Longs) -> Columns:
        rows = len(accumulators[0])
        return _columns(maps.running(_entries(accumulators[0]), starts, rows, self.fold), rows)


def _entries(column: pa.Array) -> Entries:
    rows, items = flattened(column)
    return Entries(rows, items.field(0).to_numpy().astype(np.int64), items.field(1).to_numpy())


def _columns(entries: Entries, size: int) -> Columns:
    fields = [pa.array(entries.keys.astype(np.int32)), pa.array(entries.values)]
    return [listed(entries.rows, pa.StructArray.from_arrays(fields, fields=list(BUCKET)), size)]


class ColumnarApproxQuantile(_Mapped):
    """Keys are buckets, values how many fell into them: the parked form itself."""

    fold = Fold.SUM

    def __init__(self, column: str, scalar: ApproxQuantile) -> None:
        super().__init__(column)
        self._scalar = scalar

    def _entries_of(self, values: pa.Array) -> tuple[Longs, Longs]:
        if pa.types.is_decimal(values.type):  # Arrow's own cast may be a unit off the nearest double
            doubles = np.array([float(value) for value in values.to_pylist()], np.float64)
        else:
            doubles = values.cast(pa.float64(), safe=False).to_numpy()
        return buckets_of(doubles, self._scalar.buckets), np.ones(len(doubles), np.int64)

    def results(self, accumulators: Columns) -> pa.Array:
        entries = _entries(accumulators[0])
        counts = np.bincount(entries.rows, weights=entries.values, minlength=len(accumulators[0])).astype(
            np.int64
        )
        totals, of_totals = np.unique(counts, return_inverse=True)
        positions = np.array(
            [math.floor(self._scalar.quantile * (total - 1)) for total in totals.tolist()], np.int64
        )[of_totals]
        before = np.cumsum(counts) - counts
        found = np.searchsorted(np.cumsum(entries.values), positions + before, side="right")
        buckets = (
            entries.keys[np.minimum(found, max(len(entries.keys) - 1, 0))]
            if len(entries.keys)
            else np.zeros(len(counts), np.int64)
        )
        kinds, numbers = np.unique(buckets, return_inverse=True)
        stands_for = np.array([middle(bucket, self._scalar.buckets) for bucket in kinds.tolist()], np.float64)
        return pc.if_else(pa.array(counts > 0), pa.array(stands_for[numbers]), pa.scalar(None, pa.float64()))

    def encode(self, accumulators: Columns) -> Columns:
        return accumulators

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return [parts[0]]


def buckets_of(values: np.ndarray, buckets: int) -> Longs:
    """`bucket_of` each of `values`."""
    fractions, exponents = np.frexp(np.abs(values))
    found = (exponents.astype(np.int64) - LEAST_EXPONENT) * buckets + np.searchsorted(
        np.array(octave(buckets)), fractions, side="right"
    )
    found = np.where((values == 0) | (exponents < LEAST_EXPONENT), 0, found)
    found = np.where(np.isinf(values), INFINITY_BUCKET, found)
    return np.where(np.isnan(values), NAN_BUCKET, np.where(values < 0, -found, found))


class ColumnarApproxDistinct(_Mapped):
    """Keys are registers, values their ranks."""

    fold = Fold.MAX

    def __init__(self, column: str, scalar: ApproxDistinct) -> None:
        super().__init__(column)
        self._scalar = scalar

    def _entries_of(self, values: pa.Array) -> tuple[Longs, Longs]:
        hashes = hashes_of(values)
        rest = np.uint64(HASH_BITS - self._scalar.precision)
        low = hashes & ((np.uint64(1) << rest) - np.uint64(1))
        return (hashes >> rest).astype(np.int64), int(rest) - _bit_lengths(low) + 1

    def results(self, accumulators: Columns) -> pa.Array:
        entries, rows = _entries(accumulators[0]), len(accumulators[0])
        precision, most = self._scalar.precision, HASH_BITS - self._scalar.precision
        by_rank = np.argsort(entries.values.astype(np.int8), kind="stable")
        bounds = np.searchsorted(entries.values[by_rank], np.arange(most + 3)).tolist()
        of_rank = [entries.rows[by_rank[start:end]] for start, end in itertools.pairwise(bounds)]
        untouched = (1 << precision) - np.bincount(entries.rows, minlength=rows)
        return pa.array(estimates(of_rank, untouched, precision))

    def encode(self, accumulators: Columns) -> Columns:
        entries, rows = _entries(accumulators[0]), len(accumulators[0])
        size = 1 << self._scalar.precision
        counts = np.bincount(entries.rows, minlength=rows)
        is_sparse = counts * SPARSE < size
        offsets = np.zeros(rows + 1, np.int32)
        np.cumsum(np.where(is_sparse, counts * SPARSE, size), out=offsets[1:])
        data = np.zeros(int(offsets[-1]), np.uint8)
        places = np.arange(len(entries.rows)) - (np.cumsum(counts) - counts)[entries.rows]
        begins, sparse = offsets[entries.rows].astype(np.int64), is_sparse[entries.rows]
        at = (begins + places * SPARSE)[sparse]
        for byte, values in enumerate((entries.keys >> 8, entries.keys & 255, entries.values)):
            data[at + byte] = values[sparse]
        data[(begins + entries.keys)[~sparse]] = entries.values[~sparse]
        return [pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])]

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        registers = parts[0]
        lengths = pc.binary_length(registers).to_numpy().astype(np.int64)
        data = np.frombuffer(b"".join(registers.to_pylist()), np.uint8).astype(np.int64)
        begins = np.cumsum(lengths) - lengths
        is_dense = lengths == 1 << self._scalar.precision
        owners = np.repeat(np.arange(len(lengths)), lengths)
        places = np.arange(len(data)) - begins[owners]
        dense = np.flatnonzero(is_dense[owners] & (data > 0))
        sparse = np.flatnonzero(~is_dense[owners] & (places % SPARSE == 0))
        rows = np.append(owners[dense], owners[sparse])
        keys = np.append(places[dense], (data[sparse] << 8) + data[np.minimum(sparse + 1, len(data) - 1)])
        values = np.append(data[dense], data[np.minimum(sparse + 2, len(data) - 1)])
        order = np.argsort(rows, kind="stable")
        return _columns(Entries(rows[order], keys[order], values[order]), len(lengths))


def estimates(of_rank: Sequence[Longs], untouched: Longs, precision: int) -> Longs:
    """`estimate` for each of many rows: of_rank[k] names the row of each register of rank k, `untouched`
    counts those of none.
    """
    registers, most = 1 << precision, HASH_BITS - precision
    greatest = np.bincount(of_rank[most + 1], minlength=len(untouched))
    raised = registers * _of_each(tau, 1 - greatest / registers)
    for rank in range(most, 0, -1):
        raised = 0.5 * (raised + np.bincount(of_rank[rank], minlength=len(untouched)))
    is_empty = untouched == registers
    raised += registers * _of_each(sigma, np.where(is_empty, 0.0, untouched / registers))
    with np.errstate(divide="ignore"):
        found = np.rint(registers * registers / (2 * math.log(2) * raised))
    return np.where(is_empty, 0, found).astype(np.int64)


def _of_each(function: Callable[[float], float], values: np.ndarray) -> np.ndarray:
    """The function of each value, of which few are different."""
    distinct, numbers = np.unique(values, return_inverse=True)
    return np.array(list(map(function, distinct.tolist())), np.float64)[numbers]


def hashes_of(values: pa.Array) -> np.ndarray:
    """`hash_of` each of `values`, none of which is null: 64 bits."""
    kind = values.type
    if pa.types.is_floating(kind):
        doubles = values.cast(pa.float64()).to_numpy() + 0.0
        return _mixed(np.where(np.isnan(doubles), np.nan, doubles).view(np.uint64))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        values = values.cast(pa.int64() if pa.types.is_timestamp(kind) else pa.int32())
    elif pa.types.is_decimal(kind) or pa.types.is_string(kind):
        encoded = values.dictionary_encode()
        hash_value = hash_of(kind)
        hashes = np.array([hash_value(value) for value in encoded.dictionary.to_pylist()], np.uint64)
        return hashes[encoded.indices.to_numpy()]
    numbers = values.cast(pa.uint64() if pa.types.is_uint64(values.type) else pa.int64()).to_numpy()
    return _mixed(numbers.astype(np.uint64))


def _mixed(numbers: np.ndarray) -> np.ndarray:
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _bit_lengths(numbers: np.ndarray) -> Longs:
    """How many bits each number has, from its two halves, which doubles hold exactly."""
    high, low = numbers >> np.uint64(32), numbers & np.uint64(0xFFFFFFFF)
    lengths = np.frexp(np.where(high > 0, high, low).astype(np.float64))[1].astype(np.int64)
    return np.where(high > 0, lengths + 32, lengths)
