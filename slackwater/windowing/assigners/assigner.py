"""The interface of window assigners, and the promises that an assigner may make about its windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias

from slackwater.windowing.calendars import Calendar
from slackwater.windowing.errors import MissingTimestampError
from slackwater.windowing.evictors import Evictor
from slackwater.windowing.java import LONG_MIN
from slackwater.windowing.promises import EVERYTHING, withdraw_promises
from slackwater.windowing.triggers import EventTimeTrigger, ProcessingTimeTrigger, Trigger
from slackwater.windowing.windows import MergeCallback, TimeWindow, Window


class AssignerContext(Protocol):
    @property
    def current_processing_time(self) -> int: ...


Assign: TypeAlias = Callable[[Any, int], Sequence[Window]]


class Grid(NamedTuple):
    """The windows [offset + k·slide, offset + k·slide + size), in ms, which follow from timestamps alone."""

    size_ms: int
    slide_ms: int
    offset_ms: int

    @property
    def most_windows(self) -> int:
        return -(-self.size_ms // self.slide_ms)

    def slices_in(self, span_ms: int) -> int:
        """How many slices, longest spans without a window boundary, a time span touches at most."""
        return (span_ms // self.slide_ms + 2) * (1 if self.size_ms % self.slide_ms == 0 else 2)


class CumulativeGrid(NamedTuple):
    """The windows [offset + k·size, offset + k·size + j·step), j = 1 … size / step, in ms: they follow from
    timestamps alone.
    """

    size_ms: int
    step_ms: int
    offset_ms: int

    @property
    def most_windows(self) -> int:
        return self.size_ms // self.step_ms

    def slices_in(self, span_ms: int) -> int:
        """How many slices, longest spans without a window boundary, a time span touches at most."""
        return span_ms // self.step_ms + 2


WindowGrid: TypeAlias = Grid | CumulativeGrid | Calendar

_METHODS_BY_PROMISE: Final = {
    "looks_at_elements": EVERYTHING,
    "grid": EVERYTHING,
    "clock_grid": EVERYTHING,
    "session_gap_ms": EVERYTHING,
    "merges_on_touch": ("merge_windows",),
}


class WindowAssigner:
    """Assigns windows to each element (Flink: WindowAssigner). A subclass is a value: comparable, picklable,
    stateless.

    All attributes and properties but the first two are promises (see `promises`): a subclass has the cautious
    values of this class until it makes a promise itself.

    Attributes:
        is_event_time: windows pass with the watermark; otherwise with the clock, and nothing is ever late.
        looks_at_elements: False promises that `assign_windows` ignores the element itself.
        merges_on_touch: promise that `merge_windows` merges exactly the windows that overlap or touch.
    """

    is_event_time: ClassVar[bool] = True
    window_type: ClassVar[type] = TimeWindow
    looks_at_elements: ClassVar[bool] = True
    merges_on_touch: ClassVar[bool] = False

    @property
    def grid(self) -> WindowGrid | None:
        """Promise that a timestamp selects windows of this grid: fixed ones newest first, cumulative ones
        shortest first, of a calendar the period.
        """
        return None

    @property
    def clock_grid(self) -> Grid | None:
        """Promise that the clock selects windows of this grid, newest first; None: no promise."""
        return None

    @property
    def session_gap_ms(self) -> int | None:
        """Promise of windows [timestamp, timestamp + gap) that merge on touch; None: no promise."""
        return None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        withdraw_promises(cls, WindowAssigner, _METHODS_BY_PROMISE)

    def assign_windows(self, element: Any, timestamp: int, context: AssignerContext) -> Sequence[Window]:
        """The windows in the order in which the operator adds to them. A missing timestamp is Long.MIN."""
        raise NotImplementedError

    def get_default_trigger(self) -> Trigger:
        return EventTimeTrigger() if self.is_event_time else ProcessingTimeTrigger()

    def get_default_evictor(self) -> Evictor | None:
        """The evictor that belongs to the windows, as Flink's countWindow has one; else None."""
        return None

    def bind(self, context: AssignerContext) -> Assign:
        """The function (element, timestamp) → windows for one operator. Do not change what it returns."""
        return lambda element, timestamp: self.assign_windows(element, timestamp, context)


class MergingWindowAssigner(WindowAssigner):
    """An assigner whose windows merge (Flink: MergingWindowAssigner)."""

    def merge_windows(self, windows: Iterable[Window], callback: MergeCallback) -> None:
        """Call `callback(result, members)` for each group of windows that merge."""
        raise NotImplementedError


def check_timestamp(assigner: WindowAssigner, timestamp: int) -> None:
    if timestamp == LONG_MIN:
        raise MissingTimestampError(
            f"{type(assigner).__name__} needs a timestamp, but the element has none (Long.MIN means none); "
            "assign timestamps first."
        )
