"""Conversion of a user's timedelta to the integer milliseconds used everywhere else in windowing."""

from __future__ import annotations

from datetime import timedelta

from slackwater.windowing.errors import ConfigurationError
from slackwater.windowing.times import MILLISECOND

# A longer one is a slip of the unit, and a time plus it would not fit into a timestamp column.
LONGEST = timedelta(days=366_000)


def require_duration_ms(what: str, duration: timedelta) -> int:
    """`duration` in ms; ConfigurationError naming `what` for bare numbers and fractions of a millisecond."""
    if not isinstance(duration, timedelta):
        raise ConfigurationError(f"{what} must be a timedelta, e.g. timedelta(minutes=5), got {duration!r}.")
    if duration % MILLISECOND:
        raise ConfigurationError(f"{what} must be whole milliseconds, got {duration!r}.")
    return duration // MILLISECOND
