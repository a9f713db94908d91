"""Count windows by name: the global window with the trigger and the evictor of Flink's `countWindow`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slackwater.windowing.assigners.global_windows import GlobalWindows
from slackwater.windowing.errors import ConfigurationError
from slackwater.windowing.evictors import CountEvictor, Evictor
from slackwater.windowing.triggers import CountTrigger, PurgingTrigger, Trigger


@dataclass(frozen=True, kw_only=True)
class CountWindows(GlobalWindows):
    """Windows of `size` elements of a key; with a `slide`, of the last `size` elements every `slide` elements
    (Flink: countWindow). Create them with `of`; fewer than one element are a ConfigurationError.

    They are `GlobalWindows` with a `PurgingTrigger` of a `CountTrigger`; with a slide, with a `CountTrigger`
    and a `CountEvictor`. So their windows have no bounds, and firings are told apart by their number.
    """

    looks_at_elements: ClassVar[bool] = False

    size: int
    slide: int | None = None

    def __post_init__(self) -> None:
        for name, count in (("size", self.size), ("slide", self.slide)):
            if count is not None and (type(count) is not int or count < 1):
                raise ConfigurationError(
                    f"The {name} of CountWindows is {count!r}; it is a number of elements, from 1 on."
                )

    @classmethod
    def of(cls, size: int, slide: int | None = None) -> CountWindows:
        return cls(size=size, slide=slide)

    def get_default_trigger(self) -> Trigger:
        if self.slide is None:
            return PurgingTrigger.of(CountTrigger.of(self.size))
        return CountTrigger.of(self.slide)

    def get_default_evictor(self) -> Evictor | None:
        return None if self.slide is None else CountEvictor.of(self.size)
