"""An estimate of an operator's memory from a sample of its entries, to decide whether it moves to RocksDB.
Sizes are Python's `getsizeof`; the share of dictionaries and queues is a constant, measured once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from sys import getsizeof
from typing import Any, Final

from slackwater.windowing.state.backend import StateBackend

# One entry in so many is measured. A prime: large entries at regular distances would be missed otherwise.
_SAMPLING_STEP: Final = 13
_MEASURED_ITEMS: Final = 8  # of each collection
# An entry's key, and its slots in the dictionaries of namespaces and keys, with a dictionary for each window.
_ENTRY_BYTES: Final = 300
_TIMER_BYTES: Final = 260  # a timer's tuple, its slot in the queue, and in the set that holds it once


def estimated_bytes(backend: StateBackend, timers: int) -> tuple[int, int]:
    """(bytes of all state and so many timers, number of entries and timers). Looks at every entry."""
    entries = unlisted_entries = sample_bytes = list_bytes = 0
    for entry in backend.entries():
        entries += 1
        if entry.kind == "list":  # measured one by one: some are very long
            list_bytes += deep_size(entry.value)
            continue
        unlisted_entries += 1
        if unlisted_entries % _SAMPLING_STEP == 1:
            sample_bytes += deep_size(entry.value)
    value_bytes = list_bytes + sample_bytes * min(_SAMPLING_STEP, unlisted_entries)
    return entries * _ENTRY_BYTES + value_bytes + timers * _TIMER_BYTES, entries + timers


def deep_size(value: Any) -> int:
    """The size of a value and its contents; of a large collection from its first items."""
    size = getsizeof(value)
    if isinstance(value, dict):
        return size + _items_size(iter(value.items()), len(value))
    if isinstance(value, list | tuple | set | frozenset):
        return size + _items_size(iter(value), len(value))
    return size


def _items_size(items: Iterator[Any], number: int) -> int:
    sizes = [deep_size(item) for item in islice(items, _MEASURED_ITEMS)]
    return number * sum(sizes) // len(sizes) if sizes else 0
