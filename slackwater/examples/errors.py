"""The errors of loading an example."""

from slackwater.errors import PermanentError, RetryableError, UsageError


class UnknownExample(UsageError):
    """No example has that name."""


class BadRange(UsageError):
    """An empty or reversed range to load, one without a time zone, or outside the example's data."""


class SourceDiffers(UsageError):
    """The table at the source's path has other columns."""


class ExampleDataMissing(PermanentError):
    """The package that holds the example's data is not installed."""


class SourceBusy(RetryableError):
    """Other loads kept committing to the source first; nothing was written."""


class NoRedisServer(PermanentError):
    """A Redis server is not installed, or does not start."""
