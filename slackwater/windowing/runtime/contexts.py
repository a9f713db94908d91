"""What an operator hands to functions and triggers: state of the current key, and contexts, one per operator,
which are set before a call and only forward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from slackwater.windowing.errors import ConfigurationError, StateAccessError
from slackwater.windowing.functions import KeyedStateStore
from slackwater.windowing.java import LONG_MIN
from slackwater.windowing.runtime.internal_timer_service import InternalTimerService
from slackwater.windowing.runtime.operator_output import OperatorOutput
from slackwater.windowing.state.backend import StateBackend
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.state.handles import KeyContext, bind, mergeable
from slackwater.windowing.windows import Window

_NO_HANDLE: Final = (None, object(), None)


class NamespacedStateStore:
    """A KeyedStateStore of the current key, in one namespace (None = no window)."""

    __slots__ = ("_backend", "_keys", "_namespace")

    def __init__(self, backend: StateBackend, keys: KeyContext, namespace: Any = None) -> None:
        self._backend, self._keys, self._namespace = backend, keys, namespace

    def get_state(self, descriptor: StateDescriptor) -> Any:
        """The handle of the descriptor's kind."""
        return bind(self._backend.state(descriptor), self._keys, self._namespace)

    get_list_state = get_map_state = get_reducing_state = get_aggregating_state = get_state


class RefusingStateStore:
    """Refuses per-window state of merging windows, which cannot merge (Flink: MergingWindowStateStore)."""

    def get_state(self, descriptor: StateDescriptor) -> NoReturn:
        raise StateAccessError(
            f"Windows that merge have no per-window state, so there is no {descriptor.name!r}; use "
            "global_state()."
        )

    get_list_state = get_map_state = get_reducing_state = get_aggregating_state = get_state


class _Times:
    __slots__ = ("_timers",)

    def __init__(self, timers: InternalTimerService) -> None:
        self._timers = timers

    @property
    def current_watermark(self) -> int:
        return self._timers.current_watermark

    @property
    def current_processing_time(self) -> int:
        return self._timers.current_processing_time


class SimpleTimerService(_Times):
    """A TimerService of the current key and `window`, None for no window (Flink: SimpleTimerService)."""

    __slots__ = ("_keys", "window")

    def __init__(self, keys: KeyContext, timers: InternalTimerService) -> None:
        super().__init__(timers)
        self._keys = keys
        self.window: Window = None

    def register_event_time_timer(self, timestamp: int) -> None:
        self._timers.register_event_time_timer(timestamp, self._keys.current_key, self.window)

    def register_processing_time_timer(self, timestamp: int) -> None:
        self._timers.register_processing_time_timer(timestamp, self._keys.current_key, self.window)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._timers.delete_event_time_timer(timestamp, self._keys.current_key, self.window)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._timers.delete_processing_time_timer(timestamp, self._keys.current_key, self.window)


class OperatorTriggerContext(SimpleTimerService):
    """One operator's TriggerContext, OnMergeContext, AssignerContext and EvictorContext; the operator sets
    `window` before each call, and `merged_windows`, the absorbed ones, during `on_merge`.
    """

    __slots__ = ("_backend", "_handles", "merged_windows")

    def __init__(self, keys: KeyContext, timers: InternalTimerService, backend: StateBackend) -> None:
        super().__init__(keys, timers)
        self._backend = backend
        # Of each state the newest, by its name.
        self._handles: dict[str, tuple[StateDescriptor, Window, Any]] = {}
        self.merged_windows: list[Window] = []

    def get_partitioned_state(self, descriptor: StateDescriptor) -> Any:
        window = self.window
        newest_descriptor, handle_window, handle = self._handles.get(descriptor.name, _NO_HANDLE)
        if handle_window is not window or newest_descriptor is not descriptor:
            handle = bind(self._backend.state(descriptor), self._keys, window)
            self._handles[descriptor.name] = descriptor, window, handle
        return handle

    def merge_partitioned_state(self, descriptor: StateDescriptor) -> None:
        if self.merged_windows:
            mergeable(self._backend.state(descriptor)).merge_namespaces(
                self._keys.current_key, self.window, self.merged_windows
            )


class OperatorWindowContext(_Times):
    """One operator's WindowContext; it sets `window`, which fires or is cleared, before each call."""

    __slots__ = ("_backend", "_has_window_state", "_keys", "_output", "window")

    def __init__(
        self,
        keys: KeyContext,
        timers: InternalTimerService,
        backend: StateBackend,
        output: Callable[[str, Any, Window], None],
        has_window_state: bool,
    ) -> None:
        super().__init__(timers)
        self._keys, self._backend, self._output = keys, backend, output
        self._has_window_state = has_window_state
        self.window: Window = None

    def window_state(self) -> KeyedStateStore:
        if not self._has_window_state:
            return RefusingStateStore()
        return NamespacedStateStore(self._backend, self._keys, self.window)

    def global_state(self) -> KeyedStateStore:
        return NamespacedStateStore(self._backend, self._keys)

    def output(self, tag: str, value: Any) -> None:
        _check_tag(tag)
        self._output(tag, value, self.window)


class OperatorProcessContext:
    """One operator's KeyedProcessContext and OnTimerContext, set to an element or timer before each call."""

    __slots__ = ("_keys", "_output", "time_domain", "timer_service", "timestamp")

    def __init__(self, keys: KeyContext, output: OperatorOutput, timers: InternalTimerService) -> None:
        self._keys, self._output = keys, output
        self.timer_service = SimpleTimerService(keys, timers)
        self.timestamp: int | None = None
        self.time_domain = "event"

    @property
    def current_key(self) -> Any:
        return self._keys.current_key

    def output(self, tag: str, value: Any) -> None:
        _check_tag(tag)
        timestamp = LONG_MIN if self.timestamp is None else self.timestamp
        self._output.side(tag, value, timestamp, None, self._keys.current_key)


def _check_tag(tag: str) -> None:
    if tag is None:
        raise ConfigurationError("A side output needs a tag, got None.")
