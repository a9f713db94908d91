"""The Protocol of timer queues, which hold each timer (timestamp, key, namespace) once, ordered by time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Protocol, TypeAlias

Timer: TypeAlias = tuple[int, Any, Any]
Owner: TypeAlias = tuple[Any, Any]  # key and namespace

EMPTY_PRIORITY: Final = 2**63  # above every timestamp: what an empty queue's head compares as


class TimerQueue(Protocol):
    """Timers of one service and domain, over all key groups of an operator. Namespace None = no window."""

    def add(self, timestamp: int, key: Any, namespace: Any) -> None:
        """Add the timer, unless it is there."""

    def remove(self, timestamp: int, key: Any, namespace: Any) -> None:
        """Remove the timer, if it is there."""

    def head_timestamp(self) -> int:
        """Timestamp of the timer that fires next; EMPTY_PRIORITY for none."""

    def poll_due(self, limit: int) -> Timer | None:
        """Remove and return the next timer, if its timestamp is <= limit."""

    def __contains__(self, timer: Timer) -> bool: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Timer]:
        """A copy of every timer, in the order of the queue's storage."""

    def snapshot(self, key_group: int) -> list[Timer]:
        """The key group's timers in the order in which `restore` takes them back."""

    def legacy_snapshot(self, key_group: int) -> list[Timer]:
        """The order of Flink's raw timer snapshots: checkpoints of RocksDB state with timers on the heap."""

    def restore(self, timers: Iterable[Timer]) -> None:
        """Add a snapshot's timers, by ascending key group and in snapshot order, before any other. A key
        group may come in several calls, some keys in each.
        """
