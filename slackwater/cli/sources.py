"""`slackwater sources`: what a table or folder is before it is a source, and a pipeline file to start from.
Starts no JVM.
"""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slackwater.cli import options, printing
from slackwater.cli.printing import Output
from slackwater.errors import UsageError
from slackwater.inspection.answer_tables import Column
from slackwater.readable import count_text, duration_text, share_text

if TYPE_CHECKING:
    from slackwater.inspection.sources.disorder import Disorder
    from slackwater.inspection.sources.source_look import SourceLook


@click.group("sources")
def command() -> None:
    """Tables and folders that pipelines may read."""


@command.command("look")
@click.argument("uri")
@click.option(
    "--write",
    "path",
    metavar="FILE",
    help="write the pipeline file here; a file that is there stays as it is",
)
@options.warehouse
@printing.output
def look(uri: str, path: str | None, warehouse: str | None, output: Output) -> None:
    """Read the head of a table, a folder or a file, and say what it is, what its columns could be for a
    pipeline and why, how disordered and late its rows are; and print a pipeline file to start from.

    URI is a path relative to the warehouse, any other path, or the URI of an object store.

    \b
    Examples: slackwater sources look sources/departures
              slackwater sources look landing/orders --write orders.py
    """
    from slackwater.inspection.sources.source_look import look_at

    if path is not None and Path(path).exists():
        raise UsageError(f"{path} is there already, and stays as it is. Name another file: --write FILE")
    found_look = look_at(uri, warehouse)
    if path is not None:
        _write(found_look, path)
    if output.is_json:
        printing.show_object(found_look.as_json(path))
        return
    printing.say(" ".join([found_look.summary, found_look.reading]))
    for note in found_look.notes:
        printing.say(note)
    _show_columns(found_look, output)
    if found_look.fields:
        _show_roles(found_look, output)
    if found_look.disorder is not None:
        _show_disorder(found_look, found_look.disorder, output)
    _show_file(found_look, path)


def _write(source_look: "SourceLook", path: str) -> None:
    file = source_look.pipeline_file(path)
    if file is None:
        raise UsageError(
            f"{source_look.location}: no value of it looks like the time of an event, so there is no file to "
            "write. Look without --write."
        )
    with open(path, "x", encoding="utf-8") as stream:
        stream.write(file.text)


def _show_columns(source_look: "SourceLook", output: Output) -> None:
    rows = [
        {
            **row,
            "could_be": ", ".join(row["could_be"]),
            "type": _short_type(row["type"]),
            "example": _plain(row["example"]),
        }
        for row in source_look.column_rows()
    ]
    columns = [
        Column("name", "text", heading="column"),
        Column("type", "text"),
        Column("could_be", "text"),
        Column("example", "text"),
        Column("null_share", "share", heading="null"),
        Column("distinct", heading="values"),
        Column("why", "text", is_wide=True),
    ]
    printing.show(rows, columns, output, empty="It has no columns.", title="\nColumns")


def _short_type(kind: str) -> str:
    """Arrow's name of a type without what is the same for most columns."""
    if kind.startswith("timestamp"):
        return "timestamp" if "tz=" in kind or "[" not in kind else "timestamp without zone"
    return kind.removesuffix("[day]").replace("date32", "date")


def _plain(example: Any) -> Any:
    """Numbers with all their digits: what they mean may be in these."""
    return example if isinstance(example, datetime | bool) or example is None else str(example)


def _show_roles(source_look: "SourceLook", output: Output) -> None:
    rows = [
        {**vars(row), "expression": row.field if row.is_column else row.expression}
        for row in source_look.roles
    ]
    columns = [
        Column("role", "text"),
        Column("expression", "text", heading="from"),
        Column("reason", "text", heading="why"),
    ]
    printing.show(rows, columns, output, empty="", title="\nWhat a pipeline would take")


def _show_disorder(source_look: "SourceLook", disorder: "Disorder", output: Output) -> None:
    rows = [
        {"rows": "99 %", "bound": disorder.bound_99_ms, "delay": disorder.delays.p99_ms},
        {"rows": "99.9 %", "bound": disorder.bound_999_ms, "delay": disorder.delays.p999_ms},
        {"rows": "all", "bound": disorder.bound_all_ms, "delay": disorder.delays.greatest_ms},
    ]
    columns = [
        Column("rows", "text", heading="of the sample's rows"),
        Column("bound", "duration", heading="behind by at most"),
        Column("delay", "duration", heading="arrive within"),
    ]
    printing.show(rows, columns, output, empty="", title="\nHow disordered and how late")
    for sentence in sentences_on(disorder):
        printing.say(sentence)


def sentences_on(disorder: "Disorder") -> list[str]:
    within = 1 - disorder.rows_beyond_bound / disorder.rows
    bound, lateness = duration_text(disorder.bound_ms), duration_text(disorder.lateness_ms)
    late = "none" if not disorder.late_rows else count_text(disorder.late_rows, "row")
    share = "" if not disorder.late_rows else f" ({share_text(disorder.late_rows / disorder.rows)})"
    lateness_text = f" and an allowed lateness of {lateness}" if disorder.lateness_ms else ""
    return [
        f"Half of the rows arrive within {duration_text(disorder.delays.median_ms)} of their event.",
        f"A bound of {bound} covers {share_text(within)}; with it{lateness_text}, {late} of "
        f"{disorder.rows:,}{share} would be too late for a window of an hour.",
    ]


def _show_file(source_look: "SourceLook", path: str | None) -> None:
    file = source_look.pipeline_file(path)
    if source_look.what_to_do:
        sentence, *lines = source_look.what_to_do
        click.echo()
        printing.say(sentence)
        click.echo()
        for line in lines:
            click.echo(f"    {line}")
    if file is None:
        click.echo()
        printing.say(
            "There is no pipeline file to start from: a pipeline needs the time of each event. Make one by "
            'derive={"event_at": "…"} on the source, in SQL.'
        )
        return
    click.echo()
    if path is None:
        name = file.commands[0].rpartition(" ")[2]
        printing.say(f"A pipeline file to start from (--write {name} writes it):")
        click.echo()
        click.echo(file.text.rstrip("\n"))
    else:
        printing.say(f"The pipeline file is {path}.")
    click.echo()
    printing.say("Next:")
    for line in file.commands:
        click.echo(f"  {line}")
