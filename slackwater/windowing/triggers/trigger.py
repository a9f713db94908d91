"""The interface of triggers: the five calls that the operator makes, the four results, and the context in
which a trigger registers timers and keeps state.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar, Final, Protocol

from slackwater.windowing.promises import EVERYTHING, withdraw_promises
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.windows import Window


class TriggerResult(Enum):
    """Two independent flags for a window, fire and purge, in this order (Flink: TriggerResult)."""

    CONTINUE = 0
    FIRE = 1
    PURGE = 2
    FIRE_AND_PURGE = 3

    @property
    def is_fire(self) -> bool:
        return bool(self.value & 1)

    @property
    def is_purge(self) -> bool:
        return bool(self.value & 2)

    def merge(self, other: TriggerResult) -> TriggerResult:
        """Fires if either fires, purges if either purges."""
        return TriggerResult(self.value | other.value)


class TriggerContext(Protocol):
    """Time, timers and state of the current key and window, valid during the call (Flink: TriggerContext)."""

    @property
    def current_watermark(self) -> int: ...

    @property
    def current_processing_time(self) -> int: ...

    def register_event_time_timer(self, timestamp: int) -> None:
        """Call `on_event_time` when the watermark reaches `timestamp`; no effect if already registered."""

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call `on_processing_time` when the clock reaches `timestamp`; no effect if already registered."""

    def delete_event_time_timer(self, timestamp: int) -> None: ...

    def delete_processing_time_timer(self, timestamp: int) -> None: ...

    def get_partitioned_state(self, descriptor: StateDescriptor) -> Any:
        """The handle of this key's and window's state, whose name the window function's state shares."""


class OnMergeContext(TriggerContext, Protocol):
    """The context of `on_merge`, which can also merge state."""

    def merge_partitioned_state(self, descriptor: StateDescriptor) -> None:
        """Fold the absorbed windows' state into the merged one's. StateMergeError for value and map state."""


_METHODS: Final = ("on_element", "on_event_time", "on_processing_time", "on_merge", "clear")
_METHODS_BY_PROMISE: Final = {
    "arms_once": ("on_element",),
    "fires_on_timers": _METHODS,
    "fires_at_last_instant": (*_METHODS, "purges"),
    "looks_at_elements": EVERYTHING,
    "firing_trigger": EVERYTHING,
}


class Trigger:
    """Decides when a window fires (Flink: Trigger). A subclass is a value: comparable, picklable; its memory
    is window state.

    All attributes and properties but the first three are promises (see `promises`): a subclass that overrides
    the methods that a promise is about has the cautious value of this class until it makes the promise
    itself.

    Attributes:
        can_merge: whether `on_merge` is implemented; otherwise session windows refuse the trigger.
        purges: whether it may return FIRE_AND_PURGE: each firing then holds only elements since the last one.
        states: descriptors of its per-window state; a subclass repeats its parent's. Snapshots show these as
            the trigger's, and any other state of a window as the window function's.
        arms_once: promise that `on_element` changes nothing and returns CONTINUE while the watermark is
            before the window's last instant and the window has contents already; the operator then does not
            call it.
        fires_on_timers: False promises that it returns CONTINUE for every timer.
        fires_at_last_instant: promise that it fires when the watermark reaches the window's last instant and
            at once for each later element, at no other time, and keeps no state.
        looks_at_elements: False promises that `on_element` ignores the element itself: elements may then lack
            columns that nothing else reads.
    """

    can_merge: ClassVar[bool] = False
    purges: ClassVar[bool] = False
    states: ClassVar[tuple[StateDescriptor, ...]] = ()
    arms_once: ClassVar[bool] = False
    fires_on_timers: ClassVar[bool] = True
    fires_at_last_instant: ClassVar[bool] = False
    looks_at_elements: ClassVar[bool] = True

    @property
    def firing_trigger(self) -> Trigger:
        """The trigger that decides when to fire: this one, or the one inside a trigger that only purges."""
        return self

    @property
    def innermost(self) -> Trigger:
        """The trigger inside all wrapping triggers, or this one."""
        return self

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        withdraw_promises(cls, Trigger, _METHODS_BY_PROMISE)

    def on_element(
        self, element: Any, timestamp: int, window: Window, context: TriggerContext
    ) -> TriggerResult:
        """Called after an element was added, for each of its windows. A missing timestamp is Long.MIN."""
        raise NotImplementedError

    def on_event_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        """Called for each event-time timer of the window, the operator's cleanup timer included."""
        raise NotImplementedError

    def on_processing_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        """Called for each processing-time timer of the window, the operator's cleanup timer included."""
        raise NotImplementedError

    def on_merge(self, window: Window, context: OnMergeContext) -> None:
        """Called when windows have merged, before the absorbed ones are cleared; `on_element` follows."""
        raise NotImplementedError(f"{type(self).__name__} does not merge")

    def clear(self, window: Window, context: TriggerContext) -> None:
        """Remove the window's trigger state and timers: it is collected, or has been absorbed by a merge."""
        raise NotImplementedError
