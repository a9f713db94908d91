"""The errors of loading an example."""

from slackwater.errors import PermanentError, RetryableError, UsageError


class UnknownExample(UsageError):
    """No example has that name."""


class BadRange(UsageError):
    """The range to load is empty, turned around or without a time zone, or lies outside the example's
    data.
    """


class SourceDiffers(UsageError):
    """At the source's path stands a table with other columns."""


class ExampleDataMissing(PermanentError):
    """The package that holds the example's data is not installed."""


class SourceBusy(RetryableError):
    """Other loads kept committing to the source first; nothing was written."""


class NoRedisServer(PermanentError):
    """A Redis server is not installed, or does not start."""
