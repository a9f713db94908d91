"""State in memory: one dictionary per state (Flink: HeapKeyedStateBackend); see `states` for the kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from slackwater.windowing.errors import StateAccessError
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.state.backend import InternalState, StateEntry
from slackwater.windowing.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from slackwater.windowing.state.heap.states import (
    HeapAggregatingState,
    HeapListState,
    HeapMapState,
    HeapReducingState,
    HeapValueState,
    RestoredState,
)
from slackwater.windowing.state.journal import UndoJournal


class HeapStateBackend:
    """A StateBackend in memory. `key_group_of` is e.g. a KeyGroupIndex's `__getitem__`; `order_mode` decides
    the argument order of merges; `journal` is where to note how to undo each change, None for none.
    """

    def __init__(
        self, key_group_of: Callable[[Any], int], order_mode: OrderMode, journal: UndoJournal | None = None
    ) -> None:
        self._key_group_of = key_group_of
        self._merges_target_first = order_mode.merges_target_first
        self._journal = journal
        self._states: dict[str, Any] = {}

    def state(self, descriptor: StateDescriptor) -> Any:
        state = self._states.get(descriptor.name)
        if state is not None and state.kind != descriptor.kind:
            raise StateAccessError(
                f"State {descriptor.name!r} is {state.kind} state already and cannot be {descriptor.kind} "
                "state too; rename one."
            )
        if state is None or type(state) is RestoredState:
            new_state = self._make_state(descriptor)
            if state is not None:
                new_state.rows = state.rows
            self._states[descriptor.name] = state = new_state
        return state

    def states(self) -> Iterator[InternalState]:
        return iter(self._states.values())

    def entries(self, key_groups: KeyGroupRange | None = None) -> Iterator[StateEntry]:
        # By position: a snapshot may have millions of entries, and keywords cost half as much again.
        for name, state in self._states.items():
            for namespace, rows in state.rows.items():
                for key, value in rows.items():
                    key_group = self._key_group_of(key)
                    if key_groups is None or key_group in key_groups:
                        yield StateEntry(name, state.kind, key_group, key, namespace, value)

    def restore(self, entries: Iterable[StateEntry]) -> None:
        for entry in entries:
            state = self._states.get(entry.state_name)
            if state is None:
                state = self._states[entry.state_name] = RestoredState(entry.state_name, entry.kind)
            if entry.kind != "list":
                state.put_raw(entry.key, entry.namespace, entry.value)
            elif state.contains(entry.key, entry.namespace):
                state.get_raw(entry.key, entry.namespace).extend(entry.value)
            else:
                state.put_raw(entry.key, entry.namespace, list(entry.value))

    def close(self) -> None:
        self._states.clear()

    def _make_state(self, descriptor: StateDescriptor) -> Any:
        match descriptor:
            case ValueStateDescriptor():
                return HeapValueState(descriptor, self._journal)
            case ListStateDescriptor():
                return HeapListState(descriptor, self._journal)
            case MapStateDescriptor():
                return HeapMapState(descriptor, self._journal)
            case ReducingStateDescriptor():
                return HeapReducingState(descriptor, self._journal, self._merges_target_first)
            case AggregatingStateDescriptor():
                return HeapAggregatingState(descriptor, self._journal, self._merges_target_first)
            case _:
                raise StateAccessError(f"{descriptor!r} is none of the five kinds of state.")
