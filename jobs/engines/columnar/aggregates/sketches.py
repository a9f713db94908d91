"""Approximate distinct counts and quantiles on whole columns: registers and buckets as maps, an entry for each that is not empty.

Which register or bucket a value goes into, and what they say, is defined in `jobs.engines.accumulators`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from jobs.engines.accumulators.histograms import BUCKET, INFINITY_BUCKET, LEAST_EXPONENT, NAN_BUCKET, ApproxQuantile, middle, octave
from jobs.engines.accumulators.hyperloglog import HASH_BITS, ApproxDistinct, decode_registers, encode_registers, estimate, hash_of
from jobs.engines.columnar.aggregates.lists import flattened, listed
from jobs.engines.columnar.aggregates.protocol import Columns, Parts
from windowing.columnar import maps
from windowing.columnar.columns import Longs
from windowing.columnar.groups import Groups
from windowing.columnar.maps import Entries, Fold


class _Mapped(ABC):
    """Accumulator: a list of (key, value) a row, ascending keys. Subclasses say what keys and values are, and how values fold."""

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
        return _columns(maps.folded(groups.codes[entries.rows], entries.keys, entries.values, self.fold), groups.size)

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
        counts = np.bincount(entries.rows, weights=entries.values, minlength=len(accumulators[0])).astype(np.int64)
        quantile = self._scalar.quantile
        positions = np.array([math.floor(quantile * (count - 1)) for count in counts.tolist()], np.int64)
        before = np.concatenate([[0], np.cumsum(counts)[:-1]]) if len(counts) else counts
        found = np.searchsorted(np.cumsum(entries.values), positions + before, side="right")
        buckets = entries.keys[np.minimum(found, max(len(entries.keys) - 1, 0))] if len(entries.keys) else np.zeros(len(counts), np.int64)
        stands_for = {bucket: middle(bucket, self._scalar.buckets) for bucket in np.unique(buckets).tolist()}
        return pa.array([stands_for[b] if n else None for b, n in zip(buckets.tolist(), counts.tolist(), strict=True)], pa.float64())

    def encode(self, accumulators: Columns) -> Columns:
        return accumulators

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        return [parts[0]]


def buckets_of(values: np.ndarray, buckets: int) -> Longs:
    """`bucket_of` each of `values`."""
    fractions, exponents = np.frexp(np.abs(values))
    found = (exponents.astype(np.int64) - LEAST_EXPONENT) * buckets + np.searchsorted(np.array(octave(buckets)), fractions, side="right")
    found = np.where((values == 0) | (exponents < LEAST_EXPONENT), 0, found)
    found = np.where(np.isinf(values), INFINITY_BUCKET, found)
    return np.where(np.isnan(values), NAN_BUCKET, np.where(values < 0, -found, found))


class ColumnarApproxDistinct(_Mapped):
    """Keys are registers, values their ranks."""

    fold = Fold.MAX

    def __init__(self, column: str, scalar: ApproxDistinct) -> None:
        super().__init__(column)
        self._scalar = scalar
        self._estimate: Callable[[tuple[tuple[int, int], ...]], int] = lru_cache(1 << 16)(self._estimate_of)

    def _estimate_of(self, histogram: tuple[tuple[int, int], ...]) -> int:
        return estimate(dict(histogram), self._scalar.precision)

    def __reduce__(self) -> tuple[Any, ...]:
        return ColumnarApproxDistinct, (self._column, self._scalar)

    def _entries_of(self, values: pa.Array) -> tuple[Longs, Longs]:
        hashes = hashes_of(values)
        rest = np.uint64(HASH_BITS - self._scalar.precision)
        low = hashes & ((np.uint64(1) << rest) - np.uint64(1))
        return (hashes >> rest).astype(np.int64), int(rest) - _bit_lengths(low) + 1

    def results(self, accumulators: Columns) -> pa.Array:
        entries, rows = _entries(accumulators[0]), len(accumulators[0])
        ranks = maps.folded(entries.rows, entries.values, np.ones(len(entries.rows), np.int64), Fold.SUM)
        histograms: list[list[tuple[int, int]]] = [[] for _ in range(rows)]
        for row, rank, count in zip(*(column.tolist() for column in ranks), strict=True):
            histograms[row].append((rank, count))
        untouched = ((1 << self._scalar.precision) - np.bincount(entries.rows, minlength=rows)).tolist()
        return pa.array([self._estimate(((0, n), *h)) for n, h in zip(untouched, histograms, strict=True)], pa.int64())

    def encode(self, accumulators: Columns) -> Columns:
        precision = self._scalar.precision
        maps_ = [{item["bucket"]: item["count"] for item in items} for items in accumulators[0].to_pylist()]
        return [pa.array([encode_registers(registers, precision) for registers in maps_], pa.binary())]

    def decode(self, parts: Sequence[pa.Array]) -> Columns:
        rows, keys, values = [], [], []
        for row, data in enumerate(parts[0].to_pylist()):
            registers = decode_registers(data, self._scalar.precision)
            touched = sorted(registers.items()) if isinstance(registers, dict) else [(i, rank) for i, rank in enumerate(registers) if rank]
            rows += [row] * len(touched)
            keys += [number for number, _ in touched]
            values += [rank for _, rank in touched]
        return _columns(Entries(*(np.array(column, np.int64) for column in (rows, keys, values))), len(parts[0]))


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
