"""The columns of a pipeline's windows: the bounds, and the columns that a user's class of windows declares.

Declarations only: names and the types of keys, no Arrow.
"""

from __future__ import annotations

from typing import Protocol

from slackwater.windowing import GlobalWindow, GlobalWindows, TimeWindow, WindowAssigner
from slackwater.windowing.own_windows import OwnWindowClass, own_window_class

WINDOW_BOUNDS = ("window_start", "window_end")


class WithWindow(Protocol):
    @property
    def window(self) -> WindowAssigner | None: ...


def own_window_class_of(pipeline: WithWindow) -> OwnWindowClass | None:
    """The user's class of a pipeline's windows; None for `TimeWindow`, for `GlobalWindow` and without
    windows. Raises ConfigurationError: columns can't hold the class.
    """
    window = pipeline.window
    if window is None or window.window_type in (TimeWindow, GlobalWindow):
        return None
    return own_window_class(window.window_type)


def declared_columns(pipeline: WithWindow) -> tuple[str, ...]:
    """The columns that the user's class of windows declares, beside the bounds."""
    window_class = own_window_class_of(pipeline)
    return () if window_class is None else tuple(field.name for field in window_class.columns)


def identifying_columns(pipeline: WithWindow) -> tuple[str, ...]:
    """The columns that tell windows of one key apart. None of them is ever null."""
    window_class = own_window_class_of(pipeline)
    if window_class is None:
        has_bounds = pipeline.window is not None and not isinstance(pipeline.window, GlobalWindows)
        return WINDOW_BOUNDS if has_bounds else ()
    bounds = zip(WINDOW_BOUNDS, (window_class.has_start, window_class.has_end), strict=True)
    return (*(name for name, has_it in bounds if has_it), *declared_columns(pipeline))


def all_columns(pipeline: WithWindow) -> tuple[str, ...]:
    """The bounds and the declared columns, as every table has them."""
    return (*WINDOW_BOUNDS, *declared_columns(pipeline))


def telling_columns(pipeline: WithWindow) -> tuple[str, ...]:
    """The columns that describe a row's window: none for the global window and without windows; no start if
    the user's class has none.
    """
    window_class = own_window_class_of(pipeline)
    if window_class is None:
        return identifying_columns(pipeline)
    return all_columns(pipeline) if window_class.has_start else all_columns(pipeline)[1:]


def names_taken(pipeline: WithWindow) -> tuple[str, ...]:
    """The names that declared columns of windows have in the snapshot's tables."""
    return tuple(
        f"{prefix}_{name}" for prefix in ("state_window", "namespace") for name in declared_columns(pipeline)
    )
