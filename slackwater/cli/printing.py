"""Prints the answers of verbs: rows as a table or as JSON, facts beside their names, sentences. Whatever is
printed loses its credentials and its control characters here. A table is made for a terminal of 80 columns.
"""

import functools
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal, TypeVar

import click

from slackwater.cli import table_layout
from slackwater.errors import without_credentials
from slackwater.inspection.answer_tables import AnswerTable, Column, Kind, Row
from slackwater.readable import count_text, plain_text

Function = TypeVar("Function", bound=Callable[..., Any])

# A name, its value, and the kind of the value if it is not that of its type.
Fact = tuple[str, Any] | tuple[str, Any, Kind]
# How many rows a table shows unless --limit says so. JSON is for programs and has all of them.
TABLE_ROWS = 50
_LEAST_WIDTH = 40


@dataclass(frozen=True)
class Output:
    """How the rows of a verb are to be printed. A verb that reads large tables reads no more than `row_limit`
    rows (None: all), and counts the others.
    """

    kind: Literal["table", "json"] = "table"
    is_wide: bool = False
    row_limit: int | None = TABLE_ROWS

    @property
    def is_json(self) -> bool:
        return self.kind == "json"

    def say_meanwhile(self, sentence: str) -> None:
        say(sentence, err=self.is_json)


def kind_option(help_text: str, *further_kinds: str) -> Callable[[Any], Any]:
    """--output, for the parameter `kind`"""
    kinds = click.Choice(["table", "json", *further_kinds])
    return click.option("--output", "kind", type=kinds, default="table", help=help_text)


def limit_option(complete_forms: str) -> Callable[[Any], Any]:
    """--limit; `complete_forms` show all rows unless it is given"""
    help_text = f"at most N rows; 0: all (default: {TABLE_ROWS} in a table, all as {complete_forms})"
    return click.option("--limit", type=click.IntRange(0), metavar="N", help=help_text)


wide_option = click.option("--wide", is_flag=True, help="all columns, run ids and milliseconds included")


def row_limit_of(kind: str, limit: int | None) -> int | None:
    """How many rows are wanted by --output and --limit; None: all."""
    default = TABLE_ROWS if kind == "table" else None
    return default if limit is None else limit or None


def output(function: Function) -> Function:
    """--output, --wide and --limit; `function` takes them as one `output: Output`."""

    @functools.wraps(function)
    def with_output(
        *args: Any, kind: Literal["table", "json"], wide: bool, limit: int | None, **kw: Any
    ) -> Any:
        return function(*args, output=Output(kind, wide, row_limit_of(kind, limit)), **kw)

    for option in (limit_option("JSON"), wide_option, kind_option("a table to read, or JSON")):
        with_output = option(with_output)
    return with_output  # type: ignore[return-value]


def json_or_text(function: Function) -> Function:
    """--output, for verbs that print sentences; `function` takes it as `output: Output`."""

    @functools.wraps(function)
    def with_output(*args: Any, kind: Literal["table", "json"], **kw: Any) -> Any:
        return function(*args, output=Output(kind, row_limit=None), **kw)

    return kind_option("sentences to read, or JSON")(with_output)


def keys(names: Sequence[str]) -> list[Column]:
    return [Column(name, "key") for name in names]


def wide(*names: str) -> list[Column]:
    return [Column(name, is_wide=True) for name in names]


def show(
    rows: Sequence[Row],
    columns: Sequence[Column | str],
    output: Output,
    *,
    empty: str,
    title: str | None = None,
    total: int | None = None,
    others: str = "more",
) -> None:
    """Print `rows`, at most as many as are wanted: as JSON with all their columns, or as a table of
    `columns`, the most important ones first. As a table, no rows print the sentence `empty`.

    Args:
        total: how many rows there are, where `rows` are not all; None: `rows` are all.
        others: what the rows that are not shown are: "more" where `rows` begins with the first ones.
    """
    total = len(rows) if total is None else total
    rows = rows if output.row_limit is None else rows[: output.row_limit]
    if output.is_json:
        click.echo(json_text([dict(row) for row in rows]))
    elif not rows:
        say(empty)
    else:
        if title is not None:
            _print_title(title)
        table_columns = [Column(column) if isinstance(column, str) else column for column in columns]
        layout = table_layout.table(rows, table_columns, terminal_width(), is_wide=output.is_wide)
        for line in layout.lines:
            click.echo(click.unstyle(line) if "NO_COLOR" in os.environ else line)
        if layout.headings_without_room:
            note(f"--wide also shows: {', '.join(layout.headings_without_room)}")
    if total > len(rows):
        note(f"{count_text(total - len(rows), f'{others} row')}; --limit 0 shows all")


def show_table(table: AnswerTable, output: Output) -> None:
    """Print a table of an answer below what was printed before."""
    empty, title = f"\n{table.empty}", f"\n{table.title}"
    show(table.rows, table.columns, output, empty=empty, title=title, total=table.total)


def show_result(rows: Sequence[Row], sentences: Sequence[str], output: Output) -> None:
    """Print what a verb has done: as JSON the rows that it has written, else `sentences`."""
    if output.is_json:
        click.echo(json_text([dict(row) for row in rows]))
        return
    for sentence in sentences:
        say(sentence)


def show_object(value: Row) -> None:
    click.echo(json_text(dict(value)))


def show_facts(facts: Sequence[Fact], output: Output, *, title: str | None = None) -> None:
    """Print names and values beside each other, one a line."""
    if title is not None:
        _print_title(title)
    kinds: list[Kind] = [fact[2] if len(fact) == 3 else "value" for fact in facts]
    precision = table_layout.common_precision(
        ((fact[1], kind) for fact, kind in zip(facts, kinds, strict=True)), is_wide=output.is_wide
    )
    pairs = [
        (plain_text(fact[0]), table_layout.value_text(fact[1], kind, precision))
        for fact, kind in zip(facts, kinds, strict=True)
    ]
    for line in table_layout.facts(pairs, terminal_width()):
        click.echo(line)


def say(sentence: str, *, err: bool = False) -> None:
    """Print a sentence, which may have several lines, on stdout or stderr. On a terminal it breaks between
    words, and never within a command in backticks, which somebody will copy.
    """
    stream = sys.stderr if err else sys.stdout
    width = max(_LEAST_WIDTH, shutil.get_terminal_size().columns) if stream.isatty() else None
    for line in without_credentials(sentence).split("\n"):
        for part in table_layout.wrap_sentence(plain_text(line), width):
            click.echo(part, err=err)


def note(sentence: str) -> None:
    """Print a line about what has been printed: on a terminal below it, else on stderr, so that pipes carry
    rows alone.
    """
    is_piped = not sys.stdout.isatty()
    click.echo(
        sentence if is_piped or "NO_COLOR" in os.environ else click.style(sentence, dim=True), err=is_piped
    )


def _print_title(title: str) -> None:
    text = plain_text(title.lstrip("\n"))
    if title.startswith("\n"):
        click.echo()
    click.echo(text if "NO_COLOR" in os.environ else click.style(text, bold=True))


def terminal_width() -> int | None:
    if not sys.stdout.isatty():
        return None
    return max(_LEAST_WIDTH, shutil.get_terminal_size().columns)


def json_text(value: Any) -> str:
    """JSON for programs: times in ISO 8601 UTC, bytes as hex, no credentials."""
    return without_credentials(json.dumps(value, default=_json_value, indent=1))


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        moment = value.astimezone(UTC)
        fraction = f".{moment.microsecond // 1000:03d}" if moment.microsecond else ""
        return moment.strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z"
    if isinstance(value, date):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else str(value)
