"""What can go wrong with a sink."""

from collections.abc import Iterator
from contextlib import contextmanager

from slackwater.jobs.errors import RetryableError, UsageError, without_credentials


class SinkUnsuitable(UsageError):
    """The target is not what the sink needs: no such variable, other columns, another lineage's."""


class SinkDown(RetryableError):
    """The target can't be reached, or has failed. What was not delivered waits for the next delivery."""


def of_another_lineage(sink: str, pipeline: str, place: str) -> SinkUnsuitable:
    """The error for a target that another warehouse has delivered to, or this one before it was made anew."""
    return SinkUnsuitable(
        f"sink {sink}: what {place} holds was delivered from another warehouse, or from a lineage that is "
        "there no "
        f"more. To deliver this one into it, empty it and run `slackwater sinks reset {pipeline} {sink}`; or "
        "give "
        "the sink another name or place.",
        sink=sink,
    )


@contextmanager
def as_sink_down(sink: str, target: str, kinds: type[Exception]) -> Iterator[None]:
    """A block that talks to a target: errors of `kinds` become SinkDown, without statements, values and
    credentials.
    """
    try:
        yield
    except kinds as error:
        cause = (
            getattr(error, "orig", None) or error
        )  # SQLAlchemy's errors quote the statement; the driver's do not
        raise SinkDown(
            f"sink {sink}: {target} did not do it ({type(cause).__name__}: "
            f"{without_credentials(str(cause)).strip()}). Nothing of the batch was applied; deliver again "
            "with "
            "`slackwater sinks deliver`.",
            sink=sink,
        ) from None
