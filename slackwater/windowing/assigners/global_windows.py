"""The assigner of the global window: one window for all elements of a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from slackwater.windowing.assigners.assigner import AssignerContext, WindowAssigner
from slackwater.windowing.triggers import EndOfStreamTrigger, NeverTrigger, Trigger
from slackwater.windowing.windows import GLOBAL_WINDOW, GlobalWindow


@dataclass(frozen=True, kw_only=True)
class GlobalWindows(WindowAssigner):
    """One window for all elements (Flink: GlobalWindows). Nothing is ever late; only a trigger makes it fire:
    with `fires_at_end_of_stream` the default trigger fires at the final watermark instead of never.
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
