"""Tumbling and sliding windows of one size, on a grid of starts offset + k·slide, and cumulative windows.

`_AlignedWindows` computes the windows that hold a time; the assigner decides which time: the element's
timestamp or the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Self

from slackwater.windowing.assigners.assigner import (
    Assign,
    AssignerContext,
    CumulativeGrid,
    Grid,
    WindowAssigner,
    check_timestamp,
)
from slackwater.windowing.durations import require_duration_ms
from slackwater.windowing.errors import ConfigurationError, EndlessWindowsError
from slackwater.windowing.java import absolute, quotient, wrap_long
from slackwater.windowing.windows import TimeWindow, Window, window_start

MAX_WINDOWS_PER_ELEMENT = 10_000_000

_NEVER_WRAPS = 2**61  # for sizes and times within ±this, no step of the alignment arithmetic leaves 64 bits
_CACHE_SIZE = 512


@dataclass(frozen=True, kw_only=True)
class _AlignedWindows(WindowAssigner):
    """Windows of `size_ms`, one starting every `slide_ms` ms at offset + k·slide.

    size 10, slide 5, offset 0: time 12 lies in [10, 20) and [5, 15)

    [0 ─────── 10)
         [5 ─────── 15)
              [10 ────── 20)
                 ↑ 12
    """

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
        """Every window [start, start + size) that holds `time`, newest first; all arithmetic wraps.

        Raises EndlessWindowsError if the starts wrap around and would take more than ten million steps.
        """
        start, size, slide = window_start(time, self.offset_ms, self.slide_ms), self.size_ms, self.slide_ms
        oldest = wrap_long(time - size)
        windows = []
        while start > oldest:
            windows.append(TimeWindow(start, wrap_long(start + size)))
            earlier_start = wrap_long(start - slide)
            if earlier_start > start and (earlier_start - oldest) // slide > MAX_WINDOWS_PER_ELEMENT:
                raise EndlessWindowsError(
                    f"An element at {time} ms has more than {MAX_WINDOWS_PER_ELEMENT:,} sliding windows: "
                    f"their starts, {slide} ms apart, wrap around the 64-bit range. Correct or drop its "
                    "timestamp."
                )
            start = earlier_start
        return windows

    def caching(self, assign: Assign) -> Assign:
        """`assign`, whose answer depends on time alone, with a cache keyed by the newest window start.

        Not cached: windows whose newest start does not determine the others (size is no multiple of slide),
        and times at which the arithmetic could wrap.
        """
        size, slide, offset = self.size_ms, self.slide_ms, self.offset_ms
        if size % slide or size >= _NEVER_WRAPS:
            return assign
        windows_by_start: dict[int, Sequence[Window]] = {}
        find = windows_by_start.get

        def assign_cached(element: Any, time: int) -> Sequence[Window]:
            if not -_NEVER_WRAPS < time < _NEVER_WRAPS:
                return assign(element, time)
            last_start = time - (time - offset) % slide
            windows = find(last_start)
            if windows is None:
                if len(windows_by_start) >= _CACHE_SIZE:
                    windows_by_start.clear()
                windows = windows_by_start[last_start] = assign(element, time)
            return windows

        return assign_cached


class _AlignedEventTimeWindows(_AlignedWindows):
    def assign_windows(self, element: Any, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        check_timestamp(self, timestamp)
        return self.aligned_windows(timestamp)

    def bind(self, context: AssignerContext) -> Assign:
        return self.caching(super().bind(context))


class _AlignedProcessingTimeWindows(_AlignedWindows):
    is_event_time = False

    def assign_windows(self, element: Any, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        return self.aligned_windows(context.current_processing_time)

    def bind(self, context: AssignerContext) -> Assign:
        assign = self.caching(lambda element, now: self.aligned_windows(now))
        return lambda element, timestamp: assign(element, context.current_processing_time)


class _TumblingWindows(_AlignedWindows):
    """One window: [s, s + size), s = time - (time - offset) mod size."""

    def aligned_windows(self, time: int) -> list[TimeWindow]:
        start = window_start(time, self.offset_ms, self.size_ms)
        return [TimeWindow(start, wrap_long(start + self.size_ms))]

    @classmethod
    def of(cls, size: timedelta, offset: timedelta = timedelta(0)) -> Self:
        return cls(
            size_ms=require_duration_ms("The window size", size),
            offset_ms=require_duration_ms("The offset", offset),
        )


class TumblingEventTimeWindows(_TumblingWindows, _AlignedEventTimeWindows):
    """Consecutive windows of equal size in event time (Flink: TumblingEventTimeWindows; no staggering)."""

    looks_at_elements: ClassVar[bool] = False

    @property
    def grid(self) -> Grid:
        return Grid(self.size_ms, self.size_ms, self.offset_ms)


class TumblingProcessingTimeWindows(_TumblingWindows, _AlignedProcessingTimeWindows):
    """Consecutive windows of equal size in processing time (Flink: TumblingProcessingTimeWindows)."""

    looks_at_elements: ClassVar[bool] = False

    @property
    def clock_grid(self) -> Grid:
        return Grid(self.size_ms, self.size_ms, self.offset_ms)


@dataclass(frozen=True, kw_only=True)
class _SlidingWindows(_AlignedWindows):
    slide_ms: int = 0  # required: a parent's field has a default, so this one must

    def __post_init__(self) -> None:
        if absolute(self.offset_ms) >= self.slide_ms or self.size_ms <= 0:
            raise ConfigurationError(
                f"{type(self).__name__} needs abs(offset) < slide and size > 0, got size {self.size_ms}, "
                f"slide {self.slide_ms} and offset {self.offset_ms} ms."
            )

    @classmethod
    def of(cls, size: timedelta, slide: timedelta, offset: timedelta = timedelta(0)) -> Self:
        return cls(
            size_ms=require_duration_ms("The window size", size),
            slide_ms=require_duration_ms("The slide", slide),
            offset_ms=require_duration_ms("The offset", offset),
        )


class SlidingEventTimeWindows(_SlidingWindows, _AlignedEventTimeWindows):
    """Overlapping windows in event time, newest first: every [s, s + size) that holds the timestamp, s =
    offset + k·slide (Flink: SlidingEventTimeWindows).

    With slide > size there are gaps: an element in a gap has no window. An element has at most ten million
    windows.
    """

    looks_at_elements: ClassVar[bool] = False

    @property
    def grid(self) -> Grid:
        return Grid(self.size_ms, self.slide_ms, self.offset_ms)

    def __post_init__(self) -> None:
        super().__post_init__()
        if quotient(self.size_ms, self.slide_ms) > MAX_WINDOWS_PER_ELEMENT:
            raise ConfigurationError(
                f"SlidingEventTimeWindows needs size / slide <= {MAX_WINDOWS_PER_ELEMENT}, got "
                f"{self.size_ms} ms / {self.slide_ms} ms."
            )


class SlidingProcessingTimeWindows(_SlidingWindows, _AlignedProcessingTimeWindows):
    """SlidingEventTimeWindows by the clock (Flink: SlidingProcessingTimeWindows)."""

    looks_at_elements: ClassVar[bool] = False

    @property
    def clock_grid(self) -> Grid:
        return Grid(self.size_ms, self.slide_ms, self.offset_ms)


@dataclass(frozen=True, kw_only=True)
class CumulateEventTimeWindows(_AlignedEventTimeWindows):
    """Windows in event time that begin together and end at one step, two steps … and the greatest size, which
    is a multiple of the step (Flink SQL: CUMULATE). An element is in every window [s, s + j·step) that holds
    its timestamp, s = offset + k·size; the shortest comes first.

    size 30, step 10, offset 0: time 12 lies in [0, 20) and [0, 30)

    [0 ─ 10)
    [0 ────── 20)
    [0 ─────────── 30)
           ↑ 12
    """

    looks_at_elements: ClassVar[bool] = False

    step_ms: int = 0  # required: a parent's field has a default, so this one must

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step_ms <= 0 or self.size_ms % self.step_ms:
            raise ConfigurationError(
                f"CumulateEventTimeWindows needs step > 0 and a greatest size that is a multiple of it, got "
                f"size {self.size_ms} and step {self.step_ms} ms."
            )
        if self.size_ms // self.step_ms > MAX_WINDOWS_PER_ELEMENT:
            raise ConfigurationError(
                f"CumulateEventTimeWindows needs size / step <= {MAX_WINDOWS_PER_ELEMENT}, got "
                f"{self.size_ms} ms / {self.step_ms} ms."
            )

    @property
    def slide_ms(self) -> int:
        """Elements of one step have the same windows."""
        return self.step_ms

    @property
    def grid(self) -> CumulativeGrid:
        return CumulativeGrid(self.size_ms, self.step_ms, self.offset_ms)

    def aligned_windows(self, time: int) -> list[TimeWindow]:
        start = window_start(time, self.offset_ms, self.size_ms)
        first_end = wrap_long(window_start(time, self.offset_ms, self.step_ms) + self.step_ms)
        last_end = wrap_long(start + self.size_ms)
        return [TimeWindow(start, end) for end in range(first_end, last_end + 1, self.step_ms)]

    @classmethod
    def of(cls, max_size: timedelta, step: timedelta, offset: timedelta = timedelta(0)) -> Self:
        return cls(
            size_ms=require_duration_ms("The greatest window size", max_size),
            step_ms=require_duration_ms("The step", step),
            offset_ms=require_duration_ms("The offset", offset),
        )
