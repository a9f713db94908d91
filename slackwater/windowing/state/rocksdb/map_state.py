"""Maps in RocksDB: a row for each entry, so that a change rewrites one row, however large the map is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from slackwater.windowing.state.rocksdb.rows import end_of
from slackwater.windowing.state.rocksdb.states import RocksDBState, key_group_of_row

_ORDINAL_BYTES: Final = 8
_SAME_KEY: Final = b"\x00"


class RocksDBMapState(RocksDBState):
    """Flink: RocksDBMapState. A row for each entry: the ordinal of its insertion (8 bytes), its key (or 00
    where the row's own key has it), its value. Unlike Flink's, it iterates in order of insertion, as the
    heap's does, so that results do not depend on where state lives.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._map_keys, self._ordinals = self.storage.map_keys, self.storage.ordinals

    def contains(self, key: Any, namespace: Any) -> bool:
        prefix = self._row(key, namespace)
        return bool(self.rows.first(prefix, end_of(prefix), 1))

    def put_raw(self, key: Any, namespace: Any, value: dict[Any, Any]) -> None:
        self.clear(key, namespace)
        for map_key, map_value in value.items():
            self.put_entry(key, namespace, map_key, map_value)

    def clear(self, key: Any, namespace: Any) -> None:
        prefix = self._row(key, namespace)
        for row, _ in self.rows.scan(prefix, end_of(prefix)):
            self._delete(row)

    def entries(self, start: bytes, end: bytes) -> Iterator[tuple[int, Any, Any, Any]]:
        prefix, owner = b"", (0, None, None)
        map_rows: list[tuple[bytes, bytes]] = []
        for row, value_bytes in self.rows.scan(start, end):
            key, namespace, namespace_end = self._layout.read_state_row(row)
            if row[:namespace_end] != prefix:
                if map_rows:
                    yield *owner, dict(self._entries_in_order(len(prefix), map_rows))
                prefix, owner, map_rows = row[:namespace_end], (key_group_of_row(row), key, namespace), []
            map_rows.append((row, value_bytes))
        if map_rows:
            yield *owner, dict(self._entries_in_order(len(prefix), map_rows))

    def get_entry(self, key: Any, namespace: Any, map_key: Any, default: Any = None) -> Any:
        value_bytes = self.rows.get(self._row(key, namespace) + self._map_keys.dumps(identity(map_key)))
        return (
            default
            if value_bytes is None
            else self.values.read(value_bytes, self._value_position(value_bytes))[0]
        )

    def put_entry(self, key: Any, namespace: Any, map_key: Any, value: Any) -> None:
        identity_bytes, key_bytes = self._map_keys.dumps(identity(map_key)), self._map_keys.dumps(map_key)
        row = self._row(key, namespace) + identity_bytes
        value_bytes = self.rows.get(row)
        if value_bytes is None:
            head = next(self._ordinals).to_bytes(_ORDINAL_BYTES, "big") + (
                _SAME_KEY if identity_bytes == key_bytes else key_bytes
            )
        else:  # as in a dictionary, the entry keeps its place and the key that it was inserted with
            head = value_bytes[: self._value_position(value_bytes)]
        self._write(row, head + self.values.dumps(value))

    def remove_entry(self, key: Any, namespace: Any, map_key: Any) -> None:
        self._delete(self._row(key, namespace) + self._map_keys.dumps(identity(map_key)))

    def items(self, key: Any, namespace: Any) -> Iterable[tuple[Any, Any]]:
        prefix = self._row(key, namespace)
        return self._entries_in_order(len(prefix), self.rows.scan(prefix, end_of(prefix)))

    def _entries_in_order(
        self, prefix: int, rows: Iterable[tuple[bytes, bytes]]
    ) -> Iterator[tuple[Any, Any]]:
        for row, value_bytes in sorted(rows, key=lambda entry: entry[1][:_ORDINAL_BYTES]):
            map_key, at = self._map_keys.read(value_bytes, _ORDINAL_BYTES)
            if map_key is None:
                map_key = self._map_keys.read(row, prefix)[0]
            yield map_key, self.values.read(value_bytes, at)[0]

    def _value_position(self, value_bytes: bytes) -> int:
        if value_bytes[_ORDINAL_BYTES : _ORDINAL_BYTES + 1] == _SAME_KEY:
            return _ORDINAL_BYTES + 1
        return self._map_keys.read(value_bytes, _ORDINAL_BYTES)[1]


def identity(value: Any) -> Any:
    """A plain value shared by all keys that a dictionary takes for one, such as 1, 1.0, True and Decimal(1).
    Raises TypeError for what cannot be a dictionary key.
    """
    kind = type(value)
    if kind is str or kind is int or kind is bytes or value is None:
        return value
    hash(value)
    if isinstance(value, tuple):
        return tuple(map(identity, value))
    if isinstance(value, (bool, float, Decimal)):
        return _canonical_number(value)
    if kind is datetime and value.tzinfo is not None and value.utcoffset() is not None:
        return value.astimezone(UTC)
    return value


def _canonical_number(value: bool | float | Decimal) -> Any:
    if value != value or value in (float("inf"), float("-inf")):
        return float(value)
    if value == int(value):
        return int(value)
    return float(value) if value == float(value) else value
