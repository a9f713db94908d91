"""A trigger's context for the elements of one key after the other."""

import dis
from types import FunctionType
from typing import Any, Final

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
    """A trigger's context (TriggerContext, OnMergeContext) for one key after the other, with the timers of
    the key and the state in `backend`. The walk sets `window` before each call, and `merged_windows`, the
    absorbed ones, for `on_merge`.
    """

    __slots__ = ("_backend", "current_key", "merged_windows", "window")

    def __init__(self, backend: StateBackend) -> None:
        super().__init__(LONG_MIN, LONG_MIN)
        self._backend = backend
        self.current_key: Any = None
        self.window: Window = None
        self.merged_windows: list[Window] = []

    def point_at(self, key: Any, watermark: int, clock: int) -> None:
        """The next calls are about windows of `key`, which has no timers yet."""
        self.current_key = key
        self.start_key(watermark, clock)

    def register_event_time_timer(self, timestamp: int) -> None:
        self.add_event(timestamp, self.window)

    def register_processing_time_timer(self, timestamp: int) -> None:
        self.add_processing(timestamp, self.window)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self.remove_event(timestamp, self.window)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self.remove_processing(timestamp, self.window)

    def get_partitioned_state(self, descriptor: StateDescriptor) -> Any:
        return bind(self._backend.state(descriptor), self, self.window)

    def merge_partitioned_state(self, descriptor: StateDescriptor) -> None:
        if self.merged_windows:
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
    operands = (instruction.argval for instruction in dis.get_instructions(code))
    # Since Python 3.13 one instruction may load two variables, whose names it then has as a tuple.
    return any(
        element in operand if isinstance(operand, tuple) else operand == element for operand in operands
    )
