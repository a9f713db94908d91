"""Times: milliseconds since 1970, UTC, to datetimes and back. Standard library only."""

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


MILLISECOND = timedelta(milliseconds=1)


# The first and the last millisecond of the years 1 to 9999, which all readers of tables can represent.
EARLIEST_MS, LATEST_MS = -62_135_596_800_000, 253_402_300_799_999


PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def to_datetime(ms: int) -> datetime:
    return EPOCH + ms * MILLISECOND


def to_ms(moment: datetime) -> int:
    """A datetime as whole milliseconds of UTC, floored."""
    return (moment - EPOCH) // MILLISECOND


def floor_to_ms(time: int, unit: str) -> int:
    return time * 1000 // PER_SECOND[unit]


def duration_ms(duration: timedelta) -> int:
    """A duration in whole milliseconds, rounded towards minus infinity."""
    return duration // MILLISECOND
