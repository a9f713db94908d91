"""The five kinds of state in RocksDB: a row for each key and namespace, or several for a long list or a map.

Values are kept as bytes, so each read gives a fresh copy. With a journal each change notes how to undo it.
The keys of rows are laid out in `state.rocksdb.rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from slackwater.windowing.folds import BulkAggregateFunction
from slackwater.windowing.key_groups import MAX_KEY_GROUPS
from slackwater.windowing.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from slackwater.windowing.state.journal import UndoJournal
from slackwater.windowing.state.rocksdb.database import ColumnFamily
from slackwater.windowing.state.rocksdb.map_keys import identity
from slackwater.windowing.state.rocksdb.rows import RowLayout, end_of, key_group_start
from slackwater.windowing.state.rocksdb.serializers import PlainSerializer

_CHUNK_BYTES: Final = 4096
_NUMBER_BYTES: Final = 4
_FIRST_CHUNK: Final = bytes(_NUMBER_BYTES)
_ORDINAL_BYTES: Final = 8
_SAME_KEY: Final = b"\x00"


class Storage(NamedTuple):
    """The rows and serializers of one state. Restored entries hand them to the state of their descriptor.

    Attributes:
        rows: the state's column family.
        values, map_keys: their serializers.
        ordinals: numbers the entries of maps in order of insertion.
    """

    rows: ColumnFamily
    values: PlainSerializer
    map_keys: PlainSerializer
    ordinals: Iterator[int]


class RocksDBState:
    """Rows of one named state. Of this class itself are restored entries, until `state` is called with their
    descriptor.
    """

    def __init__(
        self,
        descriptor: StateDescriptor,
        kind: str,
        storage: Storage,
        layout: RowLayout,
        journal: UndoJournal | None,
    ) -> None:
        self.descriptor: Any = descriptor
        self.kind = kind
        self.storage = storage
        self.rows, self.values = storage.rows, storage.values
        self._layout, self._row = layout, layout.state_row
        self._journal = journal

    def get_raw(self, key: Any, namespace: Any) -> Any:
        """The stored value, None when there is no entry."""
        value_bytes = self.rows.get(self._row(key, namespace))
        return None if value_bytes is None else self.values.loads(value_bytes)

    def contains(self, key: Any, namespace: Any) -> bool:
        return self.rows.get(self._row(key, namespace)) is not None

    def put_raw(self, key: Any, namespace: Any, value: Any) -> None:
        """Store a value, None included."""
        self._write(self._row(key, namespace), self.values.dumps(value))

    def clear(self, key: Any, namespace: Any) -> None:
        self._delete(self._row(key, namespace))

    def remove(self, key: Any, namespace: Any) -> Any:
        """Remove the entry and return its value; None when there was none."""
        row = self._row(key, namespace)
        value_bytes = self.rows.get(row)
        if value_bytes is None:
            return None
        self._delete(row)
        return self.values.loads(value_bytes)

    def __len__(self) -> int:
        return sum(1 for _ in self.entries(*ALL_KEY_GROUPS))

    def entries(self, start: bytes, end: bytes) -> Iterator[tuple[int, Any, Any, Any]]:
        """(key group, key, namespace, value) of every entry whose row is in [start, end)."""
        for row, value_bytes in self.rows.scan(start, end):
            key, namespace, _ = self._layout.read_state_row(row)
            yield _key_group(row), key, namespace, self.values.loads(value_bytes)

    def _write(self, row: bytes, value_bytes: bytes) -> None:
        if self._journal is not None:
            self._remember(row)
        self.rows.put(row, value_bytes)

    def _delete(self, row: bytes) -> None:
        if self._journal is not None:
            self._remember(row)
        self.rows.delete(row)

    def _remember(self, row: bytes) -> None:
        assert self._journal is not None
        old = self.rows.get(row)
        if old is None:
            self._journal.note(self.rows.delete, row)
        else:
            self._journal.note(self.rows.put, row, old)


class RocksDBValueState(RocksDBState):
    """Flink: RocksDBValueState."""

    descriptor: ValueStateDescriptor

    def value(self, key: Any, namespace: Any) -> Any:
        value = self.get_raw(key, namespace)
        return self.descriptor.default if value is None else value

    def update(self, key: Any, namespace: Any, value: Any) -> None:
        if value is None:
            self.clear(key, namespace)
        else:
            self.put_raw(key, namespace, value)


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
        return None if tail is None else self.values.read_all(self._elements(row, tail))

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
                yield _key_group(row), key, namespace, self.values.read_all(self._elements(row, value_bytes))

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

    def _elements(self, row: bytes, tail: bytes) -> bytes:
        """The bytes of all elements of the list whose row holds `tail`."""
        chunks = [self.rows.get(row + _chunk_number(number)) or b"" for number in range(_chunk_count(tail))]
        return b"".join([*chunks, tail[_NUMBER_BYTES:]])

    def _delete_list(self, row: bytes) -> bytes:
        """Remove all rows of a list, and return its elements' bytes."""
        tail = self.rows.get(row)
        if tail is None:
            return b""
        elements = self._elements(row, tail)
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
                    yield *owner, dict(self._in_order(len(prefix), map_rows))
                prefix, owner, map_rows = row[:namespace_end], (_key_group(row), key, namespace), []
            map_rows.append((row, value_bytes))
        if map_rows:
            yield *owner, dict(self._in_order(len(prefix), map_rows))

    def get_entry(self, key: Any, namespace: Any, map_key: Any, default: Any = None) -> Any:
        value_bytes = self.rows.get(self._row(key, namespace) + self._map_keys.dumps(identity(map_key)))
        return (
            default if value_bytes is None else self.values.read(value_bytes, self._value_at(value_bytes))[0]
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
            head = value_bytes[: self._value_at(value_bytes)]
        self._write(row, head + self.values.dumps(value))

    def remove_entry(self, key: Any, namespace: Any, map_key: Any) -> None:
        self._delete(self._row(key, namespace) + self._map_keys.dumps(identity(map_key)))

    def items(self, key: Any, namespace: Any) -> Iterable[tuple[Any, Any]]:
        prefix = self._row(key, namespace)
        return self._in_order(len(prefix), self.rows.scan(prefix, end_of(prefix)))

    def _in_order(self, prefix: int, rows: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[Any, Any]]:
        """Keys and values of one map's rows, in order of insertion."""
        for row, value_bytes in sorted(rows, key=lambda entry: entry[1][:_ORDINAL_BYTES]):
            map_key, at = self._map_keys.read(value_bytes, _ORDINAL_BYTES)
            if map_key is None:
                map_key = self._map_keys.read(row, prefix)[0]
            yield map_key, self.values.read(value_bytes, at)[0]

    def _value_at(self, value_bytes: bytes) -> int:
        if value_bytes[_ORDINAL_BYTES : _ORDINAL_BYTES + 1] == _SAME_KEY:
            return _ORDINAL_BYTES + 1
        return self._map_keys.read(value_bytes, _ORDINAL_BYTES)[1]


class RocksDBMergingState(RocksDBState):
    """One folded value for each key and namespace."""

    def __init__(
        self,
        descriptor: StateDescriptor,
        kind: str,
        storage: Storage,
        layout: RowLayout,
        journal: UndoJournal | None,
        *,
        merges_target_first: bool,
    ) -> None:
        super().__init__(descriptor, kind, storage, layout, journal)
        self._merges_target_first = merges_target_first
        self._merge: Callable[[Any, Any], Any] = lambda a, b: b

    def merge_namespaces(self, key: Any, target: Any, sources: Iterable[Any]) -> None:
        merged_value: Any = None
        for source in sources:
            if self.contains(key, source):
                value = self.remove(key, source)
                # Flink's RocksDB state hands a stored None to the function; its heap state skips it.
                if merged_value is None:
                    merged_value = value
                elif value is not None or not self._merges_target_first:
                    merged_value = self._merge(merged_value, value)
        if merged_value is None:
            return
        if self.contains(key, target):
            value = self.get_raw(key, target)
            if not self._merges_target_first:
                merged_value = self._merge(merged_value, value)
            elif value is not None:
                merged_value = self._merge(value, merged_value)
        self.put_raw(key, target, merged_value)


class RocksDBReducingState(RocksDBMergingState):
    """Flink: RocksDBReducingState."""

    descriptor: ReducingStateDescriptor

    def __init__(self, *arguments: Any, merges_target_first: bool) -> None:
        super().__init__(*arguments, merges_target_first=merges_target_first)
        self._merge = self.descriptor.reduce

    get = RocksDBState.get_raw

    def add(self, key: Any, namespace: Any, value: Any) -> bool:
        if value is None:
            self.clear(key, namespace)
            return True
        row = self._row(key, namespace)
        value_bytes = self.rows.get(row)
        old = None if value_bytes is None else self.values.loads(value_bytes)
        self._write(row, self.values.dumps(value if old is None else self._merge(old, value)))
        return old is None


class RocksDBAggregatingState(RocksDBMergingState):
    """Flink: RocksDBAggregatingState."""

    descriptor: AggregatingStateDescriptor

    def __init__(self, *arguments: Any, merges_target_first: bool) -> None:
        super().__init__(*arguments, merges_target_first=merges_target_first)
        aggregate = self.descriptor.aggregate
        self._merge, self._create = aggregate.merge, aggregate.create_accumulator
        self._add, self._result = aggregate.add, aggregate.get_result

    def get(self, key: Any, namespace: Any) -> Any:
        accumulator = self.get_raw(key, namespace)
        return None if accumulator is None else self._result(accumulator)

    def add(self, key: Any, namespace: Any, value: Any) -> bool:
        if value is None:
            self.clear(key, namespace)
            return True
        row = self._row(key, namespace)
        value_bytes = self.rows.get(row)
        old = None if value_bytes is None else self.values.loads(value_bytes)
        self._write(row, self.values.dumps(self._add(value, self._create() if old is None else old)))
        return old is None

    def add_all(self, key: Any, namespace: Any, values: Sequence[Any]) -> bool:
        old, aggregate = self.get_raw(key, namespace), self.descriptor.aggregate
        assert isinstance(aggregate, BulkAggregateFunction)
        self.put_raw(key, namespace, aggregate.add_all(values, self._create() if old is None else old))
        return old is None


ALL_KEY_GROUPS: Final = (key_group_start(0), key_group_start(MAX_KEY_GROUPS))


def _key_group(row: bytes) -> int:
    return int.from_bytes(row[: len(key_group_start(0))], "big")


def _chunk_count(tail: bytes) -> int:
    return int.from_bytes(tail[:_NUMBER_BYTES], "big")


def _chunk_number(number: int) -> bytes:
    return number.to_bytes(_NUMBER_BYTES, "big")
