"""The state handles that users hold: thin views of the current key's state in one namespace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, Protocol

from slackwater.windowing.errors import StateMergeError
from slackwater.windowing.state.backend import InternalState

_ABSENT: Final = object()


class KeyContext(Protocol):
    """The operator, with `current_key`, the key of the element or timer that is being processed."""

    current_key: Any


class _Handle:
    __slots__ = ("_keys", "_namespace", "_state")

    def __init__(self, state: Any, keys: KeyContext, namespace: Any) -> None:
        self._state, self._keys, self._namespace = state, keys, namespace

    def clear(self) -> None:
        self._state.clear(self._keys.current_key, self._namespace)


class ValueState(_Handle):
    """One value of the current key (Flink: ValueState)."""

    __slots__ = ()

    def value(self) -> Any:
        """The value, or the descriptor's default."""
        return self._state.value(self._keys.current_key, self._namespace)

    def update(self, value: Any) -> None:
        """Set the value; None clears."""
        self._state.update(self._keys.current_key, self._namespace, value)


class ListState(_Handle):
    """A list of the current key, in order of arrival (Flink: ListState). Iterating over the state itself
    reads a long list of RocksDB piece by piece; do not clear or replace it meanwhile.
    """

    __slots__ = ()

    def get(self) -> list[Any]:
        """A copy of the list; empty when there is none."""
        return list(self)

    def __iter__(self) -> Iterator[Any]:
        values = self._state.get(self._keys.current_key, self._namespace) or ()
        return islice(values, len(values))  # of a list in memory not those that are added meanwhile

    def add(self, value: Any) -> None:
        self._state.add(self._keys.current_key, self._namespace, value)

    def add_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self.add(value)

    def update(self, values: Iterable[Any]) -> None:
        """Replace the list; an empty one clears."""
        self._state.update(self._keys.current_key, self._namespace, list(values))


class MapState(_Handle):
    """A map of the current key (Flink: MapState)."""

    __slots__ = ()

    def get(self, map_key: Any) -> Any:
        """The value under `map_key`, or None."""
        return self._state.get_entry(self._keys.current_key, self._namespace, map_key)

    def put(self, map_key: Any, value: Any) -> None:
        self._state.put_entry(self._keys.current_key, self._namespace, map_key, value)

    def remove(self, map_key: Any) -> None:
        self._state.remove_entry(self._keys.current_key, self._namespace, map_key)

    def contains(self, map_key: Any) -> bool:
        return self._state.get_entry(self._keys.current_key, self._namespace, map_key, _ABSENT) is not _ABSENT

    def items(self) -> Iterator[tuple[Any, Any]]:
        """A copy of the entries, in order of insertion."""
        return iter(list(self._state.items(self._keys.current_key, self._namespace)))

    def keys(self) -> Iterator[Any]:
        return (map_key for map_key, _ in self.items())

    def values(self) -> Iterator[Any]:
        return (value for _, value in self.items())

    def is_empty(self) -> bool:
        return next(self.items(), None) is None


class ReducingState(_Handle):
    """One folded value of the current key (Flink: ReducingState)."""

    __slots__ = ()

    def get(self) -> Any:
        """The folded value; None when nothing was added."""
        return self._state.get(self._keys.current_key, self._namespace)

    def add(self, value: Any) -> None:
        """Fold a value in; None clears."""
        self._state.add(self._keys.current_key, self._namespace, value)


class AggregatingState(ReducingState):
    """An accumulator of the current key: `add` feeds it, `get` is the aggregate's result, or None."""

    __slots__ = ()


_HANDLES: dict[str, Any] = {
    "value": ValueState,
    "list": ListState,
    "map": MapState,
    "reducing": ReducingState,
    "aggregating": AggregatingState,
}


def bind(state: InternalState, keys: KeyContext, namespace: Any) -> Any:
    """The handle of one namespace: of the state's own class, or of the common one of its kind."""
    return (state.handle or _HANDLES[state.kind])(state, keys, namespace)


def mergeable(state: InternalState) -> Any:
    """`state` if windows can merge it (list, reducing, aggregating); otherwise raises StateMergeError."""
    if state.kind in ("value", "map"):
        raise StateMergeError(
            f"State {state.descriptor.name!r} is {state.kind} state, which cannot merge; use reducing, "
            "aggregating or list state."
        )
    return state
