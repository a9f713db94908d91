"""The five kinds of state in dictionaries, namespace → key → value, uncopied; a journal can undo changes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from slackwater.windowing.folds import BulkAggregateFunction
from slackwater.windowing.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from slackwater.windowing.state.journal import UndoJournal

_ABSENT: Final = object()


class _HeapState:
    """Entries of one named state. `rows` is namespace → key → value, without empty inner dictionaries."""

    def __init__(self, descriptor: StateDescriptor, journal: UndoJournal | None) -> None:
        self.descriptor: Any = descriptor
        self.kind = descriptor.kind
        self.rows: dict[Any, dict[Any, Any]] = {}
        self._journal = journal

    def get_raw(self, key: Any, namespace: Any) -> Any:
        rows = self.rows.get(namespace)
        return None if rows is None else rows.get(key)

    def contains(self, key: Any, namespace: Any) -> bool:
        return key in self.rows.get(namespace, ())

    def put_raw(self, key: Any, namespace: Any, value: Any) -> None:
        """Store a value unchecked, None included."""
        rows = self.rows.get(namespace)
        if self._journal is not None:
            self._note_undo(key, namespace, _ABSENT if rows is None else rows.get(key, _ABSENT))
        if rows is None:
            self.rows[namespace] = {key: value}
        else:
            rows[key] = value

    def remove(self, key: Any, namespace: Any) -> Any:
        rows = self.rows.get(namespace)
        if rows is None:
            return None
        value = rows.pop(key, _ABSENT)
        if not rows:
            del self.rows[namespace]
        if value is _ABSENT:
            return None
        if self._journal is not None:
            self._note_undo(key, namespace, value)
        return value

    clear = remove

    def __len__(self) -> int:
        return sum(map(len, self.rows.values()))

    def _copy_if_journaled(self, value: Any) -> Any:
        """A value that may be changed in place: a copy if a journal may have to restore the old one."""
        return value if self._journal is None else copy.deepcopy(value)

    def _note_undo(self, key: Any, namespace: Any, old: Any) -> None:
        assert self._journal is not None
        if old is _ABSENT:
            self._journal.note(self.remove, key, namespace)
        else:
            self._journal.note(self.put_raw, key, namespace, old)


class HeapValueState(_HeapState):
    descriptor: ValueStateDescriptor

    def value(self, key: Any, namespace: Any) -> Any:
        value = self.get_raw(key, namespace)
        return self.descriptor.default if value is None else self._copy_if_journaled(value)

    def update(self, key: Any, namespace: Any, value: Any) -> None:
        if value is None:
            self.clear(key, namespace)
        else:
            self.put_raw(key, namespace, value)


class HeapListState(_HeapState):
    descriptor: ListStateDescriptor

    get = _HeapState.get_raw

    def add(self, key: Any, namespace: Any, value: Any) -> bool:
        rows = self.rows.get(namespace)
        values = None if rows is None else rows.get(key)
        if values is None:
            self.put_raw(key, namespace, [value])
            return True
        if self._journal is not None:
            self._journal.note(values.__delitem__, slice(len(values), None))
        values.append(value)
        return False

    def add_all(self, key: Any, namespace: Any, values: Sequence[Any]) -> bool:
        rows = self.rows.get(namespace)
        elements = None if rows is None else rows.get(key)
        if elements is None:
            self.put_raw(key, namespace, list(values))
            return True
        if self._journal is not None:
            self._journal.note(elements.__delitem__, slice(len(elements), None))
        elements.extend(values)
        return False

    def update(self, key: Any, namespace: Any, values: list[Any]) -> None:
        if values:
            self.put_raw(key, namespace, values)
        else:
            self.clear(key, namespace)

    def merge_namespaces(self, key: Any, target: Any, sources: Iterable[Any]) -> None:
        merged_elements: list[Any] = []
        for source in sources:
            merged_elements += self.remove(key, source) or ()
        if merged_elements:
            self.put_raw(key, target, [*(self.get_raw(key, target) or ()), *merged_elements])


class HeapMapState(_HeapState):
    descriptor: MapStateDescriptor

    def get_entry(self, key: Any, namespace: Any, map_key: Any, default: Any = None) -> Any:
        rows = self.rows.get(namespace)
        entries = None if rows is None else rows.get(key)
        if entries is None or map_key not in entries:
            return default
        value = entries[map_key]
        return value if self._journal is None else copy.deepcopy(value)

    def put_entry(self, key: Any, namespace: Any, map_key: Any, value: Any) -> None:
        rows = self.rows.get(namespace)
        entries = None if rows is None else rows.get(key)
        if entries is None:
            self.put_raw(key, namespace, {map_key: value})
            return
        if self._journal is not None:
            if map_key in entries:
                self._journal.note(entries.__setitem__, map_key, entries[map_key])
            else:
                self._journal.note(entries.pop, map_key)
        entries[map_key] = value

    def remove_entry(self, key: Any, namespace: Any, map_key: Any) -> None:
        entries = self.get_raw(key, namespace)
        if entries is None or map_key not in entries:
            return
        if len(entries) == 1:
            self.clear(key, namespace)
            return
        if self._journal is not None:  # an undo must give the entry its old place in the order
            entries = dict(entries)
            self.put_raw(key, namespace, entries)
        del entries[map_key]

    def items(self, key: Any, namespace: Any) -> Iterable[tuple[Any, Any]]:
        entries: dict[Any, Any] = self._copy_if_journaled(self.get_raw(key, namespace) or {})
        return entries.items()


class _HeapMergingState(_HeapState):
    def __init__(
        self, descriptor: StateDescriptor, journal: UndoJournal | None, merges_target_first: bool
    ) -> None:
        super().__init__(descriptor, journal)
        self._merges_target_first = merges_target_first
        self._merge: Callable[[Any, Any], Any] = lambda a, b: b

    def merge_namespaces(self, key: Any, target: Any, sources: Iterable[Any]) -> None:
        merged_value: Any = None
        for source in sources:
            if self.contains(key, source):
                value = self._copy_if_journaled(self.remove(key, source))
                # Flink's RocksDB state hands a stored None to the function; its heap state skips it.
                if merged_value is None:
                    merged_value = value
                elif value is not None or not self._merges_target_first:
                    merged_value = self._merge(merged_value, value)
        if merged_value is None:
            return
        if self.contains(key, target):
            value = self._copy_if_journaled(self.get_raw(key, target))
            if not self._merges_target_first:
                merged_value = self._merge(merged_value, value)
            elif value is not None:
                merged_value = self._merge(value, merged_value)
        self.put_raw(key, target, merged_value)


class HeapReducingState(_HeapMergingState):
    descriptor: ReducingStateDescriptor

    def __init__(
        self, descriptor: ReducingStateDescriptor, journal: UndoJournal | None, merges_target_first: bool
    ) -> None:
        super().__init__(descriptor, journal, merges_target_first)
        self._merge = descriptor.reduce

    get = _HeapState.get_raw

    def add(self, key: Any, namespace: Any, value: Any) -> bool:
        if value is None:
            self.clear(key, namespace)
            return True
        rows = self.rows.get(namespace)
        old = None if rows is None else rows.get(key)
        if rows is None or old is None:
            self.put_raw(key, namespace, value)
            return True
        if self._journal is None:
            rows[key] = self._merge(old, value)
        else:
            self.put_raw(key, namespace, self._merge(copy.deepcopy(old), value))
        return False


class HeapAggregatingState(_HeapMergingState):
    """Flink: HeapAggregatingState. Accumulators may be changed in place by the aggregate."""

    descriptor: AggregatingStateDescriptor

    def __init__(
        self, descriptor: AggregatingStateDescriptor, journal: UndoJournal | None, merges_target_first: bool
    ) -> None:
        super().__init__(descriptor, journal, merges_target_first)
        self._merge = descriptor.aggregate.merge
        self._create = descriptor.aggregate.create_accumulator
        self._add = descriptor.aggregate.add
        self._result = descriptor.aggregate.get_result

    def get(self, key: Any, namespace: Any) -> Any:
        accumulator = self.get_raw(key, namespace)
        return None if accumulator is None else self._result(accumulator)

    def add(self, key: Any, namespace: Any, value: Any) -> bool:
        if value is None:
            self.clear(key, namespace)
            return True
        rows = self.rows.get(namespace)
        accumulator = None if rows is None else rows.get(key)
        if rows is None or accumulator is None:
            accumulator = self._add(value, self._create())
            if rows is None or self._journal is not None:
                self.put_raw(key, namespace, accumulator)
            else:
                rows[key] = accumulator
            return True
        if self._journal is None:
            rows[key] = self._add(value, accumulator)
        else:
            self.put_raw(key, namespace, self._add(value, copy.deepcopy(accumulator)))
        return False

    def add_all(self, key: Any, namespace: Any, values: Sequence[Any]) -> bool:
        aggregate = self.descriptor.aggregate
        assert isinstance(aggregate, BulkAggregateFunction)
        rows = self.rows.get(namespace)
        accumulator = None if rows is None else rows.get(key)
        is_new = accumulator is None
        accumulator = (
            aggregate.accumulator_of(values)
            if is_new
            else aggregate.add_all(values, self._copy_if_journaled(accumulator))
        )
        if rows is None or self._journal is not None:
            self.put_raw(key, namespace, accumulator)
        else:
            rows[key] = accumulator
        return is_new


class RestoredState(_HeapState):
    """Entries of a snapshot, until the state is requested by its descriptor."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(StateDescriptor(name), None)
        self.kind = kind
