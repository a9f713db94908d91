"""About how much memory the state of an operator takes: a sample of its entries, counted up. Good enough to
decide where it should live.

Python's sizes of objects; what a dictionary and a queue add is a constant, measured once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from sys import getsizeof
from typing import Any, Final

from slackwater.windowing.state.backend import StateBackend

_EVERY: Final = (
    13  # entries: one in so many is looked at closely; prime, or a pattern of theirs might hide most
)
_ITEMS: Final = 8  # of a collection: so many are
# its slots in the dictionaries of namespaces and keys, with one of its own for each window, and its key
_ENTRY: Final = 300
_TIMER: Final = 260  # its tuple, its slot in the queue and in the set that keeps it from being there twice


def estimated_bytes(backend: StateBackend, timers: int) -> tuple[int, int]:
    """The size of all state in `backend` and of so many timers, and how many entries and timers that is.
    Looks at every entry.
    """
    entries = unlisted_entries = sample_bytes = list_bytes = 0
    for entry in backend.entries():
        entries += 1
        if entry.kind == "list":  # of which some are very long
            list_bytes += deep_size(entry.value)
            continue
        unlisted_entries += 1
        if unlisted_entries % _EVERY == 1:
            sample_bytes += deep_size(entry.value)
    return entries * _ENTRY + list_bytes + sample_bytes * min(
        _EVERY, unlisted_entries
    ) + timers * _TIMER, entries + timers


def deep_size(value: Any) -> int:
    """The size of a value and of what it holds; of a large collection from its first items."""
    size = getsizeof(value)
    if isinstance(value, dict):
        return size + _items_size(iter(value.items()), len(value))
    if isinstance(value, list | tuple | set | frozenset):
        return size + _items_size(iter(value), len(value))
    return size


def _items_size(items: Iterator[Any], number: int) -> int:
    sizes = [deep_size(item) for item in islice(items, _ITEMS)]
    return number * sum(sizes) // len(sizes) if sizes else 0
