"""Evictors: frozen values that remove elements from a window for good; they know no state and no timer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple, Protocol

from slackwater.windowing.durations import require_duration_ms
from slackwater.windowing.errors import EmptyViewError, UntimedElementError
from slackwater.windowing.java import wrap_long
from slackwater.windowing.promises import EVERYTHING, withdraw_promises
from slackwater.windowing.windows import Window


class TimestampedValue(NamedTuple):
    """An element and its timestamp (None if it has none), as an evictor sees it (Flink: TimestampedValue)."""

    value: Any
    timestamp_or_none: int | None

    @property
    def has_timestamp(self) -> bool:
        return self.timestamp_or_none is not None

    @property
    def timestamp(self) -> int:
        """Raises UntimedElementError when there is none."""
        if self.timestamp_or_none is None:
            raise UntimedElementError(
                "An evictor asked for the timestamp of an element that has none; assign timestamps first."
            )
        return self.timestamp_or_none


class EvictorContext(Protocol):
    @property
    def current_watermark(self) -> int: ...

    @property
    def current_processing_time(self) -> int: ...


class Evictor:
    """Removes elements from a window (Flink: Evictor). A subclass is a value: comparable, picklable,
    stateless.

    `looks_at_elements` False promises (see `promises`) that it decides by timestamps and counts alone.
    """

    looks_at_elements: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        withdraw_promises(cls, Evictor, {"looks_at_elements": EVERYTHING})

    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Window, context: EvictorContext
    ) -> None:
        """Remove from `elements` in place, before the window function sees them."""
        raise NotImplementedError

    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Window, context: EvictorContext
    ) -> None:
        """Remove from `elements` in place, after the window function; the rest are the new contents."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class _OneSidedEvictor(Evictor):
    """Applies `evict` before the window function or, with `do_evict_after`, after it."""

    do_evict_after: bool = False

    def evict(self, elements: list[TimestampedValue], size: int) -> None:
        raise NotImplementedError

    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Window, context: EvictorContext
    ) -> None:
        if not self.do_evict_after:
            self.evict(elements, size)

    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Window, context: EvictorContext
    ) -> None:
        if self.do_evict_after:
            self.evict(elements, size)


@dataclass(frozen=True, kw_only=True)
class CountEvictor(_OneSidedEvictor):
    """Keeps the last `max_count` elements in list order (Flink: CountEvictor)."""

    looks_at_elements: ClassVar[bool] = False

    max_count: int

    @classmethod
    def of(cls, max_count: int, do_evict_after: bool = False) -> CountEvictor:
        return cls(max_count=max_count, do_evict_after=do_evict_after)

    def evict(self, elements: list[TimestampedValue], size: int) -> None:
        if size > self.max_count:
            del elements[: size - self.max_count]


@dataclass(frozen=True, kw_only=True)
class TimeEvictor(_OneSidedEvictor):
    """Keeps elements with timestamp > greatest timestamp - size; all if the first has none (Flink:
    TimeEvictor).
    """

    looks_at_elements: ClassVar[bool] = False

    size_ms: int

    @classmethod
    def of(cls, size: timedelta, do_evict_after: bool = False) -> TimeEvictor:
        return cls(size_ms=require_duration_ms("The evictor's window", size), do_evict_after=do_evict_after)

    def evict(self, elements: list[TimestampedValue], size: int) -> None:
        if elements and elements[0].has_timestamp:
            cutoff = wrap_long(max(element.timestamp for element in elements) - self.size_ms)
            elements[:] = [element for element in elements if element.timestamp > cutoff]


@dataclass(frozen=True, kw_only=True)
class DeltaEvictor(_OneSidedEvictor):
    """Keeps elements with delta(element, last in list order) < threshold (Flink: DeltaEvictor)."""

    threshold: float
    delta: Callable[[Any, Any], float]

    @classmethod
    def of(
        cls, threshold: float, delta: Callable[[Any, Any], float], do_evict_after: bool = False
    ) -> DeltaEvictor:
        return cls(threshold=threshold, delta=delta, do_evict_after=do_evict_after)

    def evict(self, elements: list[TimestampedValue], size: int) -> None:
        if not elements:
            raise EmptyViewError("DeltaEvictor measures from the last element, but the window holds none.")
        last = elements[-1].value
        elements[:] = [
            element for element in elements if not self.delta(element.value, last) >= self.threshold
        ]
