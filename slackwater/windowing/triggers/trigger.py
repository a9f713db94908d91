"""What a trigger is: the five calls that the operator makes, the four results, and the context in which a
trigger registers timers and keeps state.

Interfaces only; the built-in triggers are beside this file.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar, Final, Protocol

from slackwater.windowing.promises import EVERYTHING, withdraw_promises
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.windows import Window


class TriggerResult(Enum):
    """What happens to a window: two independent flags, fire and purge (Flink: TriggerResult). Fire comes
    before purge.
    """

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
    """Time, timers and state of the key and window in question (Flink: Trigger.TriggerContext). Valid during
    the call only.
    """

    @property
    def current_watermark(self) -> int: ...

    @property
    def current_processing_time(self) -> int: ...

    def register_event_time_timer(self, timestamp: int) -> None:
        """Have `on_event_time` called when the watermark reaches `timestamp`. A timer that is registered
        already stays.
        """

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Have `on_processing_time` called when the clock reaches `timestamp`. A timer that is registered
        already stays.
        """

    def delete_event_time_timer(self, timestamp: int) -> None: ...

    def delete_processing_time_timer(self, timestamp: int) -> None: ...

    def get_partitioned_state(self, descriptor: StateDescriptor) -> Any:
        """The handle of this key's and window's state. Its name is shared with the window function's
        per-window state.
        """


class OnMergeContext(TriggerContext, Protocol):
    """The context of `on_merge`, which can also merge state."""

    def merge_partitioned_state(self, descriptor: StateDescriptor) -> None:
        """Fold the absorbed windows' state into the merged window's. Raises StateMergeError for value and map
        state.
        """


_METHODS: Final = ("on_element", "on_event_time", "on_processing_time", "on_merge", "clear")
_METHODS_BY_PROMISE: Final = {
    "arms_once": ("on_element",),
    "fires_on_timers": _METHODS,
    "fires_at_last_instant": (*_METHODS, "purges"),
    "looks_at_elements": EVERYTHING,
    "firing_trigger": EVERYTHING,
}


class Trigger:
    """Decides when a window fires (Flink: Trigger). A subclass is a value: comparable, picklable; what it
    remembers is window state.

    Class attributes and properties describe the trigger to the operator and the engines. All but the first
    three are promises (see `promises`): a subclass that overrides the methods that a promise is about has the
    cautious value of this class until it makes the promise itself.

    Attributes:
        can_merge: whether `on_merge` is implemented; without it the trigger is refused for session windows.
        purges: whether it may answer FIRE_AND_PURGE: each firing then holds only what came since the one
            before.
        states: descriptors of the state that it keeps for each window; a subclass repeats its parent's. A
            snapshot shows them as the trigger's, and any other state of a window as the window function's.
        arms_once: promise that `on_element` changes nothing and answers CONTINUE while the watermark is
            before the window's last instant and the window has contents already. The operator then does not
            ask.
        fires_on_timers: False promises that it answers CONTINUE to every timer.
        fires_at_last_instant: promise that it fires when the watermark reaches the window's last instant and
            at once for each later element, at no other time, and keeps no state.
        looks_at_elements: False promises that `on_element` ignores the element itself: elements may then
            lack columns that nothing else reads.
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
        """The trigger inside all triggers that wrap another; this one when it wraps none."""
        return self

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        withdraw_promises(cls, Trigger, _METHODS_BY_PROMISE)

    def on_element(
        self, element: Any, timestamp: int, window: Window, context: TriggerContext
    ) -> TriggerResult:
        """Called for each element of each of its windows, after it was added. `timestamp` is Long.MIN for an
        element without one.
        """
        raise NotImplementedError

    def on_event_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        """Called for each event-time timer of the window, the operator's cleanup timer included."""
        raise NotImplementedError

    def on_processing_time(self, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        """Called for each processing-time timer of the window, the operator's cleanup timer included."""
        raise NotImplementedError

    def on_merge(self, window: Window, context: OnMergeContext) -> None:
        """Called when windows have become `window`, before the absorbed ones are cleared; `on_element`
        follows.
        """
        raise NotImplementedError(f"{type(self).__name__} does not merge")

    def clear(self, window: Window, context: TriggerContext) -> None:
        """Remove the window's trigger state and timers: it is collected, or has been absorbed by a merge."""
        raise NotImplementedError
