"""What a window assigner is: the call that the operator makes for each element, and what an assigner may
promise about the windows that it gives.

Interfaces only; the built-in assigners are beside this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias

from slackwater.windowing.calendars import Calendar
from slackwater.windowing.errors import MissingTimestampError
from slackwater.windowing.java import LONG_MIN
from slackwater.windowing.promises import EVERYTHING, withdraw_promises
from slackwater.windowing.triggers import EventTimeTrigger, ProcessingTimeTrigger, Trigger
from slackwater.windowing.windows import MergeCallback, TimeWindow, Window


class AssignerContext(Protocol):
    """What an assigner may look up: the processing time."""

    @property
    def current_processing_time(self) -> int: ...


Assign: TypeAlias = Callable[[Any, int], Sequence[Window]]


class Grid(NamedTuple):
    """The grid of windows [offset + k·slide, offset + k·slide + size), in milliseconds: which of them an
    element has depends on its timestamp only.
    """

    size_ms: int
    slide_ms: int
    offset_ms: int

    @property
    def most_windows(self) -> int:
        """In how many windows an instant lies at most."""
        return -(-self.size_ms // self.slide_ms)

    def slices_in(self, span_ms: int) -> int:
        """How many slices a span of time of this length touches at most; a slice is a longest span that no
        window divides.
        """
        return (span_ms // self.slide_ms + 2) * (1 if self.size_ms % self.slide_ms == 0 else 2)


_METHODS_BY_PROMISE: Final = {
    "looks_at_elements": EVERYTHING,
    "grid": EVERYTHING,
    "clock_grid": EVERYTHING,
    "session_gap_ms": EVERYTHING,
    "merges_on_touch": ("merge_windows",),
}


class WindowAssigner:
    """Gives each element its windows (Flink: WindowAssigner). A subclass is a value: comparable, picklable,
    without state.

    Class attributes and properties describe the assigner to the operator and the engines. All but the first
    two are promises (see `promises`): a subclass has the cautious values of this class until it makes a
    promise itself.

    Attributes:
        is_event_time: whether windows pass with the watermark; otherwise with the clock, and nothing is ever
            late.
        window_type: class of its windows.
        looks_at_elements: False promises that `assign_windows` ignores the element itself.
        merges_on_touch: promise that `merge_windows` merges windows that overlap or touch, and no others.
    """

    is_event_time: ClassVar[bool] = True
    window_type: ClassVar[type] = TimeWindow
    looks_at_elements: ClassVar[bool] = True
    merges_on_touch: ClassVar[bool] = False

    @property
    def grid(self) -> Grid | Calendar | None:
        """Promise that an element's timestamp places its windows on this grid, newest first, or in the one
        period of this calendar that holds it; None if not.
        """
        return None

    @property
    def clock_grid(self) -> Grid | None:
        """Promise that the clock at an element places its windows on this grid, newest first; None if not."""
        return None

    @property
    def session_gap_ms(self) -> int | None:
        """Promise that each element has the window [timestamp, timestamp + gap), and that windows merge on
        touch; None if not.
        """
        return None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        withdraw_promises(cls, WindowAssigner, _METHODS_BY_PROMISE)

    def assign_windows(self, element: Any, timestamp: int, context: AssignerContext) -> Sequence[Window]:
        """The windows, in the order in which the operator takes them. `timestamp` is Long.MIN for an element
        without one.
        """
        raise NotImplementedError

    def get_default_trigger(self) -> Trigger:
        """The trigger used unless the user names one."""
        return EventTimeTrigger() if self.is_event_time else ProcessingTimeTrigger()

    def bind(self, context: AssignerContext) -> Assign:
        """(element, timestamp) → windows, for one operator. The sequence returned is not to be changed."""
        return lambda element, timestamp: self.assign_windows(element, timestamp, context)


class MergingWindowAssigner(WindowAssigner):
    """Gives windows that merge (Flink: MergingWindowAssigner)."""

    def merge_windows(self, windows: Iterable[Window], callback: MergeCallback) -> None:
        """Call `callback(result, members)` for each group of windows that become one."""
        raise NotImplementedError


def check_timestamp(assigner: WindowAssigner, timestamp: int) -> None:
    """Refuse an element without a timestamp.

    Raises:
        MissingTimestampError: the timestamp is Long.MIN.
    """
    if timestamp == LONG_MIN:
        raise MissingTimestampError(
            f"{type(assigner).__name__} needs a timestamp, but the element has none (Long.MIN means none); "
            "assign timestamps first."
        )
