"""The errors of windowing: one root; each says whose fault it is and carries its facts as attributes."""

from __future__ import annotations

from typing import Any, ClassVar


class WindowingError(Exception):
    """Root of all errors of this package.

    Attributes:
        fault: "user" (declarations and functions), "data" (an element), "environment", or "bug" (ours).
        retryable: whether the same call may succeed later without a change.
        flink: simple name of the Java exception that Flink 2.3.0 throws here; empty where Flink has none.
        key, window, timestamp: where it happened, filled in by the operator; None if unknown.
        undone: the element's changes were taken back, so the operator can go on.
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
        """Record where it happened, unless an operator closer to the fault has already."""
        if not self._is_located:
            self.key, self.window, self.timestamp, self._is_located = key, window, timestamp, True

    def __str__(self) -> str:
        message = super().__str__()
        if not self._is_located:
            return message
        return f"{message} [key {self.key!r}, window {self.window!r}, timestamp {self.timestamp}]"


class ConfigurationError(WindowingError, ValueError):
    """An invalid declaration: a size, offset, gap or count out of range, or a duration without a unit."""

    fault = "user"
    flink = "IllegalArgumentException"


class UnsupportedCombinationError(ConfigurationError):
    """Two declarations that are valid by themselves, but not together."""

    flink = "UnsupportedOperationException"


class WindowTypeError(WindowingError, TypeError):
    """A trigger met a kind of window that it does not support."""

    fault = "user"
    flink = "ClassCastException"


class OwnWindowError(WindowingError, TypeError):
    """An assigner returned a window of another class than declared, or one that its columns cannot hold."""

    fault = "data"


class KeyTypeError(WindowingError, TypeError):
    """A key of another type than declared, or a type that keys cannot have."""

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
    """Sliding windows whose starts wrap around 64 bits: billions, with which Flink fills its memory."""

    fault = "data"
    flink = "OutOfMemoryError"


class UntimedElementError(WindowingError):
    """An evictor asked for the timestamp of an element that has none."""

    fault = "data"
    flink = "IllegalStateException"


class SessionGapError(WindowingError, ValueError):
    """A dynamic gap that is not positive, or longer than durations may be."""

    fault = "data"
    flink = "IllegalArgumentException"


class MergeIntoPastError(WindowingError):
    """A merge produced a window that the watermark or the clock has already passed."""

    fault = "user"
    flink = "UnsupportedOperationException"


class UnknownWindowError(WindowingError, LookupError):
    """A session that is not in its key's merging window set."""

    flink = "IllegalStateException"


class TriggerStateError(WindowingError):
    """A trigger was called for a timer that it did not register: its state has no time for it."""

    fault = "user"
    flink = "NullPointerException"


class EmptyViewError(WindowingError, LookupError):
    """An evictor that measures from the last element met an empty window."""

    fault = "user"
    flink = "NoSuchElementException"


class StateAccessError(WindowingError):
    """State that does not exist: per-window state of merging windows, or one name for two kinds."""

    fault = "user"
    flink = "UnsupportedOperationException"


class StateMergeError(StateAccessError):
    """A merge of a kind of state that cannot merge."""

    flink = "IllegalArgumentException"


class StateSerializationError(WindowingError, TypeError):
    """RocksDB state got an object of a type without a tag."""

    fault = "user"

    state_name: str = ""
    type_name: str = ""


class StateStorageError(WindowingError):
    """The disk below RocksDB failed: a directory cannot be created or opened, or a write failed."""

    fault = "environment"
    retryable = True

    path: Any = None


# What an operator does when an element, and no timer, is the cause; see UserCodeError.during.
PROCESSING_ELEMENT = "processing an element"


class UserCodeError(WindowingError):
    """A user's function raised (see `__cause__`); `during` says what the operator was doing."""

    fault = "user"

    during: str = ""

    @classmethod
    def of(cls, error: Exception, during: str, key: Any, window: Any, timestamp: int | None) -> UserCodeError:
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
        """With the next step, unless a caller that knows the element adds a better one."""
        text = super().__str__()
        return text if self.during == PROCESSING_ELEMENT else f"{text}. Mend the function, then run it again."


class WatermarkStateError(WindowingError):
    """A watermark class was used out of turn: closed, not paused, a split registered twice or not at all."""

    fault = "bug"
    flink = "IllegalStateException"


class TimelineError(WindowingError, ValueError):
    """A watermark timeline that cannot be computed or queried: unordered, of another slice, without ticks."""

    fault = "bug"


class TimeRangeError(TimelineError):
    """A time for which the timeline's arithmetic has no 64-bit value."""

    fault = "data"


class SnapshotError(WindowingError):
    """Root of the errors of the snapshot codec."""


class SnapshotValueError(SnapshotError, ValueError):
    """A value of type `type_name` without a column or JSON form; `state_name` is empty outside states."""

    fault = "user"

    state_name: str = ""
    type_name: str = ""


class SnapshotTimeError(SnapshotError, ValueError):
    """A `time` in milliseconds that no timestamp in microseconds can hold, for `column`."""

    fault = "data"

    column: str = ""
    time: int = 0


class SnapshotTimerError(SnapshotTimeError):
    """A user's function or trigger has registered a timer at a time that no timestamp can hold."""

    fault = "user"


class SnapshotFormatError(SnapshotError, ValueError):
    """Rows that no version of this codec has written: a missing column, an unknown tag or kind of state."""

    fault = "environment"


class PickleRefusedError(SnapshotError):
    """Rows hold pickled values, which are code, and the reader has not allowed them."""

    fault = "user"


class SnapshotVersionError(SnapshotError):
    """Rows of a format `version` that this release cannot read; `supported` is the newest that it can."""

    fault = "environment"

    version: int = 0
    supported: int = 0


class TraceError(WindowingError, ValueError):
    """A recorded trace that the conformance player cannot play."""

    fault = "environment"
