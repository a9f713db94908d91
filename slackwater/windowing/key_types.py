"""Key types: Java hash code and Flink's bytes of a key, for its key group and the order of equal timers."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import date
from typing import Any

from slackwater.windowing.errors import KeyTypeError
from slackwater.windowing.java import long_hash, string_hash, utf16_units, wrap_int

Key = Any  # a value of the declared key type: str, int, bool, float, date, or a tuple of those


class KeyType:
    """How keys of one Java type hash and serialize. `name` is as in Flink, e.g. "tuple(string,long)"."""

    @property
    def name(self) -> str:
        raise NotImplementedError

    def hash_code(self, key: Key) -> int:
        raise NotImplementedError

    def serialize(self, key: Key) -> bytes:
        """The bytes of Flink's serializer, in whose unsigned order equal timers of a key group fire."""
        raise NotImplementedError

    def check(self, key: Key) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class _IntegerKey(KeyType):
    """A Java integer of 1, 2, 4 or 8 bytes, two's complement: negative keys come after positive ones."""

    java_name: str
    size: int

    @property
    def name(self) -> str:
        return self.java_name

    def hash_code(self, key: int) -> int:
        return key if self.size < 8 or 0 <= key < 2**31 else long_hash(key)

    def serialize(self, key: int) -> bytes:
        return key.to_bytes(self.size, "big", signed=True)

    def check(self, key: Key) -> None:
        limit = 1 << (8 * self.size - 1)
        if type(key) is not int or not -limit <= key < limit:
            raise KeyTypeError(f"A {self.name} key is an integer of {self.size} bytes, got {key!r}.")


@dataclass(frozen=True)
class _StringKey(KeyType):
    """Length + 1, then each UTF-16 unit, as base-128 numbers, low digit first: shorter strings come first."""

    @property
    def name(self) -> str:
        return "string"

    def hash_code(self, key: str) -> int:
        return string_hash(key)

    def serialize(self, key: str) -> bytes:
        if len(key) < 127 and key.isascii():
            return bytes((len(key) + 1,)) + key.encode("ascii")
        units = utf16_units(key)
        written = bytearray()
        for number in (len(units) + 1, *units):
            while number >= 0x80:
                written.append(number & 0x7F | 0x80)
                number >>= 7
            written.append(number)
        return bytes(written)

    def check(self, key: Key) -> None:
        if not isinstance(key, str):
            raise KeyTypeError(f"A string key is a str, got {key!r}.")


@dataclass(frozen=True)
class _BooleanKey(KeyType):
    @property
    def name(self) -> str:
        return "bool"

    def hash_code(self, key: bool) -> int:
        return 1231 if key else 1237

    def serialize(self, key: bool) -> bytes:
        return b"\x01" if key else b"\x00"

    def check(self, key: Key) -> None:
        if not isinstance(key, bool):
            raise KeyTypeError(f"A bool key is True or False, got {key!r}.")


@dataclass(frozen=True)
class _DoubleKey(KeyType):
    """The bits, big-endian. Pipelines refuse doubles: 0.0 and -0.0 are one key in Python, two in Java."""

    @property
    def name(self) -> str:
        return "double"

    def hash_code(self, key: float) -> int:
        return long_hash(int.from_bytes(self._canonical(key), "big"))

    def serialize(self, key: float) -> bytes:
        return struct.pack(">d", key)

    def check(self, key: Key) -> None:
        if not isinstance(key, float):
            raise KeyTypeError(f"A double key is a float, got {key!r}.")

    def _canonical(self, key: float) -> bytes:
        return struct.pack(">d", key if key == key else float("nan"))  # Double.hashCode knows one NaN


@dataclass(frozen=True)
class _DateKey(KeyType):
    """`java.time.LocalDate`: year (4 bytes), month, day."""

    @property
    def name(self) -> str:
        return "date"

    def hash_code(self, key: date) -> int:
        return wrap_int((key.year & 0xFFFFF800) ^ ((key.year << 11) + (key.month << 6) + key.day))

    def serialize(self, key: date) -> bytes:
        return struct.pack(">ibb", key.year, key.month, key.day)

    def check(self, key: Key) -> None:
        if type(key) is not date:
            raise KeyTypeError(f"A date key is a datetime.date without a time, got {key!r}.")


@dataclass(frozen=True)
class TupleKey(KeyType):
    """A Flink tuple of key types: hashes fold with 31, bytes follow each other."""

    fields: tuple[KeyType, ...]

    @property
    def name(self) -> str:
        return f"tuple({','.join(field.name for field in self.fields)})"

    def hash_code(self, key: tuple[Any, ...]) -> int:
        result = 0
        for position, (field, value) in enumerate(zip(self.fields, key, strict=True)):
            result = field.hash_code(value) if position == 0 else 31 * result + field.hash_code(value)
        return wrap_int(result)

    def serialize(self, key: tuple[Any, ...]) -> bytes:
        return b"".join([field.serialize(value) for field, value in zip(self.fields, key, strict=True)])

    def check(self, key: Key) -> None:
        if not isinstance(key, tuple) or len(key) != len(self.fields):
            raise KeyTypeError(f"A {self.name} key is a tuple of {len(self.fields)} values, got {key!r}.")
        for field, value in zip(self.fields, key, strict=True):
            field.check(value)


BYTE: KeyType = _IntegerKey("byte", 1)
SHORT: KeyType = _IntegerKey("short", 2)
INT: KeyType = _IntegerKey("int", 4)
LONG: KeyType = _IntegerKey("long", 8)
STRING: KeyType = _StringKey()
BOOLEAN: KeyType = _BooleanKey()
DOUBLE: KeyType = _DoubleKey()
DATE: KeyType = _DateKey()

_BY_NAME = {key_type.name: key_type for key_type in (BYTE, SHORT, INT, LONG, STRING, BOOLEAN, DOUBLE, DATE)}


def key_type(name: str) -> KeyType:
    """The key type of a name such as "tuple(string,long)". Raises KeyTypeError that lists the valid names."""
    if name.startswith("tuple(") and name.endswith(")"):
        return TupleKey(tuple(key_type(field.strip()) for field in name[6:-1].split(",")))
    if name not in _BY_NAME:
        raise KeyTypeError(f"No key type {name!r}; there are {', '.join(_BY_NAME)} and tuple(…) of those.")
    return _BY_NAME[name]
