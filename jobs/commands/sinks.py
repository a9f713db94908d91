"""`slackwater sinks`: where published results are delivered to besides, and how far each of these is. Starts
no JVM.
"""

from typing import Any

import click

from slackwater.jobs.commands import options

COLUMNS = ["sink", "kind", "seq", "offset", "newest_seq", "backlog", "state", "to"]


@click.group("sinks")
def command() -> None:
    """The sinks of a pipeline: list them, deliver, deliver again."""


def _chosen(function: Any) -> Any:
    for option in (
        options.pipelines,
        options.warehouse,
        click.argument("name", required=False, metavar="[NAME]"),
        click.argument("pipeline"),
    ):
        function = option(function)
    return function


@command.command("list")
@_chosen
@options.output
def list_sinks(
    pipeline: str, name: str | None, *, warehouse: str | None, pipelines: str | None, output: str
) -> None:
    """How far each sink is, and how many corrections wait for it. A position (seq, offset) says that all
    corrections of earlier ledger rows and the first OFFSET ones of SEQ were delivered.
    """
    from slackwater.jobs.protocol.opened_pipeline import OpenedPipeline

    opened_pipeline = OpenedPipeline(pipeline, warehouse, pipelines)
    states = opened_pipeline.delivery().states(name) if opened_pipeline.pipeline.sinks or name else []
    rows = [
        {
            "sink": state.sink.name,
            "kind": type(state.sink).__name__,
            "seq": None if state.position is None else state.position.seq,
            "offset": None if state.position is None else state.position.offset,
            "newest_seq": state.newest_seq,
            "backlog": state.backlog,
            "state": "out of reach" if state.problem else "behind" if state.backlog else "delivered",
            "to": state.sink.place,
            "problem": state.problem,
        }
        for state in states
    ]
    options.show(rows, COLUMNS, output, empty=f"{pipeline}: it declares no sinks")
    for state in states if output == "table" else ():
        if state.problem:
            options.warn(state.problem)


@command.command("deliver")
@_chosen
@options.log_format
def deliver(
    pipeline: str, name: str | None, *, warehouse: str | None, pipelines: str | None, log_format: str
) -> None:
    """Deliver what has been published to each sink, or to NAME. Runs do so by themselves.

    Exit codes: 0 delivered or nothing to do, 2 a sink is declared wrongly, 3 a sink is down: what it lacks
    waits.
    """
    from slackwater.jobs.errors import SlackwaterError
    from slackwater.jobs.protocol.opened_pipeline import OpenedPipeline

    options.log_to_stderr(log_format)
    opened_pipeline = OpenedPipeline(pipeline, warehouse, pipelines)
    opened_pipeline.roll_forward.finish()
    delivery = opened_pipeline.delivery()
    failures = []
    for sink in delivery.sinks_named(name):
        try:
            result = delivery.deliver(sink)
        except SlackwaterError as error:  # the others are delivered to all the same
            failures.append(error)
            continue
        seq, offset = result.position
        click.echo(
            f"{pipeline}: {sink.name}: {result.rows:,} corrections delivered; it is at seq {seq}, {offset}."
        )
    for failure in failures[1:]:
        click.echo(f"slackwater: {failure}", err=True)
    if failures:
        raise failures[0]


@command.command("reset")
@_chosen
@click.option(
    "--to",
    "to_seq",
    type=click.IntRange(0, 2**63 - 1),
    metavar="SEQ",
    help="the corrections after this ledger row are delivered again; without it: all",
)
@options.log_format
def reset(
    pipeline: str,
    name: str | None,
    *,
    to_seq: int | None,
    warehouse: str | None,
    pipelines: str | None,
    log_format: str,
) -> None:
    """Have corrections delivered again by the next delivery, to each sink or to NAME. What was delivered
    stays there, and is replaced.
    """
    from slackwater.jobs.protocol.opened_pipeline import OpenedPipeline

    options.log_to_stderr(log_format)
    delivery = OpenedPipeline(pipeline, warehouse, pipelines).delivery()
    for sink in delivery.sinks_named(name):
        seq, offset = delivery.reset(sink, to_seq)
        click.echo(
            f"{pipeline}: {sink.name}: it is at seq {seq}, {offset}; `slackwater sinks deliver` goes on "
            "there."
        )
