"""What the state back ends share: five kinds of state, by key and namespace (a window, or None)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from slackwater.windowing.errors import StateAccessError
from slackwater.windowing.key_groups import KeyGroupRange
from slackwater.windowing.order_modes import OrderMode
from slackwater.windowing.state.descriptors import StateDescriptor


class UndoJournal:
    """Inverse calls in order of the changes, recorded between `begin` and `commit` or `undo` only."""

    def __init__(self) -> None:
        self._inverses: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self._is_recording = False

    def begin(self) -> None:
        self._inverses.clear()
        self._is_recording = True

    def note(self, inverse: Callable[..., Any], *arguments: Any) -> None:
        if self._is_recording:
            self._inverses.append((inverse, arguments))

    def commit(self) -> None:
        self._is_recording = False
        self._inverses.clear()

    def undo(self) -> None:
        """Revert all changes since `begin`, newest first."""
        self._is_recording = False
        while self._inverses:
            inverse, arguments = self._inverses.pop()
            inverse(*arguments)


class StateEntry(NamedTuple):
    """One entry of a snapshot. `value` is the state's object, not a copy: neither side may change it."""

    state_name: str
    kind: str
    key_group: int
    key: Any
    namespace: Any
    value: Any


class InternalState:
    """Entries of one named state. With a bare StateDescriptor it is restored state that nobody has asked for
    yet, whose kind is that of its entries.

    Every kind but value and map has `get`: the folded value, the aggregate's result, or the list itself (do
    not change it); None without an entry. A list may be any sequence: a long one in RocksDB is read as it is
    iterated. These kinds have `merge_namespaces` and `add`, which folds or appends: reducing and aggregating
    state take None for clear. `add` returns False if there was an entry before; a back end that would have to
    look returns True. List state has `add_all`: `add` for each value, none None.

    Value and map state have a `handle` of their own, or what the common handles call: `value` and `update`,
    `get_entry`, `put_entry` and `remove_entry`. Map state has `items`.
    """

    handle: ClassVar[Any] = None

    def __init__(self, descriptor: StateDescriptor, merges_target_first: bool) -> None:
        self.descriptor: Any = descriptor
        self.kind = descriptor.kind
        self._merges_target_first = merges_target_first

    def get_raw(self, key: Any, namespace: Any) -> Any:
        """The value as it is stored, which must not be changed; None without an entry."""
        raise NotImplementedError

    def get_own(self, key: Any, namespace: Any) -> Any:
        """The value, for somebody who may change it in place."""
        raise NotImplementedError

    def put_raw(self, key: Any, namespace: Any, value: Any) -> None:
        """Store a value unchecked, None included."""
        raise NotImplementedError

    def clear(self, key: Any, namespace: Any) -> None:
        """Remove the entry, if there is one."""
        raise NotImplementedError

    def contains(self, key: Any, namespace: Any) -> bool:
        """Whether there is an entry, also one whose value is None."""
        raise NotImplementedError

    def __len__(self) -> int:
        """Entries over all keys and namespaces."""
        raise NotImplementedError


class InternalValueState(InternalState):
    def value(self, key: Any, namespace: Any) -> Any:
        """The value, or the descriptor's default."""
        value = self.get_own(key, namespace)
        return self.descriptor.default if value is None else value

    def update(self, key: Any, namespace: Any, value: Any) -> None:
        """Set the value; None clears."""
        if value is None:
            self.clear(key, namespace)
        else:
            self.put_raw(key, namespace, value)


class InternalListState(InternalState):
    def update(self, key: Any, namespace: Any, values: list[Any]) -> None:
        """Replace the list, which the back end keeps; an empty one clears."""
        if values:
            self.put_raw(key, namespace, values)
        else:
            self.clear(key, namespace)


class InternalMergingState(InternalState):
    """Reducing and aggregating state: `_merge` makes one value of two."""

    _merge: Callable[[Any, Any], Any]

    def _fold(self, old: Any, value: Any) -> Any:
        """The value with one more element; `old` is None without an entry."""
        raise NotImplementedError

    def merge_namespaces(self, key: Any, target: Any, sources: Iterable[Any]) -> None:
        """Fold the sources' entries, left to right, and then with the target's, and clear the sources. The
        last call is f(target, sources) or f(sources, target), as the order mode says; a list is target, then
        sources.
        """
        merged_value: Any = None
        for source in sources:
            if self.contains(key, source):
                value = self.get_own(key, source)
                self.clear(key, source)
                # Flink's RocksDB state hands a stored None to the function; its heap state skips it.
                if merged_value is None:
                    merged_value = value
                elif value is not None or not self._merges_target_first:
                    merged_value = self._merge(merged_value, value)
        if merged_value is None:
            return
        if self.contains(key, target):
            value = self.get_own(key, target)
            if not self._merges_target_first:
                merged_value = self._merge(merged_value, value)
            elif value is not None:
                merged_value = self._merge(value, merged_value)
        self.put_raw(key, target, merged_value)


class InternalReducingState(InternalMergingState):
    def __init__(self, descriptor: StateDescriptor, merges_target_first: bool) -> None:
        super().__init__(descriptor, merges_target_first)
        self._merge = self.descriptor.reduce

    def _fold(self, old: Any, value: Any) -> Any:
        return value if old is None else self._merge(old, value)


class InternalAggregatingState(InternalMergingState):
    """The aggregate may change its accumulators in place."""

    def __init__(self, descriptor: StateDescriptor, merges_target_first: bool) -> None:
        super().__init__(descriptor, merges_target_first)
        aggregate = self.descriptor.aggregate
        self._merges_target_first |= self.descriptor.merges_as_list
        self._merge, self._create = aggregate.merge, aggregate.create_accumulator
        self._add, self._result = aggregate.add, aggregate.get_result

    def get(self, key: Any, namespace: Any) -> Any:
        accumulator = self.get_raw(key, namespace)
        return None if accumulator is None else self._result(accumulator)

    def add(self, key: Any, namespace: Any, value: Any) -> bool:
        raise NotImplementedError

    def add_all(self, key: Any, namespace: Any, values: Iterable[Any]) -> None:
        """`add` each value: a piece of contents that stand for a list."""
        for value in values:
            self.add(key, namespace, value)

    def _fold(self, old: Any, value: Any) -> Any:
        return self._add(value, self._create() if old is None else old)


class StateBackend:
    """All keyed state of one operator. Closed once, by its owner. `kinds` has the back end's class for each
    kind of state, and under "" for restored state without a descriptor.
    """

    kinds: ClassVar[Mapping[str, Any]]

    def __init__(self, order_mode: OrderMode, journal: UndoJournal | None) -> None:
        self._merges_target_first, self._journal = order_mode.merges_target_first, journal
        self._states: dict[str, Any] = {}

    def state(self, descriptor: StateDescriptor) -> Any:
        """The internal state of the descriptor's kind and name, created at the first call. Raises
        StateAccessError when the name is in use for another kind.
        """
        state = self._states.get(descriptor.name)
        if state is not None and state.kind != descriptor.kind:
            raise StateAccessError(
                f"State {descriptor.name!r} is {state.kind} state already and cannot be {descriptor.kind} "
                "state too; rename one."
            )
        if state is None or type(state.descriptor) is StateDescriptor:
            if not descriptor.kind or descriptor.kind not in self.kinds:
                raise StateAccessError(f"{descriptor!r} is none of the five kinds of state.")
            state = self._make_state(self.kinds[descriptor.kind], descriptor, state)
            self._states[descriptor.name] = state
        return state

    def states(self) -> Iterator[InternalState]:
        """All states created so far, in order."""
        return iter(self._states.values())

    def entries(self, key_groups: KeyGroupRange | None = None) -> Iterator[StateEntry]:
        """Every entry, or those in a range of key groups: state by state, unordered inside one."""
        raise NotImplementedError

    def restore(self, entries: Iterable[StateEntry]) -> None:
        """Restore entries. Several entries of one list are its pieces, in order. Entries of undeclared state
        are kept and counted, and join the state when `state` is called with its descriptor.
        """
        for entry in entries:
            state = self._states.get(entry.state_name)
            if state is None:
                kind = entry.kind if entry.kind in ("list", "map") else ""
                state = self._make_state(self.kinds[kind], StateDescriptor(entry.state_name), None)
                state.kind = entry.kind
                self._states[entry.state_name] = state
            if entry.kind == "list":
                state.add_all(entry.key, entry.namespace, entry.value)
            else:
                state.put_raw(entry.key, entry.namespace, entry.value)

    def close(self) -> None:
        self._states.clear()

    def _make_state(self, make: Any, descriptor: StateDescriptor, restored_state: Any) -> Any:
        """A state of the class `make`, with the entries of the restored one, if any."""
        raise NotImplementedError
