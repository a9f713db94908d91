"""State in RocksDB with one row per key and namespace: value, reducing and aggregating. Each read gives a
fresh copy; with a journal each change notes how to undo it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from slackwater.windowing.folds import BulkAggregateFunction
from slackwater.windowing.key_groups import MAX_KEY_GROUPS
from slackwater.windowing.state.descriptors import (
    AggregatingStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from slackwater.windowing.state.journal import UndoJournal
from slackwater.windowing.state.rocksdb.database import ColumnFamily
from slackwater.windowing.state.rocksdb.rows import RowLayout, key_group_start
from slackwater.windowing.state.rocksdb.serializers import PlainSerializer


class Storage(NamedTuple):
    """The rows and serializers of one state; `ordinals` numbers maps' entries in order of insertion."""

    rows: ColumnFamily
    values: PlainSerializer
    map_keys: PlainSerializer
    ordinals: Iterator[int]


class RocksDBState:
    """Rows of one named state; of this class itself while it is restored but has no descriptor yet."""

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
        value_bytes = self.rows.get(self._row(key, namespace))
        return None if value_bytes is None else self.values.loads(value_bytes)

    def contains(self, key: Any, namespace: Any) -> bool:
        return self.rows.get(self._row(key, namespace)) is not None

    def put_raw(self, key: Any, namespace: Any, value: Any) -> None:
        self._write(self._row(key, namespace), self.values.dumps(value))

    def clear(self, key: Any, namespace: Any) -> None:
        self._delete(self._row(key, namespace))

    def remove(self, key: Any, namespace: Any) -> Any:
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
            yield key_group_of_row(row), key, namespace, self.values.loads(value_bytes)

    def _write(self, row: bytes, value_bytes: bytes) -> None:
        if self._journal is not None:
            self._note_undo(row)
        self.rows.put(row, value_bytes)

    def _delete(self, row: bytes) -> None:
        if self._journal is not None:
            self._note_undo(row)
        self.rows.delete(row)

    def _note_undo(self, row: bytes) -> None:
        assert self._journal is not None
        old = self.rows.get(row)
        if old is None:
            self._journal.note(self.rows.delete, row)
        else:
            self._journal.note(self.rows.put, row, old)


class RocksDBValueState(RocksDBState):
    descriptor: ValueStateDescriptor

    def value(self, key: Any, namespace: Any) -> Any:
        value = self.get_raw(key, namespace)
        return self.descriptor.default if value is None else value

    def update(self, key: Any, namespace: Any, value: Any) -> None:
        if value is None:
            self.clear(key, namespace)
        else:
            self.put_raw(key, namespace, value)


class RocksDBMergingState(RocksDBState):
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


def key_group_of_row(row: bytes) -> int:
    return int.from_bytes(row[: len(key_group_start(0))], "big")
