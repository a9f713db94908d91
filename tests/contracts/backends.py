"""Where state and timers can live: every contract runs on each of these places, in each order mode that it
offers.

A new state back end is one more entry in the list; no test names one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slackwater.windowing import OrderMode
from slackwater.windowing.runtime.operator_storage import OperatorStorage
from slackwater.windowing.state.handles import bind


@dataclass(frozen=True)
class StorageKind:
    """One choice of places for state and timers.

    Attributes:
        name: as test ids show it.
        open: an existing folder → the storage of one operator, closed by whoever opened it.
        order_modes: that it offers.
        is_slow: opening it takes a tenth of a second, too much for a quick run of every contract.
    """

    name: str
    open: Callable[[Path], OperatorStorage]
    order_modes: tuple[OrderMode, ...]
    is_slow: bool


@dataclass(frozen=True)
class Variant:
    """A place and an order mode."""

    kind: StorageKind
    order_mode: OrderMode

    @property
    def name(self) -> str:
        return f"{self.kind.name}-{self.order_mode.value}"


STORAGE_KINDS = [
    StorageKind("memory", lambda folder: OperatorStorage(), tuple(OrderMode), is_slow=False),
    StorageKind(
        "rocksdb",
        lambda folder: OperatorStorage(state="rocksdb", timers="rocksdb", parent=folder, memory_mb=8),
        (OrderMode.ROCKSDB,),
        is_slow=True,
    ),
    StorageKind(
        "state_in_rocksdb",
        lambda folder: OperatorStorage(state="rocksdb", parent=folder, memory_mb=8),
        (OrderMode.HEAP, OrderMode.ROCKSDB_HEAP_TIMERS),
        is_slow=True,
    ),
]


@dataclass(frozen=True)
class CurrentKey:
    """The KeyContext of one key."""

    current_key: Any


def handle(state: Any, key: Any, namespace: Any) -> Any:
    """The handle of a state's entry, which a function would get for this key."""
    return bind(state, CurrentKey(key), namespace)


VARIANTS = [Variant(kind, mode) for kind in STORAGE_KINDS for mode in kind.order_modes]
