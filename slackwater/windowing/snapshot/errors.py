"""What can go wrong between state and its rows. Errors of windowing, kept beside the codec that alone raises
them.
"""

from __future__ import annotations

from slackwater.windowing.errors import WindowingError


class SnapshotError(WindowingError):
    """Root of the codec's errors."""


class SnapshotValueError(SnapshotError, ValueError):
    """A value of the state that has no column and no JSON form.

    Attributes:
        state_name: whose value; empty where no state is concerned.
        type_name: the value's type.
    """

    fault = "user"

    state_name: str = ""
    type_name: str = ""


class SnapshotTimeError(SnapshotError, ValueError):
    """A time in milliseconds that no timestamp in microseconds can hold.

    Attributes:
        column: where it was to stand.
        time: in milliseconds.
    """

    fault = "data"

    column: str = ""
    time: int = 0


class SnapshotFormatError(SnapshotError, ValueError):
    """Rows that no version of this codec has written: a column is missing, a tag or a kind of state is
    unknown.
    """

    fault = "environment"


class PickleRefusedError(SnapshotError):
    """Rows hold pickled values, and nobody has asked for them: a pickle is code."""

    fault = "user"


class SnapshotVersionError(SnapshotError):
    """Rows of a format version that this release cannot read.

    Attributes:
        version: theirs.
        supported: the newest that can be read.
    """

    fault = "environment"

    version: int = 0
    supported: int = 0
