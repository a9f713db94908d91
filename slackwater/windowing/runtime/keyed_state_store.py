"""Handles of keyed state in one namespace, created on demand; each call goes straight to the back end."""

from __future__ import annotations

from typing import Any, NoReturn

from slackwater.windowing.errors import StateAccessError
from slackwater.windowing.state.backend import StateBackend
from slackwater.windowing.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from slackwater.windowing.state.handles import (
    AggregatingState,
    KeyContext,
    ListState,
    MapState,
    ReducingState,
    ValueState,
    bind,
)


class NamespacedStateStore:
    """A KeyedStateStore of the current key, in one namespace (None = no window)."""

    __slots__ = ("_backend", "_keys", "_namespace")

    def __init__(self, backend: StateBackend, keys: KeyContext, namespace: Any = None) -> None:
        self._backend, self._keys, self._namespace = backend, keys, namespace

    def get_state(self, descriptor: ValueStateDescriptor) -> ValueState:
        return self._bind(descriptor)  # type: ignore[no-any-return]  # the descriptor's kind decides the handle's

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState:
        return self._bind(descriptor)  # type: ignore[no-any-return]

    def get_map_state(self, descriptor: MapStateDescriptor) -> MapState:
        return self._bind(descriptor)  # type: ignore[no-any-return]

    def get_reducing_state(self, descriptor: ReducingStateDescriptor) -> ReducingState:
        return self._bind(descriptor)  # type: ignore[no-any-return]

    def get_aggregating_state(self, descriptor: AggregatingStateDescriptor) -> AggregatingState:
        return self._bind(descriptor)  # type: ignore[no-any-return]

    def _bind(self, descriptor: StateDescriptor) -> Any:
        return bind(self._backend.state(descriptor), self._keys, self._namespace)


class RefusingStateStore:
    """Refuses per-window state of merging windows, which cannot merge (Flink: MergingWindowStateStore)."""

    def get_state(self, descriptor: ValueStateDescriptor) -> NoReturn:
        self._refuse(descriptor)

    def get_list_state(self, descriptor: ListStateDescriptor) -> NoReturn:
        self._refuse(descriptor)

    def get_map_state(self, descriptor: MapStateDescriptor) -> NoReturn:
        self._refuse(descriptor)

    def get_reducing_state(self, descriptor: ReducingStateDescriptor) -> NoReturn:
        self._refuse(descriptor)

    def get_aggregating_state(self, descriptor: AggregatingStateDescriptor) -> NoReturn:
        self._refuse(descriptor)

    def _refuse(self, descriptor: StateDescriptor) -> NoReturn:
        raise StateAccessError(
            f"Windows that merge have no per-window state, so there is no {descriptor.name!r}; use "
            "global_state()."
        )
