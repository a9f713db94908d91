"""Times in the queries of pages, as people write them."""

from datetime import UTC, datetime

from slackwater.errors import UsageError


class NotATime(UsageError):
    """A text that is no date or time."""


def moment_of(text: str | None) -> datetime | None:
    """The time that `text` names, in UTC unless it says otherwise; None for no text. Raises NotATime."""
    if not text or not text.strip():
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise NotATime(
            f"{text!r} is no date or time. Write it like 2013-01-02 or 2013-01-02 06:00 (UTC)."
        ) from error
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
