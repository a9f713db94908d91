"""State in RocksDB, a column family per state (Flink: RocksDBKeyedStateBackend); `database` stores rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, ClassVar

from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.key_types import KeyType
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.state.backend import StateBackend, StateEntry, UndoJournal
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.state.rocksdb.database import RocksDBDatabase
from slackwater.windowing.state.rocksdb.list_state import RocksDBListState
from slackwater.windowing.state.rocksdb.map_state import RocksDBMapState
from slackwater.windowing.state.rocksdb.rows import RowLayout, key_group_start
from slackwater.windowing.state.rocksdb.serializers import PlainSerializer
from slackwater.windowing.state.rocksdb.states import (
    ALL_KEY_GROUPS,
    RocksDBAggregatingState,
    RocksDBReducingState,
    RocksDBState,
    RocksDBValueState,
    Storage,
)


class RocksDBStateBackend(StateBackend):
    """A StateBackend in RocksDB. Arguments as for HeapStateBackend, and an open `database`, which `close`
    closes; `pickles` allows pickling values and windows that are not plain; otherwise they are refused.
    """

    kinds: ClassVar = {
        "": RocksDBState,
        "value": RocksDBValueState,
        "list": RocksDBListState,
        "map": RocksDBMapState,
        "reducing": RocksDBReducingState,
        "aggregating": RocksDBAggregatingState,
    }

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
        super().__init__(order_mode, journal)
        self._database, self._pickles = database, pickles
        self._layout = RowLayout(key_type, key_group_of, PlainSerializer("(its window)", pickles))

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

    def close(self) -> None:
        super().close()
        self._database.close()

    def _make_state(self, make: Any, descriptor: StateDescriptor, restored_state: Any) -> Any:
        storage = self._storage(descriptor) if restored_state is None else restored_state.storage
        return make(descriptor, self._merges_target_first, storage, self._layout, self._journal)

    def _storage(self, descriptor: StateDescriptor) -> Storage:
        name = descriptor.name
        return Storage(
            self._database.column_family(f"state/{name}"),
            PlainSerializer(name, self._pickles),
            PlainSerializer(f"{name} (its keys)"),
            count(),
        )
