"""The functions that users write, and their contexts: Flink's signatures in snake case; rows are returned or
yielded, as in PyFlink.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias

from slackwater.windowing.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from slackwater.windowing.state.handles import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from slackwater.windowing.windows import Window

Results: TypeAlias = Iterable[Any] | None


class KeyedStateStore(Protocol):
    """State of the operator's current key, which handles follow (Flink: KeyedStateStore)."""

    def get_state(self, descriptor: ValueStateDescriptor) -> ValueState: ...

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState: ...

    def get_map_state(self, descriptor: MapStateDescriptor) -> MapState: ...

    def get_reducing_state(self, descriptor: ReducingStateDescriptor) -> ReducingState: ...

    def get_aggregating_state(self, descriptor: AggregatingStateDescriptor) -> AggregatingState: ...


RuntimeContext: TypeAlias = KeyedStateStore


class Function:
    """Base of users' functions. An operator opens its own copy before the first element, and closes it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once per operator. State obtained here is the same as the context's `global_state()`."""

    def close(self) -> None:
        """Called once when the operator is closed, also after a failure."""


class AllWindowContext(Protocol):
    """The context of a ProcessAllWindowFunction, valid during the call; `window` fires or is cleared."""

    window: Window

    def window_state(self) -> KeyedStateStore:
        """State of this key and window; clear it in `clear`. StateAccessError when windows merge."""

    def global_state(self) -> KeyedStateStore:
        """State of this key, over all windows; only the function itself removes it."""

    def output(self, tag: str, value: Any) -> None:
        """Emit a row to the side output `tag`, stamped with the window's last instant."""


class WindowContext(AllWindowContext, Protocol):
    """The context of a ProcessWindowFunction."""

    @property
    def current_watermark(self) -> int: ...

    @property
    def current_processing_time(self) -> int: ...


class ProcessWindowFunction(Function):
    """Turns the contents of one key's window into rows (Flink: ProcessWindowFunction)."""

    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Results:
        """Called at each firing of a window with contents. Rows carry the window's last instant."""
        raise NotImplementedError

    def clear(self, context: WindowContext) -> None:
        """Called once, at the window's collection: contents are gone, per-window state is still there."""


class WindowFunction(Function):
    """The older form of ProcessWindowFunction, without a context (Flink: WindowFunction)."""

    def apply(self, key: Any, window: Window, inputs: Iterable[Any]) -> Results:
        raise NotImplementedError


class ProcessAllWindowFunction(Function):
    """ProcessWindowFunction for windows over all elements of all keys (Flink: ProcessAllWindowFunction)."""

    def process(self, context: AllWindowContext, elements: Iterable[Any]) -> Results:
        raise NotImplementedError

    def clear(self, context: AllWindowContext) -> None:
        """Called once, at the window's collection."""


class AllWindowFunction(Function):
    """WindowFunction for windows over all elements (Flink: AllWindowFunction)."""

    def apply(self, window: Window, inputs: Iterable[Any]) -> Results:
        raise NotImplementedError


class TimerService(Protocol):
    """Time and timers of the current key (Flink: TimerService). A timer (domain, time, key) exists once."""

    @property
    def current_watermark(self) -> int: ...

    @property
    def current_processing_time(self) -> int: ...

    def register_event_time_timer(self, timestamp: int) -> None: ...

    def register_processing_time_timer(self, timestamp: int) -> None: ...

    def delete_event_time_timer(self, timestamp: int) -> None: ...

    def delete_processing_time_timer(self, timestamp: int) -> None: ...


class KeyedProcessContext(Protocol):
    """The context of `process_element`, valid during the call; `timestamp` is None if there is none."""

    @property
    def current_key(self) -> Any: ...

    @property
    def timestamp(self) -> int | None: ...

    @property
    def timer_service(self) -> TimerService: ...

    def output(self, tag: str, value: Any) -> None:
        """Emit a row to the side output `tag`. Raises ConfigurationError for a tag of None."""


class OnTimerContext(KeyedProcessContext, Protocol):
    """The context of `on_timer`; `time_domain` is "event" or "processing"."""

    @property
    def time_domain(self) -> str: ...


class KeyedProcessFunction(Function):
    """A function with state and timers for each key (Flink: KeyedProcessFunction)."""

    def process_element(self, value: Any, context: KeyedProcessContext) -> Results:
        """Called for each element. Rows inherit the element's timestamp."""
        raise NotImplementedError

    def on_timer(self, timestamp: int, context: OnTimerContext) -> Results:
        """Called for each due timer. Rows carry an event-time timer's timestamp, otherwise none."""
