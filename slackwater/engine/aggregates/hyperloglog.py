"""`approx_distinct`: about how many different values, by HyperLogLog registers.

A value's hash names a register by its first bits; its rank is the position of the first 1 among the other
bits:

    hash          0110 | 0001011…      register 6, rank 4
    register 6    = the greatest rank of all values whose hash begins with 0110

The registers are the whole state, parked as an open column. Libraries keep more (an estimate updated along
the way, lists in order of arrival), which depends on the order of the values; that is why none is used.
Flajolet et al. 2007; estimator: Ertl, arXiv:1702.01284, section 4.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.aggregates.bound_aggregate import Columns, Parts
from slackwater.engine.aggregates.sketches import SparseMaps, columns_of, entries_of
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.maps import Entries, Fold

HASH_BITS = 64


SPARSE = 3  # bytes of an entry: register (2, big-endian), rank (1)


def hash_text(value: str) -> int:
    """The hash of a string, by its UTF-8 bytes."""
    return int.from_bytes(blake2b(value.encode(), digest_size=8).digest(), "big")


def hash_decimal(value: Decimal) -> int:
    """The hash of a decimal, by its plain digits without trailing zeros, so that all scales agree."""
    digits = format(abs(value) if value.is_zero() else value, "f")
    return hash_text(digits.rstrip("0").rstrip(".") if "." in digits else digits)


def sigma(x: float) -> float:
    """x + Σ x^(2^k)·2^(k−1), k from 1, for 0 ≤ x < 1."""
    total, weight = x, 1.0
    while True:
        x *= x
        before, total = total, total + x * weight
        weight += weight
        if total == before:
            return total


def tau(x: float) -> float:
    """(1 − x − Σ (1 − x^(2^−k))²·2^−k) / 3, k from 1."""
    if x in (0.0, 1.0):
        return 0.0
    total, weight = 1 - x, 1.0
    while True:
        x = math.sqrt(x)
        weight *= 0.5
        before, total = total, total - (1 - x) ** 2 * weight
        if total == before:
            return total / 3


class ApproxDistinct(SparseMaps):
    """Keys are registers, values their ranks. Parked are bytes: the rank of each register or, where shorter,
    (number big-endian, rank) of each above 0.
    """

    fold = Fold.MAX
    parts: Parts = (("registers", pa.binary()),)
    result_type = pa.int64()

    def __init__(self, column: str, precision: int) -> None:
        super().__init__(column)
        self._precision = precision

    def _entries_of(self, values: pa.Array) -> tuple[Longs, Longs]:
        hashes = hashes_of(values)
        suffix_bits = np.uint64(HASH_BITS - self._precision)
        low = hashes & ((np.uint64(1) << suffix_bits) - np.uint64(1))
        return (hashes >> suffix_bits).astype(np.int64), int(suffix_bits) - _bit_lengths(low) + 1

    def results(self, accumulators: Columns) -> pa.Array:
        entries, rows = entries_of(accumulators[0]), len(accumulators[0])
        precision, most = self._precision, HASH_BITS - self._precision
        by_rank = np.argsort(entries.values.astype(np.int8), kind="stable")
        bounds = np.searchsorted(entries.values[by_rank], np.arange(most + 3)).tolist()
        rows_by_rank = [entries.rows[by_rank[start:end]] for start, end in itertools.pairwise(bounds)]
        untouched_counts = (1 << precision) - np.bincount(entries.rows, minlength=rows)
        return pa.array(estimates(rows_by_rank, untouched_counts, precision))

    def encode(self, accumulators: Columns) -> Columns:
        entries, rows = entries_of(accumulators[0]), len(accumulators[0])
        size = 1 << self._precision
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
        is_dense = lengths == 1 << self._precision
        owners = np.repeat(np.arange(len(lengths)), lengths)
        places = np.arange(len(data)) - begins[owners]
        dense = np.flatnonzero(is_dense[owners] & (data > 0))
        sparse = np.flatnonzero(~is_dense[owners] & (places % SPARSE == 0))
        rows = np.append(owners[dense], owners[sparse])
        keys = np.append(places[dense], (data[sparse] << 8) + data[np.minimum(sparse + 1, len(data) - 1)])
        values = np.append(data[dense], data[np.minimum(sparse + 2, len(data) - 1)])
        order = np.argsort(rows, kind="stable")
        return columns_of(Entries(rows[order], keys[order], values[order]), len(lengths))


def estimates(rows_by_rank: Sequence[Longs], untouched_counts: Longs, precision: int) -> Longs:
    """The estimated number of different values in each row: rows_by_rank[k] has the row of each register of
    rank k, `untouched_counts` the number of registers of rank 0 in each row.
    """
    registers, most = 1 << precision, HASH_BITS - precision
    greatest = np.bincount(rows_by_rank[most + 1], minlength=len(untouched_counts))
    denominator = registers * _value_of_each(tau, 1 - greatest / registers)
    for rank in range(most, 0, -1):
        denominator = 0.5 * (denominator + np.bincount(rows_by_rank[rank], minlength=len(untouched_counts)))
    is_empty = untouched_counts == registers
    denominator += registers * _value_of_each(sigma, np.where(is_empty, 0.0, untouched_counts / registers))
    with np.errstate(divide="ignore"):
        counts = np.rint(registers * registers / (2 * math.log(2) * denominator))
    return np.where(is_empty, 0, counts).astype(np.int64)


def _value_of_each(function: Callable[[float], float], values: np.ndarray) -> np.ndarray:
    distinct, numbers = np.unique(values, return_inverse=True)
    return np.array(list(map(function, distinct.tolist())), np.float64)[numbers]


def hashes_of(values: pa.Array) -> np.ndarray:
    """The hash of each value, the same for integers of all widths and for floats and doubles; all NaN have
    one hash, and so have both zeros.
    """
    kind = values.type
    if pa.types.is_floating(kind):
        doubles = values.cast(pa.float64()).to_numpy() + 0.0
        return mix(np.where(np.isnan(doubles), np.nan, doubles).view(np.uint64))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        values = values.cast(pa.int64() if pa.types.is_timestamp(kind) else pa.int32())
    elif pa.types.is_decimal(kind) or pa.types.is_string(kind):
        dictionary_column = values.dictionary_encode()
        hash_value = hash_decimal if pa.types.is_decimal(kind) else hash_text
        hashes = np.array(
            [hash_value(value) for value in dictionary_column.dictionary.to_pylist()], np.uint64
        )
        return hashes[dictionary_column.indices.to_numpy()]
    numbers = values.cast(pa.uint64() if pa.types.is_uint64(values.type) else pa.int64()).to_numpy()
    return mix(numbers.astype(np.uint64))


def mix(numbers: np.ndarray) -> np.ndarray:
    """64 well-mixed bits of each uint64: the finaliser of splitmix64 (Steele et al. 2014)."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _bit_lengths(numbers: np.ndarray) -> Longs:
    """The bit length of each number, from its two halves, which doubles hold exactly."""
    high, low = numbers >> np.uint64(32), numbers & np.uint64(0xFFFFFFFF)
    lengths = np.frexp(np.where(high > 0, high, low).astype(np.float64))[1].astype(np.int64)
    return np.where(high > 0, lengths + 32, lengths)
