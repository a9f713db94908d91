"""The timers of one key after the other while their windows are walked, and a trigger's context on them:
event time by the rises of a slice's watermark, processing time by its clock, as `InternalTimerService` and
`ReplayProcessingTimeService` have them.

    heap of event timers         (time, start of the window as unsigned, window)
    heap of processing timers    (newest time that has passed when it fires, time, start, window)

The timers of one key that have one time fire by the bytes of their windows, as in RocksDB's order.
"""

import dis
from bisect import bisect_left
from collections.abc import Iterable
from heapq import heappop, heappush
from types import FunctionType
from typing import Any, Final, Literal

from slackwater.windowing.java import LONG_MAX, LONG_MIN
from slackwater.windowing.state.backend import StateBackend
from slackwater.windowing.state.descriptors import StateDescriptor
from slackwater.windowing.state.handles import bind, mergeable
from slackwater.windowing.triggers import Trigger
from slackwater.windowing.windows import GLOBAL_WINDOW, Window

Domain = Literal["event", "processing"]
TimerOfKey = tuple[int, Window]

_NEVER: Final = 2**63  # after every time
_LONG_MASK: Final = 2**64 - 1


class KeyTimers:
    """The timers of one key. The walk sets watermark and clock, and asks for what is due.

    Attributes:
        current_watermark, current_processing_time: as a trigger's context shows them.
        event: the pending timers of event time.
        processing: pending timers of processing time, with the newest time that has passed when each fires.
        earliest: no timer of event time is due before this watermark.
        is_calling_back: whether timers of processing time are being called. A timer registered meanwhile for
            a time that has passed is called with them.
    """

    __slots__ = (
        "_events",
        "_moments",
        "current_processing_time",
        "current_watermark",
        "earliest",
        "event",
        "is_calling_back",
        "processing",
    )

    def __init__(self, watermark: int, clock: int) -> None:
        self.start_key(watermark, clock)

    def start_key(self, watermark: int, clock: int) -> None:
        """Begin with another key, which has no timers; the last key's stay with whoever holds them."""
        self.current_watermark, self.current_processing_time = watermark, clock
        self.event: set[TimerOfKey] = set()
        self.processing: dict[TimerOfKey, int] = {}
        self.earliest = _NEVER
        self.is_calling_back = False
        self._events: list[tuple[int, int, Window]] = []
        self._moments: list[tuple[int, int, int, Window]] = []

    def restore(self, event: Iterable[TimerOfKey], processing: Iterable[TimerOfKey]) -> None:
        """Take pending timers back."""
        for time, window in event:
            self.add_event(time, window)
        for time, window in processing:
            self.add_processing(time, window)

    def add_event(self, time: int, window: Window) -> None:
        """Add a timer of event time, unless it is pending."""
        timer = (time, window)
        if timer not in self.event:
            self.event.add(timer)
            heappush(self._events, (time, _place(window), window))
            if time < self.earliest:
                self.earliest = time

    def remove_event(self, time: int, window: Window) -> None:
        """Remove a timer of event time, if it is pending."""
        self.event.discard((time, window))

    def add_processing(self, time: int, window: Window) -> None:
        """Add a processing timer unless pending: due 1 ms after its time, or after now if later."""
        timer = (time, window)
        if timer not in self.processing:
            newest_passed = self.current_processing_time - self.is_calling_back
            last_passed_time = self.processing[timer] = max(time, newest_passed)
            heappush(self._moments, (last_passed_time, time, _place(window), window))

    def remove_processing(self, time: int, window: Window) -> None:
        """Remove a timer of processing time, if it is pending."""
        self.processing.pop((time, window), None)

    def next_rise(self, watermarks: list[int], first: int, beyond: int) -> int:
        """The number, from `first`, of the first watermark at which an event timer is due, or `beyond`."""
        events = self._events
        while first < beyond and self.earliest <= watermarks[beyond - 1]:
            if (events[0][0], events[0][2]) in self.event:
                return bisect_left(watermarks, events[0][0], first, beyond)
            self._pop_event()
        return beyond

    def _pop_event(self) -> tuple[int, int, Window]:
        event = heappop(self._events)
        self.earliest = self._events[0][0] if self._events else _NEVER
        return event

    def next_moment(self) -> int:
        """The clock at which the next processing timer is due; a timer at Long.MAX never is."""
        moments = self._moments
        while moments and self.processing.get((moments[0][1], moments[0][3])) != moments[0][0]:
            heappop(moments)
        return moments[0][0] + 1 if moments and moments[0][0] < LONG_MAX else _NEVER

    def poll_event(self) -> TimerOfKey | None:
        """Remove and return the next event timer that the watermark has reached."""
        while self.earliest <= self.current_watermark:
            time, _, window = self._pop_event()
            if (time, window) in self.event:
                self.event.remove((time, window))
                return time, window
        return None

    def poll_processing(self) -> TimerOfKey | None:
        """Remove and return the next processing timer that the clock has passed."""
        moments = self._moments
        while moments and moments[0][0] < self.current_processing_time:
            last_passed_time, time, _, window = heappop(moments)
            if self.processing.get((time, window)) == last_passed_time:
                del self.processing[time, window]
                return time, window
        return None


def _place(window: Window) -> int:
    """The order of a window in its key: by the bytes of its start."""
    return 0 if window is GLOBAL_WINDOW else window.start & _LONG_MASK


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
