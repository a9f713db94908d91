"""State in RocksDB with one row per key and namespace: value, reducing and aggregating. Each read gives a
fresh copy; with a journal each change notes how to undo it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from slackwater.windowing.key_groups import MAX_KEY_GROUPS
from slackwater.windowing.state.backend import (
    InternalAggregatingState,
    InternalMergingState,
    InternalReducingState,
    InternalState,
    InternalValueState,
    UndoJournal,
)
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.state.rocksdb.database import ColumnFamily
from slackwater.windowing.state.rocksdb.rows import RowLayout, key_group_start
from slackwater.windowing.state.rocksdb.serializers import PlainSerializer


class Storage(NamedTuple):
    """The rows and serializers of one state; `ordinals` numbers maps' entries in order of insertion."""

    rows: ColumnFamily
    values: PlainSerializer
    map_keys: PlainSerializer
    ordinals: Iterator[int]


class RocksDBState(InternalState):
    """Rows of one named state; each read gives an object of its own."""

    def __init__(
        self,
        descriptor: StateDescriptor,
        merges_target_first: bool,
        storage: Storage,
        layout: RowLayout,
        journal: UndoJournal | None,
    ) -> None:
        super().__init__(descriptor, merges_target_first)
        self.storage = storage
        self.rows, self.values = storage.rows, storage.values
        self._layout, self._row = layout, layout.state_row
        self._journal = journal

    def get_raw(self, key: Any, namespace: Any) -> Any:
        value_bytes = self.rows.get(self._row(key, namespace))
        return None if value_bytes is None else self.values.loads(value_bytes)

    def get_own(self, key: Any, namespace: Any) -> Any:
        return self.get_raw(key, namespace)

    def contains(self, key: Any, namespace: Any) -> bool:
        return self.rows.get(self._row(key, namespace)) is not None

    def put_raw(self, key: Any, namespace: Any, value: Any) -> None:
        self._write(self._row(key, namespace), self.values.dumps(value))

    def clear(self, key: Any, namespace: Any) -> None:
        self._delete(self._row(key, namespace))

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


class RocksDBValueState(RocksDBState, InternalValueState):
    pass


class _RocksDBMergingState(RocksDBState, InternalMergingState):
    def add(self, key: Any, namespace: Any, value: Any) -> bool:
        if value is None:
            self.clear(key, namespace)
            return True
        row = self._row(key, namespace)
        value_bytes = self.rows.get(row)
        old = None if value_bytes is None else self.values.loads(value_bytes)
        self._write(row, self.values.dumps(self._fold(old, value)))
        return old is None


class RocksDBReducingState(_RocksDBMergingState, InternalReducingState):
    get = RocksDBState.get_raw


class RocksDBAggregatingState(_RocksDBMergingState, InternalAggregatingState):
    pass


ALL_KEY_GROUPS: Final = (key_group_start(0), key_group_start(MAX_KEY_GROUPS))


def key_group_of_row(row: bytes) -> int:
    return int.from_bytes(row[: len(key_group_start(0))], "big")
