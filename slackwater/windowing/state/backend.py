"""The Protocols of a state back end: five kinds of state, by key and namespace (a window, or None)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.state.descriptors import StateDescriptor


class StateEntry(NamedTuple):
    """One entry of a snapshot. `value` is the state's object, not a copy: neither side may change it."""

    state_name: str
    kind: str
    key_group: int
    key: Any
    namespace: Any
    value: Any


class InternalState(Protocol):
    @property
    def descriptor(self) -> Any: ...

    @property
    def kind(self) -> str:
        """The kind of state. Restored state has it from its entries, before `state` gives it a descriptor."""

    def clear(self, key: Any, namespace: Any) -> None:
        """Remove the entry, if there is one."""

    def contains(self, key: Any, namespace: Any) -> bool:
        """Whether there is an entry, also one whose value is None."""

    def __len__(self) -> int:
        """Entries over all keys and namespaces."""


class InternalValueState(InternalState, Protocol):
    def value(self, key: Any, namespace: Any) -> Any:
        """The value, or the descriptor's default."""

    def update(self, key: Any, namespace: Any, value: Any) -> None:
        """Set the value; None clears."""


class InternalAppendingState(InternalState, Protocol):
    def add(self, key: Any, namespace: Any, value: Any) -> bool:
        """Fold or append; reducing and aggregating state take None for clear. False if there was an entry
        before; a back end that would have to look returns True.
        """

    def add_all(self, key: Any, namespace: Any, values: Sequence[Any]) -> bool:
        """`add` for each value, none None. For list and (of a BulkAggregateFunction) aggregating state."""

    def get(self, key: Any, namespace: Any) -> Any:
        """The folded value, the aggregate's result, or the list itself (do not change it); None without an
        entry. A list may be any sequence: a long one in RocksDB is read as it is iterated.
        """

    def merge_namespaces(self, key: Any, target: Any, sources: Iterable[Any]) -> None:
        """Fold the sources' entries, left to right, and then with the target's, and clear the sources. The
        last call is f(target, sources) or f(sources, target), as the order mode says; a list is target, then
        sources.
        """


InternalAggregatingState = InternalAppendingState


class InternalListState(InternalAppendingState, Protocol):
    def update(self, key: Any, namespace: Any, values: list[Any]) -> None:
        """Replace the list, which the back end keeps; an empty one clears."""


class InternalMapState(InternalState, Protocol):
    def get_entry(self, key: Any, namespace: Any, map_key: Any, default: Any = None) -> Any:
        """The value, `default` when there is none."""

    def put_entry(self, key: Any, namespace: Any, map_key: Any, value: Any) -> None: ...

    def remove_entry(self, key: Any, namespace: Any, map_key: Any) -> None: ...

    def items(self, key: Any, namespace: Any) -> Iterable[tuple[Any, Any]]: ...


class StateBackend(Protocol):
    """All keyed state of one operator. Closed once, by its owner."""

    def state(self, descriptor: StateDescriptor) -> Any:
        """The internal state of the descriptor's kind and name, created at the first call. Raises
        StateAccessError when the name is in use for another kind.
        """

    def states(self) -> Iterator[InternalState]:
        """All states created so far, in order."""

    def entries(self, key_groups: KeyGroupRange | None = None) -> Iterator[StateEntry]:
        """Every entry, or those in a range of key groups: state by state, unordered inside one."""

    def restore(self, entries: Iterable[StateEntry]) -> None:
        """Restore entries. Several entries of one list are its pieces, in order. Entries of undeclared state
        are kept and counted, and join the state when `state` is called with its descriptor.
        """

    def close(self) -> None: ...
