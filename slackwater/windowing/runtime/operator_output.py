"""The interfaces to which an operator reports: an output for rows, a listener for steps of windows."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

from slackwater.windowing.windows import Window


class OperatorOutput(Protocol):
    """Where an operator emits rows. The caller forwards watermarks, each after the call that advanced it."""

    def collect(self, value: Any, timestamp: int | None, window: Window, key: Any) -> None:
        """A row of the main output. `window` is None for a KeyedProcessFunction."""

    def late(self, value: Any, timestamp: int | None, key: Any) -> None:
        """A late element, with its own timestamp; called only when there is a late side output."""

    def side(self, tag: str, value: Any, timestamp: int | None, window: Window, key: Any) -> None:
        """A row of the side output `tag`."""


class FiredBy(NamedTuple):
    """The timer that made a window fire; `domain` is "event" or "processing"."""

    domain: str
    timestamp: int


class SkipReason(Enum):
    """Why no window took an element.

    LATE: its windows are collected, and its own timestamp is late: Flink's late side output and counter.
    WINDOWS_LATE: its windows are collected, though its own timestamp is not late: Flink drops it silently.
    NO_WINDOW: the assigner gave it no window, and it is not late.
    """

    LATE = "late"
    WINDOWS_LATE = "windows late"
    NO_WINDOW = "no window"


class WindowListener(Protocol):
    """Called at each step of a window's life, in order. It must not call the operator."""

    def element_added(self, key: Any, window: Window, value: Any, timestamp: int | None) -> None:
        """An element was added to the contents of a window (the merged one); the trigger is asked next."""

    def element_skipped(
        self,
        key: Any,
        value: Any,
        timestamp: int | None,
        reason: SkipReason,
        missed_windows: Sequence[Window],
    ) -> None:
        """No window took the element, which came too late for `missed_windows`."""

    def windows_missed(
        self, key: Any, value: Any, timestamp: int | None, missed_windows: Sequence[Window]
    ) -> None:
        """At least one window took the element, which was late for `missed_windows`."""

    def window_fired(self, key: Any, window: Window, by: FiredBy | None, has_contents: bool) -> None:
        """The trigger fired for an element (`by` is None) or a timer. No contents: no function call."""

    def firing_ended(self, key: Any, window: Window) -> None:
        """All rows of the newest firing have been emitted."""

    def window_purged(self, key: Any, window: Window) -> None:
        """The trigger purged the window's contents."""

    def windows_merged(self, key: Any, result: Window, absorbed_windows: Sequence[Window]) -> None:
        """Windows merged into `result`, perhaps one of the absorbed; the causing element is added next."""

    def window_cleared(self, key: Any, window: Window) -> None:
        """The window was collected: contents, trigger state and session are gone."""
