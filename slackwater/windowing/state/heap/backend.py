"""State in memory: one dictionary per state (Flink: HeapKeyedStateBackend); see `states` for the kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.state.backend import StateBackend, StateEntry, UndoJournal
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.state.heap.states import (
    HeapAggregatingState,
    HeapListState,
    HeapMapState,
    HeapReducingState,
    HeapState,
    HeapValueState,
)


class HeapStateBackend(StateBackend):
    """A StateBackend in memory. `key_group_of` is e.g. a KeyGroupIndex's `__getitem__`; `order_mode` decides
    the argument order of merges; `journal` is where to note how to undo each change, None for none.
    """

    kinds: ClassVar = {
        "": HeapState,
        "value": HeapValueState,
        "list": HeapListState,
        "map": HeapMapState,
        "reducing": HeapReducingState,
        "aggregating": HeapAggregatingState,
    }

    def __init__(
        self, key_group_of: Callable[[Any], int], order_mode: OrderMode, journal: UndoJournal | None = None
    ) -> None:
        super().__init__(order_mode, journal)
        self._key_group_of = key_group_of

    def entries(self, key_groups: KeyGroupRange | None = None) -> Iterator[StateEntry]:
        # By position: a snapshot may have millions of entries, and keywords cost half as much again.
        for name, state in self._states.items():
            for namespace, rows in state.rows.items():
                for key, value in rows.items():
                    key_group = self._key_group_of(key)
                    if key_groups is None or key_group in key_groups:
                        yield StateEntry(name, state.kind, key_group, key, namespace, value)

    def _make_state(self, make: Any, descriptor: StateDescriptor, restored_state: Any) -> Any:
        state = make(descriptor, self._merges_target_first, self._journal)
        if restored_state is not None:
            state.rows = restored_state.rows
        return state
