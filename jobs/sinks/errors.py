"""What can go wrong with a sink."""

from collections.abc import Iterator
from contextlib import contextmanager

from slackwater.jobs.errors import RetryableError, UsageError, without_credentials
from slackwater.jobs.pipelines.sinks import SinkContext


class SinkUnsuitable(UsageError):
    """The target is not what the sink needs: no such variable, other columns, another lineage's."""


class SinkDown(RetryableError):
    """The target can't be reached, or has failed. What was not delivered waits for the next delivery."""


def of_another_lineage(sink: str, pipeline: str, place: str) -> SinkUnsuitable:
    """The error for a target that another warehouse has delivered to, or this one before it was made anew."""
    return SinkUnsuitable(
        f"sink {sink}: what {place} holds was delivered from another warehouse, or from a lineage that is "
        f"there no more. To deliver this one into it, empty it and run `slackwater sinks reset {pipeline} "
        f"{sink}`; or give the sink another name or place.",
        sink=sink,
    )


@contextmanager
def as_sink_down(context: SinkContext, sink: str, target: str, kinds: type[Exception]) -> Iterator[None]:
    """A block that talks to a target: errors of `kinds` become SinkDown, without statements, values and
    credentials.
    """
    try:
        yield
    except kinds as error:
        cause = (
            getattr(error, "orig", None) or error
        )  # SQLAlchemy's errors quote the statement, not the driver's
        raise sink_down(context.pipeline, sink, f"{target} has failed", cause) from None


def sink_down(pipeline: str, sink: str, problem: str, cause: Exception) -> SinkDown:
    """The error for a target that can't be reached or has failed."""
    return SinkDown(
        f"sink {sink}: {problem} ({type(cause).__name__}: {without_credentials(str(cause)).strip()}). What "
        f"was not delivered waits for the next run, or for `slackwater sinks deliver {pipeline} {sink}`.",
        sink=sink,
    )
