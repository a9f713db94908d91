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
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.aggregates.accumulator import Columns, Part
from slackwater.engine.aggregates.sketches import SparseMaps, columns_of, entries_of
from slackwater.windowing.columnar.arrays.columns import Longs
from slackwater.windowing.columnar.arrays.maps import Entries, Fold

HASH_BITS = 64


_MASK = 2**64 - 1


SPARSE = 3  # bytes of an entry: register (2, big-endian), rank (1)


Registers: TypeAlias = dict[int, int] | bytearray


def mix(number: int) -> int:
    """64 well-mixed bits of 64 bits: the finaliser of splitmix64 (Steele et al. 2014)."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)


def hash_integer(value: int) -> int:
    """The hash of an integer, time, date or boolean; the same for integers of all widths."""
    return mix(value & _MASK)


def hash_double(value: float) -> int:
    """The hash of a float, as a double; all NaN have one hash, and so have both zeros."""
    bits: int = struct.unpack(">Q", struct.pack(">d", math.nan if math.isnan(value) else value + 0.0))[0]
    return mix(bits)


def hash_text(value: str) -> int:
    """The hash of a string, by its UTF-8 bytes."""
    return int.from_bytes(blake2b(value.encode(), digest_size=8).digest(), "big")


def hash_decimal(value: Decimal) -> int:
    """The hash of a decimal, by its plain digits without trailing zeros, so that all scales agree."""
    digits = format(abs(value) if value.is_zero() else value, "f")
    return hash_text(digits.rstrip("0").rstrip(".") if "." in digits else digits)


def hash_of(kind: pa.DataType) -> Callable[[Any], int]:
    if pa.types.is_floating(kind):
        return hash_double
    if pa.types.is_decimal(kind):
        return hash_decimal
    return hash_text if pa.types.is_string(kind) else hash_integer


def estimate(histogram: Mapping[int, int], precision: int) -> int:
    """The estimated number of different values; histogram[rank] registers have each rank."""
    registers, most = 1 << precision, HASH_BITS - precision
    untouched_share = histogram.get(0, 0) / registers
    if untouched_share == 1:
        return 0
    denominator = registers * tau(1 - histogram.get(most + 1, 0) / registers)
    for rank in range(most, 0, -1):
        denominator = 0.5 * (denominator + histogram.get(rank, 0))
    denominator += registers * sigma(untouched_share)
    return round(registers * registers / (2 * math.log(2) * denominator))


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


def encode_registers(registers: Registers, precision: int) -> bytes:
    """Canonical bytes: one for each register or, where shorter, (number big-endian, rank) of each above 0."""
    touched_registers = (
        list(registers.items())
        if isinstance(registers, dict)
        else [(i, rank) for i, rank in enumerate(registers) if rank]
    )
    if len(touched_registers) * SPARSE < 1 << precision:
        return b"".join(
            number.to_bytes(2, "big") + bytes([rank]) for number, rank in sorted(touched_registers)
        )
    return (
        bytes(registers)
        if isinstance(registers, bytearray)
        else bytes(registers.get(i, 0) for i in range(1 << precision))
    )


def decode_registers(data: bytes, precision: int) -> Registers:
    if len(data) == 1 << precision:
        return bytearray(data)
    return {int.from_bytes(data[i : i + 2], "big"): data[i + 2] for i in range(0, len(data), SPARSE)}


class ApproxDistinct:
    """Accumulator: register → rank of those above 0, all once they are a third; changed in place."""

    result_type = pa.int64()
    parts: tuple[Part, ...] = (("registers", pa.binary()),)

    def __init__(self, precision: int, column_type: pa.DataType) -> None:
        self.precision = precision
        self._hash = hash_of(column_type)

    def create(self) -> Registers:
        return {}

    def add(self, accumulator: Registers, value: Any) -> Registers:
        hash_bits = self._hash(value)
        suffix_bits = HASH_BITS - self.precision
        return self._raise(
            accumulator,
            hash_bits >> suffix_bits,
            suffix_bits - (hash_bits & ((1 << suffix_bits) - 1)).bit_length() + 1,
        )

    def _raise(self, registers: Registers, number: int, rank: int) -> Registers:
        if isinstance(registers, bytearray):
            registers[number] = max(registers[number], rank)
            return registers
        registers[number] = max(registers.get(number, 0), rank)
        if len(registers) * SPARSE < 1 << self.precision:
            return registers
        return bytearray(registers.get(i, 0) for i in range(1 << self.precision))

    def merge(self, a: Registers, b: Registers) -> Registers:
        for number, rank in b.items() if isinstance(b, dict) else enumerate(b):
            if rank:
                a = self._raise(a, number, rank)
        return a

    def result(self, accumulator: Registers) -> int:
        histogram: dict[int, int] = {}
        for rank in accumulator.values() if isinstance(accumulator, dict) else accumulator:
            histogram[rank] = histogram.get(rank, 0) + 1
        if isinstance(accumulator, dict):
            histogram[0] = (1 << self.precision) - len(accumulator)
        return estimate(histogram, self.precision)

    def encode(self, accumulator: Registers) -> tuple[bytes]:
        return (encode_registers(accumulator, self.precision),)

    def decode(self, parts: Sequence[Any]) -> Registers:
        return decode_registers(parts[0], self.precision)


class ColumnarApproxDistinct(SparseMaps):
    """Keys are registers, values their ranks."""

    fold = Fold.MAX

    def __init__(self, column: str, scalar: ApproxDistinct) -> None:
        super().__init__(column)
        self._scalar = scalar

    def _entries_of(self, values: pa.Array) -> tuple[Longs, Longs]:
        hashes = hashes_of(values)
        suffix_bits = np.uint64(HASH_BITS - self._scalar.precision)
        low = hashes & ((np.uint64(1) << suffix_bits) - np.uint64(1))
        return (hashes >> suffix_bits).astype(np.int64), int(suffix_bits) - _bit_lengths(low) + 1

    def results(self, accumulators: Columns) -> pa.Array:
        entries, rows = entries_of(accumulators[0]), len(accumulators[0])
        precision, most = self._scalar.precision, HASH_BITS - self._scalar.precision
        by_rank = np.argsort(entries.values.astype(np.int8), kind="stable")
        bounds = np.searchsorted(entries.values[by_rank], np.arange(most + 3)).tolist()
        rows_by_rank = [entries.rows[by_rank[start:end]] for start, end in itertools.pairwise(bounds)]
        untouched_counts = (1 << precision) - np.bincount(entries.rows, minlength=rows)
        return pa.array(estimates(rows_by_rank, untouched_counts, precision))

    def encode(self, accumulators: Columns) -> Columns:
        entries, rows = entries_of(accumulators[0]), len(accumulators[0])
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
        return columns_of(Entries(rows[order], keys[order], values[order]), len(lengths))


def estimates(rows_by_rank: Sequence[Longs], untouched_counts: Longs, precision: int) -> Longs:
    """`estimate` for many rows: rows_by_rank[k] has the row of each register of rank k, `untouched_counts`
    the number of registers of rank 0 in each row.
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
    kind = values.type
    if pa.types.is_floating(kind):
        doubles = values.cast(pa.float64()).to_numpy() + 0.0
        return _mix_all(np.where(np.isnan(doubles), np.nan, doubles).view(np.uint64))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        values = values.cast(pa.int64() if pa.types.is_timestamp(kind) else pa.int32())
    elif pa.types.is_decimal(kind) or pa.types.is_string(kind):
        dictionary_column = values.dictionary_encode()
        hash_value = hash_of(kind)
        hashes = np.array(
            [hash_value(value) for value in dictionary_column.dictionary.to_pylist()], np.uint64
        )
        return hashes[dictionary_column.indices.to_numpy()]
    numbers = values.cast(pa.uint64() if pa.types.is_uint64(values.type) else pa.int64()).to_numpy()
    return _mix_all(numbers.astype(np.uint64))


def _mix_all(numbers: np.ndarray) -> np.ndarray:
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _bit_lengths(numbers: np.ndarray) -> Longs:
    """The bit length of each number, from its two halves, which doubles hold exactly."""
    high, low = numbers >> np.uint64(32), numbers & np.uint64(0xFFFFFFFF)
    lengths = np.frexp(np.where(high > 0, high, low).astype(np.float64))[1].astype(np.int64)
    return np.where(high > 0, lengths + 32, lengths)
