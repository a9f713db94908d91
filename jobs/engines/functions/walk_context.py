"""What a trigger is handed while windows are walked: a context for the elements of one key, one after the
other, and an element only where its code names it.
"""

import dis
from types import FunctionType
from typing import Any, Final

from slackwater.jobs.engines.functions.key_timers import KeyTimers
from slackwater.windowing.java import LONG_MIN
from slackwater.windowing.runtime.window_contexts import OperatorTriggerContext
from slackwater.windowing.state.backend import StateBackend
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.triggers import Trigger
from slackwater.windowing.windows import Window

_NONE: Final = (LONG_MIN, None, -1)
# Ways to a variable that don't name it.
_OTHER_WAYS: Final = frozenset(
    ("locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "stack")
)


class _KeyAtHand:
    """A KeyContext."""

    __slots__ = ("current_key",)

    def __init__(self) -> None:
        self.current_key: Any = None


class WalkContext(OperatorTriggerContext):
    """A trigger's context, for one key after the other. What has not changed since the last call is not done
    again.
    """

    __slots__ = ("_handle", "_owner", "_pending", "_timers_of_key")

    def __init__(self, backend: StateBackend) -> None:
        self._timers_of_key = KeyTimers(LONG_MIN, LONG_MIN)
        super().__init__(_KeyAtHand(), self._timers_of_key, backend)
        self._owner: tuple[StateDescriptor | None, Window] = (None, None)
        self._handle: Any = None  # of the state that was asked for last
        self._pending: tuple[int, Window, int] = _NONE  # the timer that was registered last, and the removals

    def point_at(self, key: Any, timers: KeyTimers) -> None:
        """The next calls are about windows of `key`, which has these timers."""
        self._keys.current_key = key
        self._timers = self._timers_of_key = timers
        self._pending = _NONE

    def register_event_time_timer(self, timestamp: int) -> None:
        time, window, removals = self._pending
        timers = self._timers_of_key
        if time != timestamp or window is not self.window or removals != timers.removals:
            timers.register_event_time_timer(timestamp, None, self.window)
            self._pending = timestamp, self.window, timers.removals

    def get_partitioned_state(self, descriptor: StateDescriptor) -> Any:
        of_descriptor, window = self._owner
        if of_descriptor is not descriptor or window is not self.window:
            self._owner = descriptor, self.window
            self._handle = super().get_partitioned_state(descriptor)
        return self._handle


def looks_at_elements(trigger: Trigger) -> bool:
    """Whether `trigger` may look at the elements that it is asked about: it has not promised that it doesn't,
    and its code names them.
    """
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
