"""Keys and windows between JSON and this package: arrays are tuples, `[start, end]` is a window."""

from __future__ import annotations

from typing import Any

from slackwater.windowing.errors import KeyTypeError, TraceError, WindowingError
from slackwater.windowing.key_types import KeyType, key_type
from slackwater.windowing.windows import GlobalWindow, TimeWindow


def key_type_from_json(name: str) -> KeyType:
    """Raises TraceError for a type that this package does not have."""
    try:
        return key_type(name)
    except KeyTypeError as error:
        raise TraceError(str(error)) from error


def key_from_json(key: Any) -> Any:
    return tuple(map(key_from_json, key)) if isinstance(key, list) else key


def key_to_json(key: Any) -> Any:
    return list(map(key_to_json, key)) if isinstance(key, tuple) else key


def window_from_json(window: list[int]) -> TimeWindow:
    return TimeWindow(*window)


def window_to_json(window: Any) -> Any:
    """None, for state or a row without a window, stays None."""
    if isinstance(window, GlobalWindow):
        return "global"
    return None if window is None else list(window)


def error_to_json(error: Exception) -> dict[str, str]:
    """As recorded: Flink's exception class, and our message. Raises a TraceError again: it is no result."""
    if isinstance(error, TraceError):
        raise error
    name = error.flink if isinstance(error, WindowingError) and error.flink else type(error).__name__
    return {"error": f"{name}: {error}"}
