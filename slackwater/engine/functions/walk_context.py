"""A trigger's context for the elements of one key after the other."""

import dis
from types import FunctionType
from typing import Any, Final

from slackwater.engine.functions.held_state import HELD_KINDS, HeldState
from slackwater.engine.functions.key_timers import KeyTimers
from slackwater.windowing.java import LONG_MIN
from slackwater.windowing.state.backend import StateBackend
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.state.handles import bind, mergeable
from slackwater.windowing.triggers import Trigger
from slackwater.windowing.windows import Window

# Ways to a variable that don't name it.
_OTHER_WAYS: Final = frozenset(
    ("locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "stack")
)


class WalkContext(KeyTimers):
    """A trigger's context (TriggerContext, OnMergeContext) for one key after the other, with the timers and
    the state of the key.

    Args:
        backend: the state of triggers and of the function.
        holds_state: whether the state of the key's windows is held here until the key is left: nobody else
            may look at the back end meanwhile.

    Attributes:
        window: the window in question; the walk sets it before each call.
        merged_windows: the absorbed windows, during `on_merge`.
    """

    __slots__ = (
        "_backend",
        "_held_states",
        "_holds_state",
        "current_key",
        "merged_windows",
        "window",
    )

    def __init__(self, backend: StateBackend, holds_state: bool) -> None:
        super().__init__(LONG_MIN, LONG_MIN)
        self._backend, self._holds_state = backend, holds_state
        self.current_key: Any = None
        self.window: Window = None
        self.merged_windows: list[Window] = []
        self._held_states: dict[tuple[str, Window], HeldState] = {}

    def point_at(self, key: Any, watermark: int, clock: int) -> None:
        """The next calls are about windows of `key`, which has no timers yet."""
        self.leave_key()
        self.current_key = key
        self.start_key(watermark, clock)

    def leave_key(self) -> None:
        for state in self._held_states.values():
            state.put_back()
        self._held_states.clear()

    def register_event_time_timer(self, timestamp: int) -> None:
        self.add_event(timestamp, self.window)

    def register_processing_time_timer(self, timestamp: int) -> None:
        self.add_processing(timestamp, self.window)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self.remove_event(timestamp, self.window)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self.remove_processing(timestamp, self.window)

    def get_partitioned_state(self, descriptor: StateDescriptor) -> Any:
        return self.state_of(descriptor, self.window)

    def state_of(self, descriptor: StateDescriptor, window: Window) -> Any:
        name = (descriptor.name, window)
        held_state = self._held_states.get(name)
        if held_state is not None and held_state.kind == descriptor.kind:
            return held_state
        state = self._backend.state(descriptor)
        if not self._holds_state or state.kind not in HELD_KINDS:
            return bind(state, self, window)
        held_state = self._held_states[name] = HELD_KINDS[state.kind](state, self, window)
        return held_state

    def merge_partitioned_state(self, descriptor: StateDescriptor) -> None:
        if self.merged_windows:
            self.leave_key()
            state = mergeable(self._backend.state(descriptor))
            state.merge_namespaces(self.current_key, self.window, self.merged_windows)


def looks_at_elements(trigger: Trigger) -> bool:
    """Whether the trigger has not promised to look at no element, and its code names the element."""
    if not trigger.looks_at_elements:
        return False
    method = type(trigger).on_element
    if not isinstance(method, FunctionType) or getattr(trigger.on_element, "__func__", None) is not method:
        return True
    code = method.__code__
    if code.co_argcount < 2 or not _OTHER_WAYS.isdisjoint(code.co_names):
        return True
    element = code.co_varnames[1]
    return any(instruction.argval == element for instruction in dis.get_instructions(code))
