"""The functions that users write, on elements, on the contents of windows and on timers, and the contexts
that they are called with.

Signatures are Flink's in snake case; as in PyFlink, results are returned or yielded. No runtime here.
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
    """Gives state of the current key (Flink: KeyedStateStore). Handles follow the operator's current key."""

    def get_state(self, descriptor: ValueStateDescriptor) -> ValueState: ...

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState: ...

    def get_map_state(self, descriptor: MapStateDescriptor) -> MapState: ...

    def get_reducing_state(self, descriptor: ReducingStateDescriptor) -> ReducingState: ...

    def get_aggregating_state(self, descriptor: AggregatingStateDescriptor) -> AggregatingState: ...


RuntimeContext: TypeAlias = KeyedStateStore


class Function:
    """Base of the functions that users write. An operator opens its own copy once before the first element
    and closes it once at the end.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once per operator. State got here is the same as the context's `global_state()`."""

    def close(self) -> None:
        """Called once when the operator is closed, also after a failure."""


class AllWindowContext(Protocol):
    """The context of a call of a ProcessAllWindowFunction. Valid during the call only.

    Attributes:
        window: the window that fires, or that is being cleared.
    """

    window: Window

    def window_state(self) -> KeyedStateStore:
        """State of this key and window. Whoever uses it clears it in `clear`. Raises StateAccessError when
        windows merge.
        """

    def global_state(self) -> KeyedStateStore:
        """State of this key, over all windows. Nothing removes it but the function itself."""

    def output(self, tag: str, value: Any) -> None:
        """A row of the side output `tag`, stamped with the window's last instant."""


class WindowContext(AllWindowContext, Protocol):
    """The context of a call of a ProcessWindowFunction."""

    @property
    def current_watermark(self) -> int: ...

    @property
    def current_processing_time(self) -> int: ...


class ProcessWindowFunction(Function):
    """Turns the contents of one key's window into rows (Flink: ProcessWindowFunction)."""

    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Results:
        """Called at each firing of a window that has contents. Yield or return rows; each is stamped with the
        window's last instant.
        """
        raise NotImplementedError

    def clear(self, context: WindowContext) -> None:
        """Called once, when the window is collected; the contents are gone, per-window state is still
        there.
        """


class WindowFunction(Function):
    """The older form of ProcessWindowFunction, without a context (Flink: WindowFunction)."""

    def apply(self, key: Any, window: Window, inputs: Iterable[Any]) -> Results:
        raise NotImplementedError


class ProcessAllWindowFunction(Function):
    """ProcessWindowFunction for windows over all elements, whatever their key (Flink:
    ProcessAllWindowFunction).
    """

    def process(self, context: AllWindowContext, elements: Iterable[Any]) -> Results:
        raise NotImplementedError

    def clear(self, context: AllWindowContext) -> None:
        """Called once, when the window is collected."""


class AllWindowFunction(Function):
    """WindowFunction for windows over all elements (Flink: AllWindowFunction)."""

    def apply(self, window: Window, inputs: Iterable[Any]) -> Results:
        raise NotImplementedError


class TimerService(Protocol):
    """Time and timers of the current key (Flink: TimerService). A timer is its domain, time and key; it
    exists once.
    """

    @property
    def current_watermark(self) -> int: ...

    @property
    def current_processing_time(self) -> int: ...

    def register_event_time_timer(self, timestamp: int) -> None: ...

    def register_processing_time_timer(self, timestamp: int) -> None: ...

    def delete_event_time_timer(self, timestamp: int) -> None: ...

    def delete_processing_time_timer(self, timestamp: int) -> None: ...


class KeyedProcessContext(Protocol):
    """The context of a call of `process_element`. Valid during the call only.

    Attributes:
        current_key: the element's key.
        timestamp: the element's timestamp, None when it has none.
        timer_service: this key's timers.
    """

    @property
    def current_key(self) -> Any: ...

    @property
    def timestamp(self) -> int | None: ...

    @property
    def timer_service(self) -> TimerService: ...

    def output(self, tag: str, value: Any) -> None:
        """A row of the side output `tag`. Raises ConfigurationError for a tag of None."""


class OnTimerContext(KeyedProcessContext, Protocol):
    """The context of a call of `on_timer`.

    Attributes:
        time_domain: "event" or "processing".
    """

    @property
    def time_domain(self) -> str: ...


class KeyedProcessFunction(Function):
    """A function with state and timers of its own, for each key (Flink: KeyedProcessFunction)."""

    def process_element(self, value: Any, context: KeyedProcessContext) -> Results:
        """Called for each element. Rows inherit the element's timestamp."""
        raise NotImplementedError

    def on_timer(self, timestamp: int, context: OnTimerContext) -> Results:
        """Called for each timer that is due. Rows of an event-time timer carry its timestamp, those of a
        processing-time timer none.
        """
