"""Contexts of triggers and functions, one per operator, set to a window before a call; they only forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slackwater.windowing.errors import ConfigurationError
from slackwater.windowing.functions import KeyedStateStore
from slackwater.windowing.runtime.internal_timer_service import InternalTimerService
from slackwater.windowing.runtime.keyed_state_store import NamespacedStateStore, RefusingStateStore
from slackwater.windowing.state.backend import StateBackend
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.state.handles import KeyContext, bind, mergeable
from slackwater.windowing.windows import Window


class OperatorTriggerContext:
    """One operator's TriggerContext, OnMergeContext, AssignerContext and EvictorContext; the operator sets
    `window` before each call, and `merged_windows`, the absorbed ones, during `on_merge`.
    """

    __slots__ = ("_backend", "_keys", "_timers", "merged_windows", "window")

    def __init__(self, keys: KeyContext, timers: InternalTimerService, backend: StateBackend) -> None:
        self._keys, self._timers, self._backend = keys, timers, backend
        self.window: Window = None
        self.merged_windows: list[Window] = []

    @property
    def current_watermark(self) -> int:
        return self._timers.current_watermark

    @property
    def current_processing_time(self) -> int:
        return self._timers.current_processing_time

    def register_event_time_timer(self, timestamp: int) -> None:
        self._timers.register_event_time_timer(timestamp, self._keys.current_key, self.window)

    def register_processing_time_timer(self, timestamp: int) -> None:
        self._timers.register_processing_time_timer(timestamp, self._keys.current_key, self.window)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._timers.delete_event_time_timer(timestamp, self._keys.current_key, self.window)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._timers.delete_processing_time_timer(timestamp, self._keys.current_key, self.window)

    def get_partitioned_state(self, descriptor: StateDescriptor) -> Any:
        return bind(self._backend.state(descriptor), self._keys, self.window)

    def merge_partitioned_state(self, descriptor: StateDescriptor) -> None:
        if self.merged_windows:
            mergeable(self._backend.state(descriptor)).merge_namespaces(
                self._keys.current_key, self.window, self.merged_windows
            )


class OperatorWindowContext:
    """One operator's WindowContext; it sets `window`, which fires or is cleared, before each call."""

    __slots__ = ("_backend", "_has_window_state", "_keys", "_output", "_timers", "window")

    def __init__(
        self,
        keys: KeyContext,
        timers: InternalTimerService,
        backend: StateBackend,
        output: Callable[[str, Any, Window], None],
        has_window_state: bool,
    ) -> None:
        self._keys, self._timers, self._backend, self._output = keys, timers, backend, output
        self._has_window_state = has_window_state
        self.window: Window = None

    @property
    def current_watermark(self) -> int:
        return self._timers.current_watermark

    @property
    def current_processing_time(self) -> int:
        return self._timers.current_processing_time

    def window_state(self) -> KeyedStateStore:
        if not self._has_window_state:
            return RefusingStateStore()
        return NamespacedStateStore(self._backend, self._keys, self.window)

    def global_state(self) -> KeyedStateStore:
        return NamespacedStateStore(self._backend, self._keys)

    def output(self, tag: str, value: Any) -> None:
        if tag is None:
            raise ConfigurationError("A side output needs a tag, got None.")
        self._output(tag, value, self.window)
