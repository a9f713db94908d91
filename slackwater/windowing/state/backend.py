"""The Protocols of a state back end: five kinds of state, each by key and namespace, and the entries that
snapshots read and write.

A namespace is a window, or None for state without one. Nothing here knows where values are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.state.descriptors import StateDescriptor


class StateEntry(NamedTuple):
    """One entry of a snapshot.

    Attributes:
        state_name, kind: the descriptor's.
        key_group: the key's group.
        key, namespace: the owner; the namespace is a window or None.
        value: the value, list, map or accumulator itself. Not a copy: neither side may change it afterwards.
    """

    state_name: str
    kind: str
    key_group: int
    key: Any
    namespace: Any
    value: Any


class InternalState(Protocol):
    """One named state of all keys and namespaces."""

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
    """Reducing, aggregating and list state."""

    def add(self, key: Any, namespace: Any, value: Any) -> bool:
        """Fold or append. Reducing and aggregating state take None for clear.

        Returns:
            Whether there may have been no entry before; a back end that would have to look answers True.
        """

    def add_all(self, key: Any, namespace: Any, values: Sequence[Any]) -> bool:
        """`add` for each of these, of which none is None. Only list state has it, and aggregating state of a
        BulkAggregateFunction.
        """

    def get(self, key: Any, namespace: Any) -> Any:
        """The folded value, the aggregate's result, or the list itself (not to be changed); None when there
        is no entry. A list may be any sequence: a long one in RocksDB is read as it is iterated.
        """

    def merge_namespaces(self, key: Any, target: Any, sources: Iterable[Any]) -> None:
        """Fold the sources' entries, left to right, and then with the target's; the sources are empty
        afterwards.

        The last call is f(target, sources) or f(sources, target), as the back end's order mode says. A list
        is target, then sources.
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
        """The internal state of the descriptor's kind and name: made at the first call, the same object at
        each later one.

        Raises StateAccessError when the name is in use for another kind.
        """

    def states(self) -> Iterator[InternalState]:
        """All states made so far, in order of their making."""

    def entries(self, key_groups: KeyGroupRange | None = None) -> Iterator[StateEntry]:
        """Every entry, or those of a range of key groups: state by state, in no particular order inside
        one.
        """

    def restore(self, entries: Iterable[StateEntry]) -> None:
        """Put entries back. Several entries of one list are its pieces, in order. Entries whose state has no
        descriptor yet are kept and counted, and become part of the state when `state` is called with its
        descriptor.
        """

    def close(self) -> None: ...
