"""The kinds of state in RocksDB that may be several rows for each key and namespace: lists and maps.

A change rewrites one row, or for a long list two, however large the collection is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from slackwater.windowing.state.descriptors import ListStateDescriptor, MapStateDescriptor
from slackwater.windowing.state.rocksdb.map_keys import identity
from slackwater.windowing.state.rocksdb.rows import end_of
from slackwater.windowing.state.rocksdb.states import RocksDBState, key_group_of_row

_CHUNK_BYTES: Final = 4096
_NUMBER_BYTES: Final = 4
_FIRST_CHUNK: Final = bytes(_NUMBER_BYTES)
_ORDINAL_BYTES: Final = 8
_SAME_KEY: Final = b"\x00"


class RocksDBListState(RocksDBState):
    """Flink: RocksDBListState. A list is one row with its last elements, and a row for each full chunk
    before.

        row            → number of full chunks (4 bytes), last elements
        row, 0         → elements of the first full chunk
        row, 1         → elements of the second …

    So an element is added by rewriting a few kilobytes at most, however long the list.
    """

    descriptor: ListStateDescriptor

    def get_raw(self, key: Any, namespace: Any) -> list[Any] | None:
        row = self._row(key, namespace)
        tail = self.rows.get(row)
        return None if tail is None else self.values.read_all(self._element_bytes(row, tail))

    get = get_raw

    def put_raw(self, key: Any, namespace: Any, value: list[Any]) -> None:
        row = self._row(key, namespace)
        self._delete_list(row)
        self._append(row, None, b"".join(map(self.values.dumps, value)))

    def clear(self, key: Any, namespace: Any) -> None:
        self._delete_list(self._row(key, namespace))

    def entries(self, start: bytes, end: bytes) -> Iterator[tuple[int, Any, Any, Any]]:
        for row, value_bytes in self.rows.scan(start, end):
            key, namespace, namespace_end = self._layout.read_state_row(row)
            if namespace_end == len(row):
                yield (
                    key_group_of_row(row),
                    key,
                    namespace,
                    self.values.read_all(self._element_bytes(row, value_bytes)),
                )

    def add(self, key: Any, namespace: Any, value: Any) -> bool:
        row = self._row(key, namespace)
        tail = self.rows.get(row)
        self._append(row, tail, self.values.dumps(value))
        return tail is None

    def add_all(self, key: Any, namespace: Any, values: Sequence[Any]) -> bool:
        is_new = self.add(key, namespace, values[0])
        for value in values[1:]:
            self.add(key, namespace, value)
        return is_new

    def update(self, key: Any, namespace: Any, values: list[Any]) -> None:
        if values:
            self.put_raw(key, namespace, values)
        else:
            self.clear(key, namespace)

    def merge_namespaces(self, key: Any, target: Any, sources: Iterable[Any]) -> None:
        merged_elements = b"".join([self._delete_list(self._row(key, source)) for source in sources])
        if merged_elements:
            row = self._row(key, target)
            self._append(row, self.rows.get(row), merged_elements)

    def _append(self, row: bytes, tail: bytes | None, elements: bytes) -> None:
        if tail is None:
            self._write(row, _FIRST_CHUNK + elements)
        elif len(tail) + len(elements) <= _CHUNK_BYTES:
            self._write(row, tail + elements)
        else:
            self._write(row + tail[:_NUMBER_BYTES], tail[_NUMBER_BYTES:])
            self._write(row, _chunk_number(_chunk_count(tail) + 1) + elements)

    def _element_bytes(self, row: bytes, tail: bytes) -> bytes:
        """The bytes of all elements of the list whose row holds `tail`."""
        chunks = [self.rows.get(row + _chunk_number(number)) or b"" for number in range(_chunk_count(tail))]
        return b"".join([*chunks, tail[_NUMBER_BYTES:]])

    def _delete_list(self, row: bytes) -> bytes:
        """Remove all rows of a list, and return its elements' bytes."""
        tail = self.rows.get(row)
        if tail is None:
            return b""
        elements = self._element_bytes(row, tail)
        for number in range(_chunk_count(tail)):
            self._delete(row + _chunk_number(number))
        self._delete(row)
        return elements


class RocksDBMapState(RocksDBState):
    """Flink: RocksDBMapState. A row for each entry: the ordinal of its insertion (8 bytes), its key (or 00
    where the row's own key has it), its value.

    Unlike Flink's, it iterates in order of insertion, as the heap's does, so that results do not depend on
    where state lives.
    """

    descriptor: MapStateDescriptor

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
        """Keys and values of one map's rows, in order of insertion."""
        for row, value_bytes in sorted(rows, key=lambda entry: entry[1][:_ORDINAL_BYTES]):
            map_key, at = self._map_keys.read(value_bytes, _ORDINAL_BYTES)
            if map_key is None:
                map_key = self._map_keys.read(row, prefix)[0]
            yield map_key, self.values.read(value_bytes, at)[0]

    def _value_position(self, value_bytes: bytes) -> int:
        if value_bytes[_ORDINAL_BYTES : _ORDINAL_BYTES + 1] == _SAME_KEY:
            return _ORDINAL_BYTES + 1
        return self._map_keys.read(value_bytes, _ORDINAL_BYTES)[1]


def _chunk_count(tail: bytes) -> int:
    return int.from_bytes(tail[:_NUMBER_BYTES], "big")


def _chunk_number(number: int) -> bytes:
    return number.to_bytes(_NUMBER_BYTES, "big")
