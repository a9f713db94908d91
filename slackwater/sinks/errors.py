"""What can go wrong with a sink."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from slackwater.errors import PermanentError, RetryableError, UsageError, without_credentials
from slackwater.pipelines.sinks import SetAside, SinkContext

_ROWS_NAMED, _KEY_CHARACTERS = 3, 200


class SinkUnsuitable(UsageError):
    """The target is not what the sink needs: no such variable, other columns, another lineage's."""


class SinkDown(RetryableError):
    """The target can't be reached, or has failed. What was not delivered waits for the next delivery."""


class RowsSetAside(PermanentError):
    """A target has all corrections except for rows that it can't take as they are. Facts: rows."""


def rows_set_aside(sink: str, pipeline: str, rows: Sequence[SetAside]) -> RowsSetAside:
    count = f"{len(rows):,} rows are" if len(rows) > 1 else "1 row is"
    first = "; ".join(
        f"key {row.key[:_KEY_CHARACTERS]}, column {row.column}: {row.reason}" for row in rows[:_ROWS_NAMED]
    )
    return RowsSetAside(
        f"sink {sink}: {count} set aside, which its target can't take: {first}. It has everything else. "
        f"`slackwater sinks set-aside {pipeline} {sink}` lists them. A correction that replaces them is "
        f"delivered as any other; once the target can take them, run `slackwater sinks retry {pipeline} "
        f"{sink}`. To be rid of them, derive values in the pipeline that the target can take, and restate.",
        rows=len(rows),
    )


def foreign_lineage_error(sink: str, pipeline: str, place: str) -> SinkUnsuitable:
    """The error for a target with rows of another warehouse, or of a lineage that no longer exists."""
    return SinkUnsuitable(
        f"sink {sink}: what {place} holds was delivered from another warehouse, or from a lineage that is "
        f"there no more. To deliver this one into it, empty it and run `slackwater sinks reset {pipeline} "
        f"{sink}`; or give the sink another name or place.",
        sink=sink,
    )


def foreign_sink_error(sink: str, pipeline: str, place: str, owner: tuple[str, str]) -> SinkUnsuitable:
    return SinkUnsuitable(
        f"sink {sink}: {place} belongs to the sink {owner[0]} of pipeline {owner[1]}, and a target belongs "
        f"to one sink. Name another one for {pipeline}. To take this one over, empty it and run `slackwater "
        f"sinks reset {pipeline} {sink}`.",
        sink=sink,
    )


def not_delivered_by(sink: str, pipeline: str, place: str) -> SinkUnsuitable:
    """The error for a target with rows that no sink of ours has delivered."""
    return SinkUnsuitable(
        f"sink {sink}: {place} holds rows that this sink has not delivered. Name another one: it is created "
        f"when absent. To use this one, empty it and run `slackwater sinks reset {pipeline} {sink}`.",
        sink=sink,
    )


@contextmanager
def as_sink_down(context: SinkContext, sink: str, target: str, kinds: type[Exception]) -> Iterator[None]:
    """A block whose errors of `kinds` become SinkDown, without statements, values and credentials."""
    try:
        yield
    except kinds as error:
        cause = (
            getattr(error, "orig", None) or error
        )  # SQLAlchemy's errors quote the statement, not the driver's
        raise sink_down(context.pipeline, sink, f"{target} has failed", cause) from None


def sink_down(pipeline: str, sink: str, problem: str, cause: Exception) -> SinkDown:
    return SinkDown(
        f"sink {sink}: {problem} ({type(cause).__name__}: {without_credentials(str(cause)).strip()}). What "
        f"was not delivered waits for the next run, or for `slackwater sinks deliver {pipeline} {sink}`.",
        sink=sink,
    )
