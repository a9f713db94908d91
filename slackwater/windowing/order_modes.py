"""In which order equal timers fire, and which argument comes first when windows merge: Flink leaves this to
its state back end; here it is a setting of its own.
"""

from __future__ import annotations

from enum import Enum


class OrderMode(Enum):
    """The state back end of Flink whose order is followed.

    Attributes:
        ROCKSDB: inside a key group equal timers fire by serialized key, then window; merges call f(merged
            sources, target). Depends on keys and windows alone, so it survives restore and rescaling. The
            default.
        HEAP: the order of equal timers depends on the history of one binary heap; merges call f(target,
            merged sources).
        ROCKSDB_HEAP_TIMERS: the heap's timers with RocksDB's merges.
    """

    ROCKSDB = "rocksdb"
    HEAP = "heap"
    ROCKSDB_HEAP_TIMERS = "rocksdb_heap_timers"

    @property
    def has_heap_timers(self) -> bool:
        return self is not OrderMode.ROCKSDB

    @property
    def merges_target_first(self) -> bool:
        return self is OrderMode.HEAP
