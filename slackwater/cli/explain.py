"""`slackwater explain`: prints the life of one window as a story, the answer first. Starts no JVM."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from slackwater.cli import options, printing
from slackwater.cli.options import NamedPipeline
from slackwater.cli.printing import Output

if TYPE_CHECKING:
    from slackwater.inspection.windows.window_elements import ParkedWindow
    from slackwater.inspection.windows.window_life import WindowExplanation


def _columns_of_window(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> dict[str, str]:
    columns = {}
    for value in values:
        name, separator, text = value.partition("=")
        if not separator or not name:
            raise click.BadParameter(
                f"{value!r}: write NAME=VALUE, for example tier=gold", context, parameter
            )
        columns[name] = text
    return columns


@click.command("explain")
@click.argument("pipeline")
@options.key
@click.option(
    "--window",
    "instant_ms",
    type=options.Time(),
    metavar="START",
    help="the window's start; of a session any instant in it; of windows without a start their end",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    callback=_columns_of_window,
    metavar="NAME=VALUE",
    help="a column that your own class of windows declares; or window_end, of windows that begin together",
)
@click.option("--elements", is_flag=True, help="read the window's rows from the source, too")
@click.option("--run", "at", metavar="SEQ|BRANCH", help="as of this run or branch (default: main's head)")
@options.place
@printing.output
def command(
    pipeline: NamedPipeline,
    *,
    key: str | None,
    instant_ms: int | None,
    columns: dict[str, str],
    elements: bool,
    at: str | None,
    output: Output,
) -> None:
    """The life of one window: what it waits for and what holds that back, every firing and its cause, what
    was corrected, what went into it, and how it is parked.

    \b
    Example: slackwater explain departures --key JFK --window 2013-01-02T15:00
    """
    from slackwater.inspection.windows.window_life import WindowQuestion, explain_window
    from slackwater.inspection.windows.window_search import WindowName
    from slackwater.windowing.times import to_datetime

    name = WindowName(None if instant_ms is None else to_datetime(instant_ms), columns)
    question = WindowQuestion(key=key, name=name, at=at, reads_source=elements, row_limit=output.row_limit)
    life = explain_window(pipeline.declaration(), pipeline.warehouse, question)
    if output.is_json:
        printing.show_object(life.as_json())
    else:
        _tell(life, output)


def _tell(life: "WindowExplanation", output: Output) -> None:
    from slackwater.inspection.windows import window_tables as tables
    from slackwater.inspection.windows.window_answer import answer, further_sentences, title

    for sentence in (answer(life), title(life), *further_sentences(life)):
        _say_wrapped(sentence)
    if len(life.waits_for.held_back_by) > 1:
        printing.show_table(tables.holders_table(life), output)
    if life.absorbed_windows:
        printing.show_table(tables.absorbed_table(life), output)
    printing.show_table(tables.firings_table(life.firings, "Firings"), output)
    if life.replaced_firings:
        replaced_firings = tables.firings_table(life.replaced_firings, "Firings that no longer count")
        printing.show_table(replaced_firings, output)
    if life.corrections:
        printing.show_table(tables.corrections_table(life), output)
    printing.show_facts(list(_facts_of_elements(life)), output, title="\nElements")
    growth = tables.growth_table(life)
    if len(growth.rows) > 1:
        printing.show_table(growth, output)
    if life.elements.rows is not None:
        printing.show_table(tables.source_table(life), output)
    if life.elements.late:
        printing.show_table(tables.late_table(life), output)
    if life.parked_state is not None:
        facts = [*_facts_of_parked_state(life.parked_state), *_as_text(tables.parked_parts(life))]
        printing.show_facts(facts, output, title="\nParked state")
        printing.show_table(tables.timers_table(life), output)


def _say_wrapped(sentence: str) -> None:
    """Print a sentence in lines that fit the terminal."""
    width = printing.terminal_width()
    lines = [sentence] if width is None else textwrap.wrap(sentence, width, break_long_words=False)
    printing.say("\n".join(lines))


def _facts_of_elements(life: "WindowExplanation") -> Iterator[tuple[str, Any]]:
    elements = life.elements
    for name, value in (
        ("accepted", elements.accepted_count),
        ("first arrival", elements.first_arrival),
        ("last arrival", elements.last_arrival),
    ):
        if value is not None:
            yield name, value
    yield "too late", elements.late


def _facts_of_parked_state(parked_state: "ParkedWindow") -> Iterator[tuple[str, Any]]:
    yield "seq", str(parked_state.seq)
    yield "elements", parked_state.elements
    yield "firings", parked_state.firings
    if parked_state.last_fired_at is not None:
        yield "last fired at", parked_state.last_fired_at
    yield "cleanup at watermark", parked_state.cleanup_time


def _as_text(parts: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Parts of which nested values are JSON on one line."""
    for name, value in parts:
        is_nested = isinstance(value, dict | list)
        yield name, printing.json_text(value).replace("\n", "") if is_nested else value
