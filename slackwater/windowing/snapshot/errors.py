"""Errors of windowing that only the snapshot codec raises."""

from __future__ import annotations

from slackwater.windowing.errors import WindowingError


class SnapshotError(WindowingError):
    """Root of the codec's errors."""


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
