"""The errors of windowing: one root class, and for each error whose fault it is.

Facts are attributes; a message says what happened, where, and what to do. Imports nothing of the package.
"""

from __future__ import annotations

from typing import Any, ClassVar


class WindowingError(Exception):
    """Root of all errors of this package.

    Attributes:
        fault: whose fault it is: "user" (declarations and functions), "data" (an element), "environment", or
        "bug"
            (ours).
        retryable: whether the same call may succeed later without a change.
        flink: simple name of the Java exception that Flink 2.3.0 throws in the same place; empty where Flink
            has none.
        key, window, timestamp: where it happened, as far as known; None otherwise. The operator fills them
            in.
        undone: whether the changes that the element had made were taken back, so that the operator can go on.
    """

    fault: ClassVar[str] = "bug"
    retryable: ClassVar[bool] = False
    flink: ClassVar[str] = ""

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.key: Any = None
        self.window: Any = None
        self.timestamp: int | None = None
        self.undone = False
        self._is_located = False
        self.__dict__.update(facts)

    def locate(self, key: Any, window: Any, timestamp: int | None) -> None:
        """Say where it happened, unless an operator closer to the fault has said so already."""
        if not self._is_located:
            self.key, self.window, self.timestamp, self._is_located = key, window, timestamp, True

    def __str__(self) -> str:
        message = super().__str__()
        if not self._is_located:
            return message
        return f"{message} [key {self.key!r}, window {self.window!r}, timestamp {self.timestamp}]"


class ConfigurationError(WindowingError, ValueError):
    """A declaration that cannot work: a size, an offset, a gap, a count out of its range, or a duration
    without a unit.
    """

    fault = "user"
    flink = "IllegalArgumentException"


class UnsupportedCombinationError(ConfigurationError):
    """Two declarations of which each is valid, but not together with the other."""

    flink = "UnsupportedOperationException"


class WindowTypeError(WindowingError, TypeError):
    """A trigger met a kind of window that it is not made for."""

    fault = "user"
    flink = "ClassCastException"


class OwnWindowError(WindowingError, TypeError):
    """An assigner gave a window that is not of its declared class, or that would not come back from the
    class' columns.
    """

    fault = "data"


class KeyTypeError(WindowingError, TypeError):
    """A key that is not of the declared key type, or a key type that keys cannot have."""

    fault = "user"
    flink = "IllegalArgumentException"


class KeyGroupError(WindowingError, ValueError):
    """A key, key group or parallelism outside the range that this operator owns or that Flink allows."""

    fault = "user"
    flink = "IllegalArgumentException"


class MissingTimestampError(WindowingError):
    """An element without a timestamp where the assigner needs one."""

    fault = "data"
    flink = "RuntimeException"


class EndlessWindowsError(WindowingError, ValueError):
    """The starts of an element's sliding windows wrap around the 64-bit range: it would have billions of
    windows. Flink goes on until its memory is full.
    """

    fault = "data"
    flink = "OutOfMemoryError"


class UntimedElementError(WindowingError):
    """An evictor asked for the timestamp of an element that has none."""

    fault = "data"
    flink = "IllegalStateException"


class SessionGapError(WindowingError, ValueError):
    """A dynamic gap that is not above zero, or longer than durations may be."""

    fault = "data"
    flink = "IllegalArgumentException"


class MergeIntoPastError(WindowingError):
    """Merging gave a window that the watermark or the clock has passed already."""

    fault = "user"
    flink = "UnsupportedOperationException"


class UnknownWindowError(WindowingError, LookupError):
    """A session that its key's merging window set does not hold."""

    flink = "IllegalStateException"


class TriggerStateError(WindowingError):
    """A trigger was called back for a timer that it did not register: its state has no time for it."""

    fault = "user"
    flink = "NullPointerException"


class EmptyViewError(WindowingError, LookupError):
    """An evictor that measures from the last element met a window without elements."""

    fault = "user"
    flink = "NoSuchElementException"


class StateAccessError(WindowingError):
    """State was asked for where it does not exist: per-window state of merging windows, or one name for two
    kinds of state.
    """

    fault = "user"
    flink = "UnsupportedOperationException"


class StateMergeError(StateAccessError):
    """Merging was asked of a kind of state that has no rule for it."""

    flink = "IllegalArgumentException"


class StateSerializationError(WindowingError, TypeError):
    """State in RocksDB was given an object that has no bytes: neither a plain value nor one of the types that
    have a tag.

    Attributes:
        state_name: the state's name.
        type_name: the object's type.
    """

    fault = "user"

    state_name: str = ""
    type_name: str = ""


class StateStorageError(WindowingError):
    """The disk below RocksDB failed: a directory that cannot be made or opened, or a write that did not
    succeed.

    Attributes:
        path: where.
    """

    fault = "environment"
    retryable = True

    path: Any = None


# What an operator does when an element, and no timer, is the cause; see UserCodeError.during.
PROCESSING_ELEMENT = "processing an element"


class UserCodeError(WindowingError):
    """A user's function raised; the original is its `__cause__`.

    Attributes:
        during: what the operator was doing, e.g. "processing an element".
    """

    fault = "user"

    during: str = ""

    @classmethod
    def of(cls, error: Exception, during: str, key: Any, window: Any, timestamp: int | None) -> UserCodeError:
        """The error to raise from `error`."""
        try:
            text = str(error)
        except Exception:  # noqa: BLE001 - a class of the user's, too
            text = "(its text can't be made)"
        user_error = cls(
            f"A user function raised {type(error).__name__} while {during}: {text}", during=during
        )
        user_error.locate(key, window, timestamp)
        return user_error

    def __str__(self) -> str:
        """With the next step, where no caller knows the element and adds a better one."""
        text = super().__str__()
        return text if self.during == PROCESSING_ELEMENT else f"{text}. Mend the function, then run it again."


class WatermarkStateError(WindowingError):
    """A watermark class was used out of turn: closed already, not paused, a split registered twice or not at
    all.
    """

    fault = "bug"
    flink = "IllegalStateException"


class TimelineError(WindowingError, ValueError):
    """A watermark timeline that cannot be built or asked: unordered, of another slice, or without ticks."""

    fault = "bug"


class TimeRangeError(TimelineError):
    """A time for which the timeline's arithmetic has no 64-bit value."""

    fault = "data"


class TraceError(WindowingError, ValueError):
    """A recorded trace that the conformance player cannot play, and why."""

    fault = "environment"
