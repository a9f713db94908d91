"""State in RocksDB, a column family per state (Flink: RocksDBKeyedStateBackend); `database` stores rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any

from slackwater.windowing.errors import StateAccessError
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.key_types import KeyType
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
from slackwater.windowing.state.journal import UndoJournal
from slackwater.windowing.state.rocksdb.database import RocksDBDatabase
from slackwater.windowing.state.rocksdb.list_state import RocksDBListState
from slackwater.windowing.state.rocksdb.map_state import RocksDBMapState
from slackwater.windowing.state.rocksdb.rows import RowLayout, key_group_start
from slackwater.windowing.state.rocksdb.serializers import PlainSerializer, value_serializer
from slackwater.windowing.state.rocksdb.states import (
    ALL_KEY_GROUPS,
    RocksDBAggregatingState,
    RocksDBReducingState,
    RocksDBState,
    RocksDBValueState,
    Storage,
)


class RocksDBStateBackend:
    """A StateBackend in RocksDB. Arguments as for HeapStateBackend, and an open `database`, which `close`
    closes; `pickles` allows pickling values and windows that are not plain; otherwise they are refused.
    """

    def __init__(
        self,
        database: RocksDBDatabase,
        key_type: KeyType,
        key_group_of: Callable[[Any], int],
        order_mode: OrderMode,
        *,
        journal: UndoJournal | None = None,
        pickles: bool = False,
    ) -> None:
        self._database, self._journal, self._pickles = database, journal, pickles
        self._layout = RowLayout(key_type, key_group_of, PlainSerializer("(its window)", pickles))
        self._merges_target_first = order_mode.merges_target_first
        self._states: dict[str, Any] = {}

    def state(self, descriptor: StateDescriptor) -> Any:
        state = self._states.get(descriptor.name)
        if state is not None and state.kind != descriptor.kind:
            raise StateAccessError(
                f"State {descriptor.name!r} is {state.kind} state already and cannot be {descriptor.kind} "
                "state too; rename one."
            )
        if state is None or type(state.descriptor) is StateDescriptor:
            self._states[descriptor.name] = state = self._make_state(descriptor, state)
        return state

    def states(self) -> Iterator[InternalState]:
        return iter(self._states.values())

    def entries(self, key_groups: KeyGroupRange | None = None) -> Iterator[StateEntry]:
        bounds = (
            ALL_KEY_GROUPS
            if key_groups is None
            else (key_group_start(key_groups.first), key_group_start(key_groups.last + 1))
        )
        for name, state in self._states.items():
            for key_group, key, namespace, value in state.entries(*bounds):
                yield StateEntry(
                    state_name=name,
                    kind=state.kind,
                    key_group=key_group,
                    key=key,
                    namespace=namespace,
                    value=value,
                )

    def restore(self, entries: Iterable[StateEntry]) -> None:
        for entry in entries:
            state: Any = self._states.get(entry.state_name)
            if state is None:
                bare_descriptor = StateDescriptor(entry.state_name)
                kind = {"list": RocksDBListState, "map": RocksDBMapState}.get(entry.kind, RocksDBState)
                state = kind(
                    bare_descriptor, entry.kind, self._storage(bare_descriptor), self._layout, self._journal
                )
                self._states[entry.state_name] = state
            if entry.kind == "list":
                state.add_all(entry.key, entry.namespace, entry.value)
            else:
                state.put_raw(entry.key, entry.namespace, entry.value)

    def close(self) -> None:
        self._states.clear()
        self._database.close()

    def _make_state(self, descriptor: StateDescriptor, restored_state: RocksDBState | None) -> Any:
        storage = self._storage(descriptor) if restored_state is None else restored_state.storage
        arguments = (descriptor, descriptor.kind, storage, self._layout, self._journal)
        match descriptor:
            case ValueStateDescriptor():
                return RocksDBValueState(*arguments)
            case ListStateDescriptor():
                return RocksDBListState(*arguments)
            case MapStateDescriptor():
                return RocksDBMapState(*arguments)
            case ReducingStateDescriptor():
                return RocksDBReducingState(*arguments, merges_target_first=self._merges_target_first)
            case AggregatingStateDescriptor():
                return RocksDBAggregatingState(*arguments, merges_target_first=self._merges_target_first)
            case _:
                raise StateAccessError(f"{descriptor!r} is none of the five kinds of state.")

    def _storage(self, descriptor: StateDescriptor) -> Storage:
        name = descriptor.name
        values = value_serializer(name, descriptor.sql_type, self._pickles)
        return Storage(
            self._database.column_family(f"state/{name}"),
            values,
            PlainSerializer(f"{name} (its keys)"),
            count(),
        )
