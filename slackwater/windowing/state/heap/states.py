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
    UndoJournal,
)
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.state.heap.handles import HeapMapHandle, HeapValueHandle

_ABSENT: Final = object()


class HeapState(InternalState):
    """`rows` is namespace → key → value, without empty inner dictionaries."""

    def __init__(
        self, descriptor: StateDescriptor, merges_target_first: bool, journal: UndoJournal | None = None
    ) -> None:
        super().__init__(descriptor, merges_target_first)
        self.rows: dict[Any, dict[Any, Any]] = {}
        self.journal = journal

    def get_raw(self, key: Any, namespace: Any) -> Any:
        rows = self.rows.get(namespace)
        return None if rows is None else rows.get(key)

    def get_own(self, key: Any, namespace: Any) -> Any:
        """A copy, if a journal may have to restore the old value."""
        value = self.get_raw(key, namespace)
        return value if self.journal is None else copy.deepcopy(value)

    def contains(self, key: Any, namespace: Any) -> bool:
        return key in self.rows.get(namespace, ())

    def put_raw(self, key: Any, namespace: Any, value: Any) -> None:
        rows = self.rows.get(namespace)
        if self.journal is not None:
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
        if value is not _ABSENT and self.journal is not None:
            self._note_undo(key, namespace, value)

    def __len__(self) -> int:
        return sum(map(len, self.rows.values()))

    def _note_undo(self, key: Any, namespace: Any, old: Any) -> None:
        assert self.journal is not None
        if old is _ABSENT:
            self.journal.note(self.clear, key, namespace)
        else:
            self.journal.note(self.put_raw, key, namespace, old)


class HeapValueState(HeapState):
    handle = HeapValueHandle


class HeapListState(HeapState, InternalListState):
    get = HeapState.get_raw

    def add(self, key: Any, namespace: Any, value: Any) -> bool:
        rows = self.rows.get(namespace)
        values = None if rows is None else rows.get(key)
        if values is None:
            self.put_raw(key, namespace, [value])
            return True
        if self.journal is not None:
            self.journal.note(values.__delitem__, slice(len(values), None))
        values.append(value)
        return False

    def add_all(self, key: Any, namespace: Any, values: Sequence[Any]) -> bool:
        rows = self.rows.get(namespace)
        elements = None if rows is None else rows.get(key)
        if elements is None:
            self.put_raw(key, namespace, list(values))
            return True
        if self.journal is not None:
            self.journal.note(elements.__delitem__, slice(len(elements), None))
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
    handle = HeapMapHandle

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
        if self.journal is None:
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
            if rows is None or self.journal is not None:
                self.put_raw(key, namespace, accumulator)
            else:
                rows[key] = accumulator
            return True
        if self.journal is None:
            rows[key] = self._add(value, accumulator)
        else:
            self.put_raw(key, namespace, self._add(value, copy.deepcopy(accumulator)))
        return False
