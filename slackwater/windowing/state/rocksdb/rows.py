"""The layout of the keys of state and timer rows in RocksDB. Numbers are big-endian.

| what | bytes |
|---|---|
| key group | 2, unsigned |
| key | as Flink's serializer of its type writes it (`key_types`); none is the beginning of another |
| namespace | 00: none; 01, start, end (8 each): a TimeWindow; 02: GlobalWindow; 03, a plain value: a user's |
| row of state | key group, key, namespace; then 4 bytes of chunk number (list) or a plain value (map) |
| row of a timer | key group, timestamp (8, sign bit flipped), key, window: none, 16 bytes, or 00 (Global) |
| … of a user's window | what its `serialize` gives, a plain value padded to 17 bytes, its length in 4 |

So a key group's rows are adjacent, its timers by timestamp, serialized key and window, the order in which
Flink fires them. A user's window is a plain value when it is a named tuple; any other needs pickles, and
equal windows must then pickle alike.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import date
from typing import Any, NamedTuple

from slackwater.windowing.errors import KeyTypeError
from slackwater.windowing.key_groups import MAX_KEY_GROUPS
from slackwater.windowing.key_types import KeyType, TupleKey
from slackwater.windowing.own_windows import serialize
from slackwater.windowing.state.rocksdb.serializers import PlainSerializer, ordered_long, read_ordered_long
from slackwater.windowing.windows import GLOBAL_WINDOW, TimeWindow

ReadKey = Callable[[bytes, int], tuple[Any, int]]

_NO_WINDOW, _TIME_WINDOW, _GLOBAL_WINDOW, _USER_WINDOW = b"\x00", 1, b"\x02", b"\x03"
_TAGGED_WINDOW = struct.Struct(">Bqq")
_WINDOW = struct.Struct(">qq")
_LENGTH = struct.Struct(">I")
_DATE = struct.Struct(">ibb")
_DOUBLE = struct.Struct(">d")
_AFTER_KEY_GROUP = 2
_PADDED_LENGTH = 17  # longer than Flink's windows, so that the length tells a user's window from them


class StateRow(NamedTuple):
    """A parsed key of a row of state. At `namespace_end` a chunk number or the key of a map begins."""

    key: Any
    namespace: Any
    namespace_end: int


class RowLayout:
    """Writes and reads the keys of one operator's rows; `windows` writes and reads users' windows."""

    def __init__(
        self, key_type: KeyType, key_group_of: Callable[[Any], int], windows: PlainSerializer
    ) -> None:
        self._serialize_key, self._read_key = key_type.serialize, key_reader(key_type)
        self._key_group_of, self._windows = key_group_of, windows

    def state_row(self, key: Any, namespace: Any) -> bytes:
        """Key group, key and namespace: the row of a value, and the prefix of the rows of a list or map."""
        prefix = _KEY_GROUPS[self._key_group_of(key)] + self._serialize_key(key)
        if type(namespace) is TimeWindow:
            return prefix + _TAGGED_WINDOW.pack(_TIME_WINDOW, *namespace)
        if namespace is None:
            return prefix + _NO_WINDOW
        if namespace is GLOBAL_WINDOW:
            return prefix + _GLOBAL_WINDOW
        return prefix + _USER_WINDOW + self._windows.dumps(namespace)

    def read_state_row(self, row: bytes) -> StateRow:
        key, at = self._read_key(row, _AFTER_KEY_GROUP)
        kind = row[at]
        if kind == _TIME_WINDOW:
            return StateRow(key, TimeWindow._make(_WINDOW.unpack_from(row, at + 1)), at + _TAGGED_WINDOW.size)
        if kind == _NO_WINDOW[0]:
            return StateRow(key, None, at + 1)
        if kind == _GLOBAL_WINDOW[0]:
            return StateRow(key, GLOBAL_WINDOW, at + 1)
        return StateRow(key, *self._windows.read(row, at + 1))

    def timer_row(self, timestamp: int, key: Any, namespace: Any) -> bytes:
        prefix = _KEY_GROUPS[self._key_group_of(key)] + ordered_long(timestamp) + self._serialize_key(key)
        if type(namespace) is TimeWindow:
            return prefix + _WINDOW.pack(*namespace)
        if namespace is None:
            return prefix
        if namespace is GLOBAL_WINDOW:
            return prefix + b"\x00"
        plain = self._windows.dumps(namespace).ljust(_PADDED_LENGTH, b"\x00")
        return b"".join([prefix, serialize(namespace), plain, _LENGTH.pack(len(plain))])

    def read_timer_row(self, row: bytes) -> tuple[int, Any, Any]:
        timestamp = read_ordered_long(row, _AFTER_KEY_GROUP)
        key, at = self._read_key(row, _AFTER_KEY_GROUP + 8)
        length = len(row) - at
        if length == _WINDOW.size:
            return timestamp, key, TimeWindow._make(_WINDOW.unpack_from(row, at))
        if length <= 1:
            return timestamp, key, GLOBAL_WINDOW if length else None
        plain = len(row) - _LENGTH.size - int(_LENGTH.unpack_from(row, len(row) - _LENGTH.size)[0])
        return timestamp, key, self._windows.read(row, plain)[0]


def timer_timestamp(row: bytes) -> int:
    return read_ordered_long(row, _AFTER_KEY_GROUP)


def key_group_start(key_group: int) -> bytes:
    """Where a key group's rows begin, and the previous group's rows end."""
    return key_group.to_bytes(_AFTER_KEY_GROUP, "big")


def end_of(prefix: bytes) -> bytes:
    """The least bytes above everything that begins with `prefix`, which must not consist of ff alone."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,))


_KEY_GROUPS = [key_group_start(key_group) for key_group in range(MAX_KEY_GROUPS)]


def key_reader(key_type: KeyType) -> ReadKey:
    """(bytes, at) → (the key at `at`, where it ends). KeyTypeError for a type that is not ours."""
    if isinstance(key_type, TupleKey):
        return _tuple_reader([key_reader(field) for field in key_type.fields])
    if key_type.name not in _READERS:
        raise KeyTypeError(
            f"Keys of type {key_type.name!r} cannot be read back from RocksDB; there are "
            f"{', '.join(_READERS)} and tuples."
        )
    return _READERS[key_type.name]


def _integer_reader(size: int) -> ReadKey:
    return lambda data, at: (int.from_bytes(data[at : at + size], "big", signed=True), at + size)


def _tuple_reader(fields: list[ReadKey]) -> ReadKey:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        values = []
        for field in fields:
            value, at = field(data, at)
            values.append(value)
        return tuple(values), at

    return read


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    units, start = data[at] - 1, at + 1
    if units < 127:
        text = data[start : start + units]
        if text.isascii():
            return text.decode("ascii"), start + units
    count, at = _read_number(data, at)
    utf16 = bytearray()
    for _ in range(count - 1):
        unit, at = _read_number(data, at)
        utf16 += unit.to_bytes(2, "big")
    return utf16.decode("utf-16-be", "surrogatepass"), at


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """A base-128 number, low digit first."""
    number = shift = 0
    while data[at] >= 0x80:
        number |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
    return number | data[at] << shift, at + 1


_READERS: dict[str, ReadKey] = {
    "byte": _integer_reader(1),
    "short": _integer_reader(2),
    "int": _integer_reader(4),
    "long": _integer_reader(8),
    "string": _read_string,
    "bool": lambda data, at: (data[at] == 1, at + 1),
    "double": lambda data, at: (_DOUBLE.unpack_from(data, at)[0], at + 8),
    "date": lambda data, at: (date(*_DATE.unpack_from(data, at)), at + _DATE.size),
}
