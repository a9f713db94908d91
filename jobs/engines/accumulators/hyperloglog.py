"""About how many different values: HyperLogLog registers, a function of the set of values alone.

The registers are the whole state, as an open column. Libraries keep more (an estimate updated along the way,
lists in order of arrival), which depends on the order of the values: that is why none is used. Flajolet et
al. 2007; estimator: Ertl, arXiv:1702.01284, section 4.
"""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import Any, TypeAlias

import pyarrow as pa

from slackwater.jobs.engines.accumulators.accumulator import OneByOne, Part

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
    """Of an integer, time, date or boolean; integers of all widths alike."""
    return mix(value & _MASK)


def hash_double(value: float) -> int:
    """Of a float: that of its double; one NaN, and 0.0 for both zeros."""
    bits: int = struct.unpack(">Q", struct.pack(">d", math.nan if math.isnan(value) else value + 0.0))[0]
    return mix(bits)


def hash_text(value: str) -> int:
    """Of a string, by its UTF-8 bytes."""
    return int.from_bytes(blake2b(value.encode(), digest_size=8).digest(), "big")


def hash_decimal(value: Decimal) -> int:
    """Of a decimal, by its plain digits without trailing zeros: decimals of all scales alike."""
    digits = format(abs(value) if value.is_zero() else value, "f")
    return hash_text(digits.rstrip("0").rstrip(".") if "." in digits else digits)


def hash_of(kind: pa.DataType) -> Callable[[Any], int]:
    """The hash for values of a column of that type, as `to_python` gives them."""
    if pa.types.is_floating(kind):
        return hash_double
    if pa.types.is_decimal(kind):
        return hash_decimal
    return hash_text if pa.types.is_string(kind) else hash_integer


def estimate(histogram: Mapping[int, int], precision: int) -> int:
    """How many values left registers of which histogram[rank] stand at each rank (0: never touched), rounded
    to a whole number.
    """
    registers, most = 1 << precision, HASH_BITS - precision
    untouched = histogram.get(0, 0) / registers
    if untouched == 1:
        return 0
    raised = registers * tau(1 - histogram.get(most + 1, 0) / registers)
    for rank in range(most, 0, -1):
        raised = 0.5 * (raised + histogram.get(rank, 0))
    raised += registers * sigma(untouched)
    return round(registers * registers / (2 * math.log(2) * raised))


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
    """Canonical bytes: a byte a register, or, where that is shorter, the touched ones in order, 3 bytes each
    (number big-endian, rank).
    """
    touched = (
        list(registers.items())
        if isinstance(registers, dict)
        else [(i, rank) for i, rank in enumerate(registers) if rank]
    )
    if len(touched) * SPARSE < 1 << precision:
        return b"".join(number.to_bytes(2, "big") + bytes([rank]) for number, rank in sorted(touched))
    return (
        bytes(registers)
        if isinstance(registers, bytearray)
        else bytes(registers.get(i, 0) for i in range(1 << precision))
    )


def decode_registers(data: bytes, precision: int) -> Registers:
    """The inverse of `encode_registers`."""
    if len(data) == 1 << precision:
        return bytearray(data)
    return {int.from_bytes(data[i : i + 2], "big"): data[i + 2] for i in range(0, len(data), SPARSE)}


class ApproxDistinct(OneByOne):
    """Accumulator: the touched registers by number, or all of them once a third is touched; changed in place."""

    result_type = pa.int64()
    parts: tuple[Part, ...] = (("registers", pa.binary()),)

    def __init__(self, precision: int, column_type: pa.DataType) -> None:
        self.precision = precision
        self._hash = hash_of(column_type)

    def create(self) -> Registers:
        return {}

    def add(self, accumulator: Registers, value: Any) -> Registers:
        hashed = self._hash(value)
        rest = HASH_BITS - self.precision
        return self._raise(accumulator, hashed >> rest, rest - (hashed & ((1 << rest) - 1)).bit_length() + 1)

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
