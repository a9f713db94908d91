"""Declared watermark strategies, frozen and picklable; generators.py and columnar/timeline apply them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal, get_args

from slackwater.windowing.durations import require_duration_ms
from slackwater.windowing.errors import ConfigurationError
from slackwater.windowing.watermarks.generators import (
    AscendingTimestampsWatermarks,
    BoundedOutOfOrdernessWatermarks,
    NoWatermarksGenerator,
    PunctuatedWatermarks,
    WatermarkGenerator,
    WatermarksWithIdleness,
)

Kind = Literal["bounded_out_of_orderness", "monotonous", "no_watermarks", "punctuated"]
WatermarkFunction = Callable[[Any, int], int | None]


@dataclass(frozen=True, kw_only=True, repr=False)
class WatermarkStrategy:
    """Declares when event time has passed t, for each partition of a source (Flink: WatermarkStrategy).

    Build it with `bounded_out_of_orderness`, `monotonous`, `no_watermarks` or `punctuated`, and refine it
    with `with_idleness` and `with_interval`. Durations are timedeltas of whole milliseconds; what Flink
    refuses is refused with a ConfigurationError.

    Attributes:
        out_of_orderness_ms: the bound; 0 for all kinds but bounded_out_of_orderness.
        idle_timeout_ms: after so long without an element a source partition no longer holds the watermark
            back; None = it always does.
        interval_ms: Flink's auto-watermark interval, the length of a tick; 0 = no periodic watermarks.
        watermark_of: for punctuated, the function (element, timestamp) -> watermark or None; else None.
    """

    kind: Kind
    out_of_orderness_ms: int = 0
    idle_timeout_ms: int | None = None
    interval_ms: int = 200
    watermark_of: WatermarkFunction | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ConfigurationError(
                f"WatermarkStrategy: kind {self.kind!r} is none of {', '.join(get_args(Kind))}."
            )
        if self.out_of_orderness_ms < 0:
            raise _refusal("out_of_orderness", self.out_of_orderness_ms, "must not be negative")
        if self.idle_timeout_ms is not None and self.idle_timeout_ms <= 0:
            raise _refusal("idle timeout", self.idle_timeout_ms, "must be greater than zero")
        if self.interval_ms < 0:
            raise _refusal(
                "interval", self.interval_ms, "must not be negative; zero means no periodic watermarks"
            )
        if (self.kind == "punctuated") != callable(self.watermark_of):
            raise ConfigurationError(
                "WatermarkStrategy: a punctuated one, and no other, needs a function; got "
                f"{self.watermark_of!r}."
            )
        if self.kind != "bounded_out_of_orderness" and self.out_of_orderness_ms:
            raise _refusal(
                "out_of_orderness", self.out_of_orderness_ms, f"must be 0 for a {self.kind} strategy"
            )

    @classmethod
    def bounded_out_of_orderness(cls, bound: timedelta) -> WatermarkStrategy:
        """Watermark = greatest timestamp - bound - 1 ms, once an interval; the bound must not be negative."""
        return cls(
            kind="bounded_out_of_orderness",
            out_of_orderness_ms=require_duration_ms("WatermarkStrategy: out_of_orderness", bound),
        )

    @classmethod
    def monotonous(cls) -> WatermarkStrategy:
        """For timestamps that never fall in a partition: watermark = greatest timestamp - 1 ms, once an
        interval.
        """
        return cls(kind="monotonous")

    @classmethod
    def no_watermarks(cls) -> WatermarkStrategy:
        """Event time never passes: for processing time alone."""
        return cls(kind="no_watermarks")

    @classmethod
    def punctuated(cls, watermark_of: WatermarkFunction) -> WatermarkStrategy:
        """The elements carry the watermarks: `watermark_of(element, timestamp)` is the watermark right after
        the element, or None. The function must be picklable and pure: it depends on its arguments alone.
        """
        return cls(kind="punctuated", watermark_of=watermark_of)

    def with_idleness(self, timeout: timedelta) -> WatermarkStrategy:
        """A source partition without elements for that long (> 0) no longer holds the watermark back."""
        return replace(self, idle_timeout_ms=require_duration_ms("WatermarkStrategy: idle timeout", timeout))

    def with_interval(self, interval: timedelta) -> WatermarkStrategy:
        """The auto-watermark interval, 200 ms by default as in Flink; zero means no periodic watermarks."""
        return replace(self, interval_ms=require_duration_ms("WatermarkStrategy: interval", interval))

    def create_watermark_generator(self, relative_time_ms: Callable[[], int]) -> WatermarkGenerator:
        """A new generator for one source partition; the clock measures idleness by differences."""
        generator: WatermarkGenerator
        if self.kind == "bounded_out_of_orderness":
            generator = BoundedOutOfOrdernessWatermarks(self.out_of_orderness_ms)
        elif self.kind == "monotonous":
            generator = AscendingTimestampsWatermarks()
        elif self.watermark_of is not None:
            generator = PunctuatedWatermarks(self.watermark_of)
        else:
            generator = NoWatermarksGenerator()
        if self.idle_timeout_ms is None:
            return generator
        return WatermarksWithIdleness(generator, self.idle_timeout_ms, relative_time_ms)

    def describe(self) -> dict[str, str | int | None]:
        """The declaration as plain values, for configuration hashes and people; functions by their names."""
        function = self.watermark_of
        return {
            "kind": self.kind,
            "out_of_orderness_ms": self.out_of_orderness_ms,
            "idle_timeout_ms": self.idle_timeout_ms,
            "interval_ms": self.interval_ms,
            "watermark_of": None if function is None else _name_of(function),
        }

    def __repr__(self) -> str:
        arguments = (f"{name}={value!r}" for name, value in self.describe().items() if value is not None)
        return f"WatermarkStrategy({', '.join(arguments)})"


def _name_of(function: WatermarkFunction) -> str:
    """Never repr(function), whose address differs from process to process."""
    named_object = function if hasattr(function, "__qualname__") else type(function)
    return f"{named_object.__module__.removeprefix('slackwater.')}.{named_object.__qualname__}"


def _refusal(what: str, duration_ms: int, rule: str) -> ConfigurationError:
    return ConfigurationError(f"WatermarkStrategy: {what} {rule}, got {duration_ms} ms.")
