"""`slackwater sinks`: where published results are delivered to besides, and how far each of these is. Starts
no JVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from slackwater.cli import options, printing
from slackwater.cli.options import NamedPipeline
from slackwater.cli.printing import Output
from slackwater.inspection.answer_tables import Column
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


_chosen = options.together(
    click.argument("pipeline"), click.argument("name", required=False, metavar="[NAME]"), options.place
)
_delivering = options.together(_chosen, options.log_format, printing.json_or_text)


@command.command("list")
@_chosen
@printing.output
def list_sinks(pipeline: NamedPipeline, name: str | None, output: Output) -> None:
    """How far each sink is, how many corrections wait for it, and how many rows are set aside because it
    can't take them. A position (seq, offset) says that all corrections of earlier ledger rows and the first
    OFFSET ones of SEQ were delivered.

    \b
    Example: slackwater sinks list tollgates
    """
    states = _states(pipeline, name)
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
    _warn_of_problems(states, output)


@command.command("set-aside")
@_chosen
@printing.output
def list_set_aside(pipeline: NamedPipeline, name: str | None, output: Output) -> None:
    """The rows that each sink, or NAME, can't take as they are: the key, the columns at fault, what the
    target says, and the ledger row that brought them.

    \b
    Example: slackwater sinks set-aside tollgates counts
    """
    states = _states(pipeline, name)
    names = ("key", "column", "reason", "seq")
    rows = [
        {"sink": state.sink.name, **{name: getattr(row, name) for name in names}}
        for state in states
        for row in state.set_aside
    ]
    printing.show(rows, SET_ASIDE_COLUMNS, output, empty=f"{pipeline}: no row is set aside")
    _warn_of_problems(states, output)


def _states(pipeline: NamedPipeline, name: str | None) -> Sequence[SinkState]:
    opened_pipeline = pipeline.open()
    if not opened_pipeline.pipeline.sinks and not name:
        return []
    return opened_pipeline.delivery().states(name)


def _state_of(state: SinkState) -> str:
    if state.problem:
        return "out of reach"
    if state.backlog:
        return "behind"
    return "rows set aside" if state.set_aside else "delivered"


def _warn_of_problems(states: Sequence[SinkState], output: Output) -> None:
    for state in states if not output.is_json else ():
        if state.problem:
            options.warn(state.problem)


@command.command("deliver")
@_delivering
def deliver(pipeline: NamedPipeline, name: str | None, output: Output) -> None:
    """Deliver what has been published to each sink, or to NAME. Runs do so by themselves.

    Exit codes: 0 delivered or nothing to do, 1 rows are set aside that a sink can't take, 2 a sink is
    declared wrongly, 3 a sink is down: its corrections wait for the next delivery.

    \b
    Example: slackwater sinks deliver tollgates counts
    """
    _deliver(pipeline, name, output)


@command.command("retry")
@_delivering
def retry(pipeline: NamedPipeline, name: str | None, output: Output) -> None:
    """Deliver as `deliver` does, and try the rows again that are set aside, for each sink or for NAME. Exit
    codes are those of `deliver`.

    \b
    Example: slackwater sinks retry tollgates counts
    """
    _deliver(pipeline, name, output, retries=True)


def _deliver(pipeline: NamedPipeline, name: str | None, output: Output, *, retries: bool = False) -> None:
    from slackwater.errors import SlackwaterError
    from slackwater.sinks.errors import rows_set_aside

    opened_pipeline = pipeline.open()
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
        count = len(result.set_aside)
        deliveries.append(
            {"sink": sink.name, "corrections": result.rows, "seq": seq, "offset": offset, "set_aside": count}
        )
        sentences.append(
            f"{pipeline}: {sink.name}: {count_text(result.rows, 'correction')} delivered; it is at seq "
            f"{seq}, {offset}."
        )
        if result.set_aside:
            failures.append(rows_set_aside(sink.name, pipeline.name, result.set_aside))
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
def reset(pipeline: NamedPipeline, name: str | None, to_seq: int | None, output: Output) -> None:
    """Have corrections delivered again by the next delivery, to each sink or to NAME. What was delivered
    stays there, and is replaced.

    \b
    Example: slackwater sinks reset tollgates counts
    """
    delivery = pipeline.open().delivery()
    positions = [(sink.name, *delivery.reset(sink, to_seq)) for sink in delivery.sinks_named(name)]
    printing.show_result(
        [{"sink": sink, "seq": seq, "offset": offset} for sink, seq, offset in positions],
        [
            f"{pipeline}: {sink}: it is at seq {seq}, {offset}; `slackwater sinks deliver` goes on there."
            for sink, seq, offset in positions
        ],
        output,
    )
