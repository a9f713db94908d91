"""Window assigners: which windows an element falls into.

Frozen values that a user declares and executors receive. Operators call what `bind` returns, which may
remember its last answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias

from slackwater.windowing.durations import milliseconds
from slackwater.windowing.errors import ConfigurationError, MissingTimestampError, SessionGapError
from slackwater.windowing.java import LONG_MIN, absolute, quotient, wrap_long
from slackwater.windowing.promises import EVERYTHING, withdraw_promises
from slackwater.windowing.triggers import (
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    Trigger,
)
from slackwater.windowing.windows import (
    GLOBAL_WINDOW,
    GlobalWindow,
    MergeCallback,
    TimeWindow,
    Window,
    merge_time_windows,
    window_start,
)

MAX_WINDOWS_PER_ELEMENT = 10_000_000

_UNWRAPPED = 2**61  # within ±this, no step of the alignment arithmetic leaves 64 bits
_REMEMBERED = 512


class AssignerContext(Protocol):
    """What an assigner may ask for."""

    @property
    def current_processing_time(self) -> int: ...


Assign: TypeAlias = Callable[[Any, int], Sequence[Window]]


class Grid(NamedTuple):
    """Windows that timestamps alone place: every [offset + k·slide, offset + k·slide + size), in
    milliseconds.
    """

    size_ms: int
    slide_ms: int
    offset_ms: int


_METHODS_BY_PROMISE: Final = {
    "looks_at_elements": EVERYTHING,
    "grid": EVERYTHING,
    "session_gap_ms": EVERYTHING,
    "merges_on_touch": ("merge_windows",),
}


class WindowAssigner:
    """Gives each element its windows (Flink: WindowAssigner). A subclass is a value: comparable, picklable,
    without state.

    What an assigner is like, it says itself. All but the first two answers are promises (see `promises`): a
    subclass has the cautious answers of this class until it makes the promises itself.

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
    def grid(self) -> Grid | None:
        """Promise that an element's timestamp places its windows on this grid, newest first; None if not."""
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


@dataclass(frozen=True, kw_only=True)
class _Aligned(WindowAssigner):
    """Windows of `size_ms`, one starting every `slide_ms` ms at offset + k·slide."""

    size_ms: int
    offset_ms: int = 0

    def __post_init__(self) -> None:
        if absolute(self.offset_ms) >= self.size_ms:
            raise ConfigurationError(
                f"{type(self).__name__} needs abs(offset) < size and size > 0, got size {self.size_ms} and "
                f"offset {self.offset_ms} ms."
            )

    @property
    def slide_ms(self) -> int:
        return self.size_ms

    def aligned_windows(self, time: int) -> list[TimeWindow]:
        """Every window [start, start + size) that holds `time`, newest first; all arithmetic wraps."""
        start, size, slide = window_start(time, self.offset_ms, self.slide_ms), self.size_ms, self.slide_ms
        oldest = wrap_long(time - size)
        windows = []
        while start > oldest:
            windows.append(TimeWindow(start, wrap_long(start + size)))
            start = wrap_long(start - slide)
        return windows

    def remembering(self, assign: Assign) -> Assign:
        """`assign`, which depends on time alone, but with the same windows again, as the same objects, for
        times that have the same.
        """
        size, slide, offset = self.size_ms, self.slide_ms, self.offset_ms
        if size % slide or size >= _UNWRAPPED:
            return assign
        known: dict[int, Sequence[Window]] = {}
        find = known.get

        def assign_known(element: Any, time: int) -> Sequence[Window]:
            if not -_UNWRAPPED < time < _UNWRAPPED:
                return assign(element, time)
            last_start = time - (time - offset) % slide
            windows = find(last_start)
            if windows is None:
                if len(known) >= _REMEMBERED:
                    known.clear()
                windows = known[last_start] = assign(element, time)
            return windows

        return assign_known


class _AlignedEventTime(_Aligned):
    def assign_windows(self, element: Any, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        _check_timestamp(self, timestamp)
        return self.aligned_windows(timestamp)

    def bind(self, context: AssignerContext) -> Assign:
        return self.remembering(super().bind(context))


def _check_timestamp(assigner: Any, timestamp: int) -> None:
    if timestamp == LONG_MIN:
        raise MissingTimestampError(
            f"{type(assigner).__name__} needs a timestamp, but the element has none (Long.MIN means none); "
            "assign timestamps first."
        )


class _AlignedProcessingTime(_Aligned):
    is_event_time = False

    def assign_windows(self, element: Any, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        return self.aligned_windows(context.current_processing_time)

    def bind(self, context: AssignerContext) -> Assign:
        assign = self.remembering(lambda element, now: self.aligned_windows(now))
        return lambda element, timestamp: assign(element, context.current_processing_time)


class _Tumbling(_Aligned):
    """One window: [s, s + size), s = time - (time - offset) mod size."""

    def aligned_windows(self, time: int) -> list[TimeWindow]:
        start = window_start(time, self.offset_ms, self.size_ms)
        return [TimeWindow(start, wrap_long(start + self.size_ms))]


class TumblingEventTimeWindows(_Tumbling, _AlignedEventTime):
    """Windows of equal size that follow each other in event time (Flink: TumblingEventTimeWindows, without
    staggering).
    """

    looks_at_elements: ClassVar[bool] = False

    @property
    def grid(self) -> Grid:
        return Grid(self.size_ms, self.size_ms, self.offset_ms)

    @classmethod
    def of(cls, size: timedelta, offset: timedelta = timedelta(0)) -> TumblingEventTimeWindows:
        return cls(
            size_ms=milliseconds("The window size", size), offset_ms=milliseconds("The offset", offset)
        )


class TumblingProcessingTimeWindows(_Tumbling, _AlignedProcessingTime):
    """Windows of equal size that follow each other in processing time (Flink:
    TumblingProcessingTimeWindows).
    """

    looks_at_elements: ClassVar[bool] = False

    @classmethod
    def of(cls, size: timedelta, offset: timedelta = timedelta(0)) -> TumblingProcessingTimeWindows:
        return cls(
            size_ms=milliseconds("The window size", size), offset_ms=milliseconds("The offset", offset)
        )


@dataclass(frozen=True, kw_only=True)
class SlidingEventTimeWindows(_AlignedEventTime):
    """Overlapping windows in event time, newest first: every [s, s + size) that holds the timestamp, s =
    offset + k·slide.

    With slide > size there are gaps: an element in one has no window. At most ten million windows for an
    element.
    Flink: SlidingEventTimeWindows.
    """

    looks_at_elements: ClassVar[bool] = False

    slide_ms: int = 0  # required: a parent's field has a default, so this one must

    @property
    def grid(self) -> Grid:
        return Grid(self.size_ms, self.slide_ms, self.offset_ms)

    def __post_init__(self) -> None:
        _check_sliding(self)
        if quotient(self.size_ms, self.slide_ms) > MAX_WINDOWS_PER_ELEMENT:
            raise ConfigurationError(
                f"SlidingEventTimeWindows needs size / slide <= {MAX_WINDOWS_PER_ELEMENT}, got "
                f"{self.size_ms} ms / {self.slide_ms} ms."
            )

    @classmethod
    def of(
        cls, size: timedelta, slide: timedelta, offset: timedelta = timedelta(0)
    ) -> SlidingEventTimeWindows:
        return cls(**_sliding(size, slide, offset))


@dataclass(frozen=True, kw_only=True)
class SlidingProcessingTimeWindows(_AlignedProcessingTime):
    """SlidingEventTimeWindows by the clock (Flink: SlidingProcessingTimeWindows)."""

    looks_at_elements: ClassVar[bool] = False

    slide_ms: int = 0

    def __post_init__(self) -> None:
        _check_sliding(self)

    @classmethod
    def of(
        cls, size: timedelta, slide: timedelta, offset: timedelta = timedelta(0)
    ) -> SlidingProcessingTimeWindows:
        return cls(**_sliding(size, slide, offset))


def _check_sliding(assigner: _Aligned) -> None:
    if absolute(assigner.offset_ms) >= assigner.slide_ms or assigner.size_ms <= 0:
        raise ConfigurationError(
            f"{type(assigner).__name__} needs abs(offset) < slide and size > 0, got size {assigner.size_ms}, "
            f"slide {assigner.slide_ms}"
            f" and offset {assigner.offset_ms} ms."
        )


def _sliding(size: timedelta, slide: timedelta, offset: timedelta) -> dict[str, int]:
    return {
        "size_ms": milliseconds("The window size", size),
        "slide_ms": milliseconds("The slide", slide),
        "offset_ms": milliseconds("The offset", offset),
    }


class _Sessions(MergingWindowAssigner):
    """Windows that merge when they overlap or touch."""

    merges_on_touch: ClassVar[bool] = True

    def merge_windows(self, windows: Iterable[TimeWindow], callback: MergeCallback) -> None:
        merge_time_windows(windows, callback)


@dataclass(frozen=True, kw_only=True)
class _FixedGap(_Sessions):
    gap_ms: int

    def __post_init__(self) -> None:
        if self.gap_ms <= 0:
            raise ConfigurationError(f"{type(self).__name__} needs gap > 0, got {self.gap_ms} ms.")


class EventTimeSessionWindows(_FixedGap):
    """Sessions in event time: each element opens [t, t + gap), and windows that touch merge (Flink:
    EventTimeSessionWindows).
    """

    looks_at_elements: ClassVar[bool] = False

    @property
    def session_gap_ms(self) -> int:
        return self.gap_ms

    @classmethod
    def with_gap(cls, gap: timedelta) -> EventTimeSessionWindows:
        return cls(gap_ms=milliseconds("The session gap", gap))

    @staticmethod
    def with_dynamic_gap(gap_of: Callable[[Any], timedelta]) -> DynamicEventTimeSessionWindows:
        """Sessions whose gap each element decides."""
        return DynamicEventTimeSessionWindows(gap_ms_of=_GapInMilliseconds(gap_of))

    def assign_windows(self, element: Any, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        return [TimeWindow(timestamp, wrap_long(timestamp + self.gap_ms))]


class ProcessingTimeSessionWindows(_FixedGap):
    """Sessions by the clock: each element opens [now, now + gap) (Flink: ProcessingTimeSessionWindows)."""

    is_event_time = False
    looks_at_elements: ClassVar[bool] = False

    @classmethod
    def with_gap(cls, gap: timedelta) -> ProcessingTimeSessionWindows:
        return cls(gap_ms=milliseconds("The session gap", gap))

    @staticmethod
    def with_dynamic_gap(gap_of: Callable[[Any], timedelta]) -> DynamicProcessingTimeSessionWindows:
        """Sessions whose gap each element decides."""
        return DynamicProcessingTimeSessionWindows(gap_ms_of=_GapInMilliseconds(gap_of))

    def assign_windows(self, element: Any, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        now = context.current_processing_time
        return [TimeWindow(now, wrap_long(now + self.gap_ms))]


@dataclass(frozen=True)
class _GapInMilliseconds:
    """A user's element → timedelta as element → milliseconds."""

    gap_of: Callable[[Any], timedelta]

    def __call__(self, element: Any) -> int:
        return milliseconds("A dynamic session gap", self.gap_of(element))


@dataclass(frozen=True, kw_only=True)
class _DynamicGap(_Sessions):
    gap_ms_of: Callable[[Any], int]

    def session(self, element: Any, time: int) -> list[TimeWindow]:
        gap = self.gap_ms_of(element)
        if gap <= 0:
            raise SessionGapError(f"{type(self).__name__} needs gap > 0 for each element, got {gap} ms.")
        return [TimeWindow(time, wrap_long(time + gap))]


class DynamicEventTimeSessionWindows(_DynamicGap):
    """Sessions in event time, [t, t + gap(element)) (Flink: DynamicEventTimeSessionWindows)."""

    def assign_windows(self, element: Any, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        return self.session(element, timestamp)


class DynamicProcessingTimeSessionWindows(_DynamicGap):
    """Sessions by the clock, [now, now + gap(element)) (Flink: DynamicProcessingTimeSessionWindows)."""

    is_event_time = False

    def assign_windows(self, element: Any, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        return self.session(element, context.current_processing_time)


@dataclass(frozen=True, kw_only=True)
class GlobalWindows(WindowAssigner):
    """One window for all elements (Flink: GlobalWindows). Nothing is ever late, and nothing fires unless a
    trigger says so.

    Attributes:
        fires_at_end_of_stream: whether the default trigger fires at the final watermark instead of never.
    """

    is_event_time: ClassVar[bool] = False
    window_type: ClassVar[type] = GlobalWindow
    looks_at_elements: ClassVar[bool] = False

    fires_at_end_of_stream: bool = False

    @classmethod
    def create(cls) -> GlobalWindows:
        return cls()

    @classmethod
    def create_with_end_of_stream_trigger(cls) -> GlobalWindows:
        return cls(fires_at_end_of_stream=True)

    def assign_windows(
        self, element: Any, timestamp: int, context: AssignerContext
    ) -> Sequence[GlobalWindow]:
        return _GLOBAL

    def get_default_trigger(self) -> Trigger:
        return EndOfStreamTrigger() if self.fires_at_end_of_stream else NeverTrigger()


_GLOBAL: tuple[GlobalWindow] = (GLOBAL_WINDOW,)
