"""Sessions: each element opens a window, and windows that overlap or touch merge. Fixed or dynamic gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Self

from slackwater.windowing.assigners.assigner import AssignerContext, MergingWindowAssigner
from slackwater.windowing.durations import LONGEST, require_duration_ms
from slackwater.windowing.errors import ConfigurationError, SessionGapError
from slackwater.windowing.java import wrap_long
from slackwater.windowing.windows import MergeCallback, TimeWindow, merge_time_windows


class _SessionWindows(MergingWindowAssigner):
    merges_on_touch: ClassVar[bool] = True

    def merge_windows(self, windows: Iterable[TimeWindow], callback: MergeCallback) -> None:
        merge_time_windows(windows, callback)


@dataclass(frozen=True, kw_only=True)
class _FixedGapSessions(_SessionWindows):
    gap_ms: int

    def __post_init__(self) -> None:
        if self.gap_ms <= 0:
            raise ConfigurationError(f"{type(self).__name__} needs gap > 0, got {self.gap_ms} ms.")

    @classmethod
    def with_gap(cls, gap: timedelta) -> Self:
        return cls(gap_ms=require_duration_ms("The session gap", gap))


class EventTimeSessionWindows(_FixedGapSessions):
    """Sessions in event time: windows [t, t + gap) that touch merge (Flink: EventTimeSessionWindows)."""

    looks_at_elements: ClassVar[bool] = False

    @property
    def session_gap_ms(self) -> int:
        return self.gap_ms

    @staticmethod
    def with_dynamic_gap(gap_of: Callable[[Any], timedelta]) -> DynamicEventTimeSessionWindows:
        """Sessions with a gap computed from each element."""
        return DynamicEventTimeSessionWindows(gap_ms_of=_GapInMilliseconds(gap_of))

    def assign_windows(self, element: Any, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        # By `tuple`: TimeWindow's constructor costs a call more, and each element has a window of its own.
        return [tuple.__new__(TimeWindow, (timestamp, wrap_long(timestamp + self.gap_ms)))]


class ProcessingTimeSessionWindows(_FixedGapSessions):
    """Sessions by the clock: each element opens [now, now + gap) (Flink: ProcessingTimeSessionWindows)."""

    is_event_time = False
    looks_at_elements: ClassVar[bool] = False

    @staticmethod
    def with_dynamic_gap(gap_of: Callable[[Any], timedelta]) -> DynamicProcessingTimeSessionWindows:
        """Sessions with a gap computed from each element."""
        return DynamicProcessingTimeSessionWindows(gap_ms_of=_GapInMilliseconds(gap_of))

    def assign_windows(self, element: Any, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        now = context.current_processing_time
        return [TimeWindow(now, wrap_long(now + self.gap_ms))]


@dataclass(frozen=True)
class _GapInMilliseconds:
    """A user's gap function in milliseconds. Configuration hashes contain the names of class and field."""

    gap_of: Callable[[Any], timedelta]

    def __call__(self, element: Any) -> int:
        gap = self.gap_of(element)
        gap_ms = require_duration_ms("A dynamic session gap", gap)
        if gap > LONGEST:
            raise SessionGapError(f"A dynamic session gap is at most {LONGEST.days:,} days, got {gap}.")
        return gap_ms


@dataclass(frozen=True, kw_only=True)
class _DynamicGapSessions(_SessionWindows):
    gap_ms_of: Callable[[Any], int]

    def session(self, element: Any, time: int) -> list[TimeWindow]:
        gap = self.gap_ms_of(element)
        if gap <= 0:
            raise SessionGapError(f"{type(self).__name__} needs gap > 0 for each element, got {gap} ms.")
        return [TimeWindow(time, wrap_long(time + gap))]


class DynamicEventTimeSessionWindows(_DynamicGapSessions):
    """Sessions in event time, [t, t + gap(element)) (Flink: DynamicEventTimeSessionWindows)."""

    def assign_windows(self, element: Any, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        return self.session(element, timestamp)


class DynamicProcessingTimeSessionWindows(_DynamicGapSessions):
    """Sessions by the clock, [now, now + gap(element)) (Flink: DynamicProcessingTimeSessionWindows)."""

    is_event_time = False

    def assign_windows(self, element: Any, timestamp: int, context: AssignerContext) -> list[TimeWindow]:
        return self.session(element, context.current_processing_time)
