"""`slackwater sinks`: where published results are delivered to besides, and how far each of these is. Starts
no JVM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from slackwater.cli import options, printing
from slackwater.cli.printing import Output
from slackwater.cli.table_layout import Column
from slackwater.readable import count_text

if TYPE_CHECKING:
    from slackwater.runs.publishing.delivery import SinkState

COLUMNS = [
    Column("sink", "key"),
    Column("state"),
    Column("backlog"),
    Column("set_aside"),
    Column("seq"),
    Column("offset"),
    Column("kind"),
    Column("to", "text"),
    Column("newest_seq"),
]


SET_ASIDE_COLUMNS = [
    Column("sink", "key"),
    Column("key", "text"),
    Column("column", "text"),
    Column("reason", "text"),
    Column("seq"),
]


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
@printing.output
def list_sinks(
    pipeline: str, name: str | None, *, warehouse: str | None, pipelines: str | None, output: Output
) -> None:
    """How far each sink is, how many corrections wait for it, and how many rows are set aside because it
    can't take them. A position (seq, offset) says that all corrections of earlier ledger rows and the first
    OFFSET ones of SEQ were delivered.

    \b
    Example: slackwater sinks list tollgates
    """
    from slackwater.runs.opened_pipeline import OpenedPipeline

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
            "set_aside": None if state.position is None else len(state.set_aside),
            "state": _state_of(state),
            "to": state.sink.place,
            "problem": state.problem,
        }
        for state in states
    ]
    printing.show(rows, COLUMNS, output, empty=f"{pipeline}: it declares no sinks")
    for state in states if not output.is_json else ():
        if state.problem:
            options.warn(state.problem)


def _state_of(state: SinkState) -> str:
    if state.problem:
        return "out of reach"
    if state.backlog:
        return "behind"
    return "rows set aside" if state.set_aside else "delivered"


@command.command("set-aside")
@_chosen
@printing.output
def list_set_aside(
    pipeline: str, name: str | None, *, warehouse: str | None, pipelines: str | None, output: Output
) -> None:
    """The rows that each sink, or NAME, can't take as they are: the key, the columns at fault, what the
    target says, and the ledger row that brought them.

    \b
    Example: slackwater sinks set-aside tollgates counts
    """
    from slackwater.runs.opened_pipeline import OpenedPipeline

    opened_pipeline = OpenedPipeline(pipeline, warehouse, pipelines)
    states = opened_pipeline.delivery().states(name) if opened_pipeline.pipeline.sinks or name else []
    rows = [
        {
            "sink": state.sink.name,
            "key": row.key,
            "column": row.column,
            "reason": row.reason,
            "seq": row.seq,
        }
        for state in states
        for row in state.set_aside
    ]
    printing.show(rows, SET_ASIDE_COLUMNS, output, empty=f"{pipeline}: no row is set aside")
    for state in states if not output.is_json else ():
        if state.problem:
            options.warn(state.problem)


def _delivering(function: Any) -> Any:
    for option in (printing.json_or_text, options.log_format):
        function = option(function)
    return _chosen(function)


@command.command("deliver")
@_delivering
def deliver(
    pipeline: str,
    name: str | None,
    *,
    warehouse: str | None,
    pipelines: str | None,
    output: Output,
    log_format: str | None,
) -> None:
    """Deliver what has been published to each sink, or to NAME. Runs do so by themselves.

    Exit codes: 0 delivered or nothing to do, 1 rows are set aside that a sink can't take, 2 a sink is
    declared wrongly, 3 a sink is down: what it lacks waits.

    \b
    Example: slackwater sinks deliver tollgates counts
    """
    options.log_to_stderr(log_format)
    _deliver(pipeline, name, warehouse, pipelines, output)


@command.command("retry")
@_delivering
def retry(
    pipeline: str,
    name: str | None,
    *,
    warehouse: str | None,
    pipelines: str | None,
    output: Output,
    log_format: str | None,
) -> None:
    """Deliver as `deliver`, and the rows once more that are set aside, to each sink or to NAME. Exit codes
    are those of `deliver`.

    \b
    Example: slackwater sinks retry tollgates counts
    """
    options.log_to_stderr(log_format)
    _deliver(pipeline, name, warehouse, pipelines, output, retries=True)


def _deliver(
    pipeline: str,
    name: str | None,
    warehouse: str | None,
    pipelines: str | None,
    output: Output,
    *,
    retries: bool = False,
) -> None:
    from slackwater.errors import SlackwaterError
    from slackwater.runs.opened_pipeline import OpenedPipeline
    from slackwater.sinks.errors import rows_set_aside

    opened_pipeline = OpenedPipeline(pipeline, warehouse, pipelines)
    opened_pipeline.roll_forward.finish()
    delivery = opened_pipeline.delivery()
    failures: list[SlackwaterError] = []
    deliveries, sentences = [], []
    for sink in delivery.sinks_named(name):
        try:
            result = delivery.retry(sink) if retries else delivery.deliver(sink)
        except SlackwaterError as error:  # the others are delivered to all the same
            failures.append(error)
            continue
        seq, offset = result.position
        deliveries.append(
            {
                "sink": sink.name,
                "corrections": result.rows,
                "seq": seq,
                "offset": offset,
                "set_aside": len(result.set_aside),
            }
        )
        sentences.append(
            f"{pipeline}: {sink.name}: {count_text(result.rows, 'correction')} delivered; it is at seq "
            f"{seq}, {offset}."
        )
        if result.set_aside:
            failures.append(rows_set_aside(sink.name, pipeline, result.set_aside))
    printing.show_result(deliveries, sentences, output)
    failures.sort(key=lambda failure: failure.exit_code, reverse=True)  # what may be tried again decides
    for failure in failures[1:]:
        printing.say(f"slackwater: {failure}", err=True)
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
@printing.json_or_text
@options.log_format
def reset(
    pipeline: str,
    name: str | None,
    *,
    to_seq: int | None,
    warehouse: str | None,
    pipelines: str | None,
    output: Output,
    log_format: str | None,
) -> None:
    """Have corrections delivered again by the next delivery, to each sink or to NAME. What was delivered
    stays there, and is replaced.

    \b
    Example: slackwater sinks reset tollgates counts
    """
    from slackwater.runs.opened_pipeline import OpenedPipeline

    options.log_to_stderr(log_format)
    delivery = OpenedPipeline(pipeline, warehouse, pipelines).delivery()
    positions = [(sink.name, *delivery.reset(sink, to_seq)) for sink in delivery.sinks_named(name)]
    printing.show_result(
        [{"sink": sink, "seq": seq, "offset": offset} for sink, seq, offset in positions],
        [
            f"{pipeline}: {sink}: it is at seq {seq}, {offset}; `slackwater sinks deliver` goes on there."
            for sink, seq, offset in positions
        ],
        output,
    )
