"""Bytes of values: every value is one tag byte and what the table below says, so values can be concatenated
and read back one by one. Numbers are big-endian.

| tag | value | bytes after the tag |
|---|---|---|
| 00 | None | |
| 01, 02 | False, True | |
| 03 | int of any size | length n, n bytes of two's complement, as few as can be |
| 05 | float | 8 bytes, IEEE 754 |
| 06 | str | length, UTF-8 (lone surrogates included) |
| 07 | bytes | length, the bytes |
| 08, 09 | tuple, list | number of items, each item |
| 0a | dict | number of entries, each key and value, in order |
| 0b | date | 4 bytes: proleptic Gregorian ordinal |
| 0c | datetime | 8 bytes: local microseconds since year 1; 1: fold; zone: None, seconds from UTC or a name |
| 0d | Decimal | its text as a str value |
| 0e | TimeWindow | start and end, 8 bytes each |
| 0f | GlobalWindow | |
| 10 | named tuple | number of its type in this serializer (2 bytes), each field |
| ff | anything else, pickled | length, the pickle |

A length or number is 1 byte, or ff and 4 bytes from 255 on. `ordered_long` is the one layout whose order
matters by itself.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from datetime import MINYEAR, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from slackwater.windowing.errors import StateSerializationError
from slackwater.windowing.windows import GLOBAL_WINDOW, GlobalWindow, TimeWindow

Write = Callable[[Any], bytes]
Read = Callable[[bytes, int], tuple[Any, int]]

_UNSIGNED_LONG = struct.Struct(">Q")
_DOUBLE = struct.Struct(">d")
_TAGGED_DOUBLE = struct.Struct(">Bd")
_TAGGED_WINDOW = struct.Struct(">Bqq")
_WINDOW = struct.Struct(">qq")
_ORDINAL = struct.Struct(">I")
_MOMENT = struct.Struct(">qB")

_NONE, _FALSE, _TRUE, _INT = range(4)
_FLOAT, _STR, _BYTES, _TUPLE, _LIST, _DICT, _DATE, _DATETIME, _DECIMAL = range(5, 14)
_TIME_WINDOW, _GLOBAL_WINDOW, _NAMED_TUPLE, _PICKLE = 14, 15, 16, 255

_ONE_BYTE: Final = 255
_EPOCH: Final = datetime(MINYEAR, 1, 1)  # noqa: DTZ001 - a local time is counted from a local time
_MICROSECOND: Final = timedelta(microseconds=1)


def ordered_long(number: int) -> bytes:
    """A signed 64-bit integer as 8 bytes in the same, unsigned order: big-endian, sign bit flipped."""
    return _UNSIGNED_LONG.pack(number + 2**63)


def read_ordered_long(data: bytes, at: int) -> int:
    return int(_UNSIGNED_LONG.unpack_from(data, at)[0]) - 2**63


class PlainSerializer:
    """Plain values of any type in the table, nested as they like.

    Exact types only: a value is read back with the type that was written. Named tuples have a number that
    this object assigns, so bytes are read by the serializer that wrote them, or by one that has met the same
    types in the same order. Errors name `state_name`. `pickles` allows pickling other objects. A pickle is
    code: only the writer may hold the bytes.
    """

    def __init__(self, state_name: str, pickles: bool = False) -> None:
        self._state_name, self._pickles = state_name, pickles
        self._named_tuples: list[Any] = []
        self._writers: dict[type, Write] = {
            **_ATOMS,
            tuple: self._write_tuple,
            list: self._write_list,
            dict: self._write_dict,
            datetime: self._write_datetime,
        }
        self._readers: dict[int, Read] = {
            **_ATOM_READERS,
            _TUPLE: self._read_tuple,
            _LIST: self._read_list,
            _DICT: self._read_dict,
            _DATETIME: self._read_datetime,
            _NAMED_TUPLE: self._read_named_tuple,
            _PICKLE: self._read_pickle,
        }

    def dumps(self, value: Any) -> bytes:
        """The value's bytes. Raises StateSerializationError for a value that has none."""
        return (self._writers.get(type(value)) or self._write_other)(value)

    def read(self, data: bytes, at: int = 0) -> tuple[Any, int]:
        """The value whose bytes begin at `at`, and where they end."""
        return self._readers[data[at]](data, at + 1)

    def loads(self, data: bytes) -> Any:
        return self._readers[data[0]](data, 1)[0]

    def read_all(self, data: bytes, at: int = 0) -> list[Any]:
        values, readers, end = [], self._readers, len(data)
        while at < end:
            value, at = readers[data[at]](data, at + 1)
            values.append(value)
        return values

    def _write_other(self, value: Any) -> bytes:
        """A value of a type without a writer: a named tuple gets one, others are pickled or refused."""
        kind = type(value)
        if isinstance(value, tuple) and hasattr(kind, "_make") and len(self._named_tuples) < 2**16:
            head = bytes((_NAMED_TUPLE,)) + len(self._named_tuples).to_bytes(2, "big")
            self._named_tuples.append(kind)
            self._writers[kind] = lambda record: head + self._write_tuple(record)
            return self.dumps(value)
        if self._pickles:
            pickle_bytes = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
            return _tag_and_length(_PICKLE, len(pickle_bytes)) + pickle_bytes
        raise StateSerializationError(
            f"State {self._state_name!r} was given a {kind.__module__}.{kind.__qualname__}, which has no "
            f"bytes in RocksDB: {value!r:.100}. "
            "Keep plain values or named tuples, keep state in memory, or allow pickles.",
            state_name=self._state_name,
            type_name=kind.__qualname__,
        )

    def _write_tuple(self, values: tuple[Any, ...]) -> bytes:
        get, other = self._writers.get, self._write_other
        return b"".join(
            [_tag_and_length(_TUPLE, len(values)), *[(get(type(value)) or other)(value) for value in values]]
        )

    def _write_list(self, values: list[Any]) -> bytes:
        get, other = self._writers.get, self._write_other
        return b"".join(
            [_tag_and_length(_LIST, len(values)), *[(get(type(value)) or other)(value) for value in values]]
        )

    def _write_dict(self, value: dict[Any, Any]) -> bytes:
        parts = [_tag_and_length(_DICT, len(value))]
        for item in value.items():
            parts += map(self.dumps, item)
        return b"".join(parts)

    def _write_datetime(self, value: datetime) -> bytes:
        zone = value.tzinfo
        if zone is None:
            zone_id: Any = None
        elif type(zone) is timezone:
            zone_id = zone.utcoffset(None) // _MICROSECOND
        elif type(zone) is ZoneInfo and zone.key is not None:
            zone_id = zone.key
        else:
            return self._write_other(value)
        moment = (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
        return b"".join([bytes((_DATETIME,)), _MOMENT.pack(moment, value.fold), self.dumps(zone_id)])

    def _read_list(self, data: bytes, at: int) -> tuple[list[Any], int]:
        number, at = _read_length(data, at)
        values, readers = [], self._readers
        for _ in range(number):
            value, at = readers[data[at]](data, at + 1)
            values.append(value)
        return values, at

    def _read_tuple(self, data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        values, at = self._read_list(data, at)
        return tuple(values), at

    def _read_dict(self, data: bytes, at: int) -> tuple[dict[Any, Any], int]:
        number, at = _read_length(data, at)
        entries = {}
        for _ in range(number):
            key, at = self.read(data, at)
            entries[key], at = self.read(data, at)
        return entries, at

    def _read_named_tuple(self, data: bytes, at: int) -> tuple[Any, int]:
        fields, end = self.read(data, at + 2)
        return self._named_tuples[int.from_bytes(data[at : at + 2], "big")]._make(fields), end

    def _read_datetime(self, data: bytes, at: int) -> tuple[datetime, int]:
        moment, fold = _MOMENT.unpack_from(data, at)
        zone_id, end = self.read(data, at + _MOMENT.size)
        zone = (
            None
            if zone_id is None
            else ZoneInfo(zone_id)
            if type(zone_id) is str
            else timezone(zone_id * _MICROSECOND)
        )
        return (_EPOCH + moment * _MICROSECOND).replace(fold=fold, tzinfo=zone), end

    def _read_pickle(self, data: bytes, at: int) -> tuple[Any, int]:
        length, at = _read_length(data, at)
        return pickle.loads(data[at : at + length]), at + length


def _tag_and_length(tag: int, length: int) -> bytes:
    return bytes((tag, length)) if length < _ONE_BYTE else bytes((tag, _ONE_BYTE)) + length.to_bytes(4, "big")


def _read_length(data: bytes, at: int) -> tuple[int, int]:
    length = data[at]
    return (length, at + 1) if length != _ONE_BYTE else (int.from_bytes(data[at + 1 : at + 5], "big"), at + 5)


def _write_int(value: int) -> bytes:
    size = (value.bit_length() >> 3) + 1
    return _tag_and_length(_INT, size) + value.to_bytes(size, "big", signed=True)


def _write_str(value: str) -> bytes:
    utf8 = value.encode("utf-8", "surrogatepass")
    return _tag_and_length(_STR, len(utf8)) + utf8


def _write_bytes(value: bytes) -> bytes:
    return _tag_and_length(_BYTES, len(value)) + value


def _write_float(value: float) -> bytes:
    return _TAGGED_DOUBLE.pack(_FLOAT, value)


def _write_date(value: date) -> bytes:
    return _DATE_HEAD + _ORDINAL.pack(value.toordinal())


def _write_decimal(value: Decimal) -> bytes:
    return _DECIMAL_HEAD + _write_str(str(value))


_DATE_HEAD, _DECIMAL_HEAD = bytes((_DATE,)), bytes((_DECIMAL,))

_ATOMS: dict[type, Write] = {
    type(None): lambda value: b"\x00",
    bool: lambda value: b"\x02" if value else b"\x01",
    int: _write_int,
    float: _write_float,
    str: _write_str,
    bytes: _write_bytes,
    date: _write_date,
    Decimal: _write_decimal,
    TimeWindow: lambda window: _TAGGED_WINDOW.pack(_TIME_WINDOW, window[0], window[1]),
    GlobalWindow: lambda window: bytes((_GLOBAL_WINDOW,)),
}


def _read_int(data: bytes, at: int) -> tuple[int, int]:
    size, at = _read_length(data, at)
    return int.from_bytes(data[at : at + size], "big", signed=True), at + size


def _read_str(data: bytes, at: int) -> tuple[str, int]:
    size, at = _read_length(data, at)
    return data[at : at + size].decode("utf-8", "surrogatepass"), at + size


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _read_length(data, at)
    return data[at : at + size], at + size


_ATOM_READERS: dict[int, Read] = {
    _NONE: lambda data, at: (None, at),
    _FALSE: lambda data, at: (False, at),
    _TRUE: lambda data, at: (True, at),
    _INT: _read_int,
    _FLOAT: lambda data, at: (_DOUBLE.unpack_from(data, at)[0], at + 8),
    _STR: _read_str,
    _BYTES: _read_bytes,
    _DATE: lambda data, at: (date.fromordinal(_ORDINAL.unpack_from(data, at)[0]), at + 4),
    _DECIMAL: lambda data, at: _read_decimal(data, at),
    _TIME_WINDOW: lambda data, at: (TimeWindow._make(_WINDOW.unpack_from(data, at)), at + 16),
    _GLOBAL_WINDOW: lambda data, at: (GLOBAL_WINDOW, at),
}


def _read_decimal(data: bytes, at: int) -> tuple[Decimal, int]:
    text, end = _read_str(data, at + 1)  # past the tag of the text
    return Decimal(text), end
