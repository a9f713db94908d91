"""Handles of state in memory that read and write the dictionaries themselves: a function that asks for the
value or map of its key for every element makes one call, not one through each layer.
"""

from __future__ import annotations

import copy
from typing import Any

from slackwater.windowing.state.handles import KeyContext, MapState, ValueState


class HeapValueHandle(ValueState):
    """The value of the current key. `state` is a HeapState, whose `rows` and `journal` it shares."""

    __slots__ = ("_rows",)

    def __init__(self, state: Any, keys: KeyContext, namespace: Any) -> None:
        super().__init__(state, keys, namespace)
        self._rows = state.rows

    def value(self) -> Any:
        rows = self._rows.get(self._namespace)
        value = None if rows is None else rows.get(self._keys.current_key)
        if value is None:
            return self._state.descriptor.default
        return value if self._state.journal is None else copy.deepcopy(value)

    def update(self, value: Any) -> None:
        if value is None:
            self.clear()
        else:
            self._state.put_raw(self._keys.current_key, self._namespace, value)


class HeapMapHandle(MapState):
    """The map of the current key, a dictionary; an empty one is no entry."""

    __slots__ = ("_journal", "_rows")

    def __init__(self, state: Any, keys: KeyContext, namespace: Any) -> None:
        super().__init__(state, keys, namespace)
        self._rows, self._journal = state.rows, state.journal

    def get(self, map_key: Any) -> Any:
        rows = self._rows.get(self._namespace)
        entries = None if rows is None else rows.get(self._keys.current_key)
        if entries is None:
            return None
        value = entries.get(map_key)
        return value if self._journal is None else copy.deepcopy(value)

    def put(self, map_key: Any, value: Any) -> None:
        key, rows = self._keys.current_key, self._rows.get(self._namespace)
        entries = None if rows is None else rows.get(key)
        if entries is None:
            self._state.put_raw(key, self._namespace, {map_key: value})
            return
        if self._journal is not None:
            if map_key in entries:
                self._journal.note(entries.__setitem__, map_key, entries[map_key])
            else:
                self._journal.note(entries.pop, map_key)
        entries[map_key] = value

    def remove(self, map_key: Any) -> None:
        key, rows = self._keys.current_key, self._rows.get(self._namespace)
        entries = None if rows is None else rows.get(key)
        if entries is None or map_key not in entries:
            return
        if len(entries) == 1:
            self.clear()
            return
        if self._journal is not None:  # an undo must give the entry its old place in the order
            entries = dict(entries)
            self._state.put_raw(key, self._namespace, entries)
        del entries[map_key]

    def contains(self, map_key: Any) -> bool:
        return map_key in (self._state.get_raw(self._keys.current_key, self._namespace) or ())
