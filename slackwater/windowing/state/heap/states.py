"""The five kinds of state in dictionaries, namespace → key → value, uncopied; a journal can undo changes."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Final

from slackwater.windowing.state.backend import (
    InternalAggregatingState,
    InternalListState,
    InternalReducingState,
    InternalState,
    InternalValueState,
    UndoJournal,
)
from slackwater.windowing.state.descriptors import StateDescriptor

_ABSENT: Final = object()


class HeapState(InternalState):
    """`rows` is namespace → key → value, without empty inner dictionaries."""

    def __init__(
        self, descriptor: StateDescriptor, merges_target_first: bool, journal: UndoJournal | None = None
    ) -> None:
        super().__init__(descriptor, merges_target_first)
        self.rows: dict[Any, dict[Any, Any]] = {}
        self._journal = journal

    def get_raw(self, key: Any, namespace: Any) -> Any:
        rows = self.rows.get(namespace)
        return None if rows is None else rows.get(key)

    def get_own(self, key: Any, namespace: Any) -> Any:
        """A copy, if a journal may have to restore the old value."""
        value = self.get_raw(key, namespace)
        return value if self._journal is None else copy.deepcopy(value)

    def contains(self, key: Any, namespace: Any) -> bool:
        return key in self.rows.get(namespace, ())

    def put_raw(self, key: Any, namespace: Any, value: Any) -> None:
        rows = self.rows.get(namespace)
        if self._journal is not None:
            self._note_undo(key, namespace, _ABSENT if rows is None else rows.get(key, _ABSENT))
        if rows is None:
            self.rows[namespace] = {key: value}
        else:
            rows[key] = value

    def clear(self, key: Any, namespace: Any) -> None:
        rows = self.rows.get(namespace)
        if rows is None:
            return
        value = rows.pop(key, _ABSENT)
        if not rows:
            del self.rows[namespace]
        if value is not _ABSENT and self._journal is not None:
            self._note_undo(key, namespace, value)

    def __len__(self) -> int:
        return sum(map(len, self.rows.values()))

    def _note_undo(self, key: Any, namespace: Any, old: Any) -> None:
        assert self._journal is not None
        if old is _ABSENT:
            self._journal.note(self.clear, key, namespace)
        else:
            self._journal.note(self.put_raw, key, namespace, old)


class HeapValueState(HeapState, InternalValueState):
    pass


class HeapListState(HeapState, InternalListState):
    get = HeapState.get_raw

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

    def merge_namespaces(self, key: Any, target: Any, sources: Iterable[Any]) -> None:
        merged_elements: list[Any] = []
        for source in sources:
            merged_elements += self.get_raw(key, source) or ()
            self.clear(key, source)
        if merged_elements:
            self.put_raw(key, target, [*(self.get_raw(key, target) or ()), *merged_elements])


class HeapMapState(HeapState):
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
        entries: dict[Any, Any] = self.get_own(key, namespace) or {}
        return entries.items()


class HeapReducingState(HeapState, InternalReducingState):
    get = HeapState.get_raw

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


class HeapAggregatingState(HeapState, InternalAggregatingState):
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
