"""Where an operator's state and timers live, each by itself: in memory or in RocksDB, sharing a database."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from slackwater.windowing.errors import ConfigurationError, UnsupportedCombinationError
from slackwater.windowing.key_groups import KeyGroupIndex
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.runtime.heap_priority_queue import HeapPriorityQueueSet
from slackwater.windowing.runtime.key_group_partitioned_priority_queue import (
    KeyGroupPartitionedPriorityQueue,
    KeyGroupTimers,
)
from slackwater.windowing.runtime.timer_queue import TimerQueue
from slackwater.windowing.state.backend import StateBackend, UndoJournal
from slackwater.windowing.state.heap.backend import HeapStateBackend

if TYPE_CHECKING:
    from slackwater.windowing.state.rocksdb.database import RocksDBDatabase

Place: TypeAlias = Literal["memory", "rocksdb"]


class OperatorStorage:
    """Creates the state back end and the timer queues of one operator. A task opens one per operator and
    closes it in the end.

        with OperatorStorage(state="rocksdb", parent=folder) as storage:
            operator = WindowOperator(config, …, storage=storage)

    One in memory may serve several operators. Closing a RocksDB state back end also closes the storage;
    closing twice is fine. Raises ConfigurationError for RocksDB without `parent` or rocksdict,
    StateStorageError if the database cannot be opened.

    Args:
        parent: folder on a local disk for the database's directory.
        memory_mb: for RocksDB's cache and write buffers.
        pickles: allow pickling values that are not plain for RocksDB.
    """

    def __init__(
        self,
        *,
        state: Place = "memory",
        timers: Place = "memory",
        parent: Path | None = None,
        memory_mb: int = 256,
        pickles: bool = False,
    ) -> None:
        self._state, self._timers, self._pickles = state, timers, pickles
        self._database: RocksDBDatabase | None = None
        if "rocksdb" in (state, timers):
            if parent is None:
                raise ConfigurationError("RocksDB needs a folder on a local disk; name one as `parent`.")
            from slackwater.windowing.state.rocksdb.database import (
                RocksDBDatabase,  # the only place where rocksdict is needed
            )

            self._database = RocksDBDatabase(parent, memory_mb)

    def make_backend(
        self, key_groups: KeyGroupIndex, order_mode: OrderMode, journal: UndoJournal | None
    ) -> StateBackend:
        """The operator's state back end. Called once."""
        if self._state == "memory" or self._database is None:
            return HeapStateBackend(key_groups.__getitem__, order_mode, journal)
        from slackwater.windowing.state.rocksdb.backend import RocksDBStateBackend

        return RocksDBStateBackend(
            self._database,
            key_groups.key_type,
            key_groups.__getitem__,
            order_mode,
            journal=journal,
            pickles=self._pickles,
        )

    def make_timer_queue(self, name: str, key_groups: KeyGroupIndex, order_mode: OrderMode) -> TimerQueue:
        """An empty queue of the order mode; the name is unique among an operator's queues.
        UnsupportedCombinationError for timers in RocksDB with the order of a heap.
        """
        key_group_range, key_group_of, key_type = (
            key_groups.key_groups,
            key_groups.__getitem__,
            key_groups.key_type,
        )
        if self._timers == "memory" or self._database is None:
            if order_mode.has_heap_timers:
                return HeapPriorityQueueSet(key_group_range, key_group_of, key_type.hash_code)
            return KeyGroupPartitionedPriorityQueue(
                key_group_range, key_group_of, lambda _: KeyGroupTimers(key_type.serialize)
            )
        if order_mode.has_heap_timers:
            raise UnsupportedCombinationError(
                f"Timers in order mode {order_mode.value!r} live in memory: their order is the history of "
                "one heap. Keep timers in memory, or choose the order mode 'rocksdb'."
            )
        from slackwater.windowing.runtime.rocksdb_caching_priority_queue_set import (
            RocksDBCachingPriorityQueueSet,
        )
        from slackwater.windowing.state.rocksdb.rows import RowLayout
        from slackwater.windowing.state.rocksdb.serializers import PlainSerializer

        layout = RowLayout(key_type, key_group_of, PlainSerializer(f"{name} (its window)", self._pickles))
        rows = self._database.column_family(f"timers/{name}")
        return KeyGroupPartitionedPriorityQueue(
            key_group_range,
            key_group_of,
            lambda key_group: RocksDBCachingPriorityQueueSet(rows, layout, key_group),
        )

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


IN_MEMORY = OperatorStorage()
