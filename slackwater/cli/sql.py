"""`slackwater sql`: answers SELECT statements over the views of a pipeline, given as an argument, on stdin,
or at a prompt. Starts no JVM.
"""

import sys
from typing import TYPE_CHECKING, Literal

import click

from slackwater.cli import options, printing
from slackwater.cli.options import NamedPipeline
from slackwater.cli.printing import Output
from slackwater.errors import without_credentials
from slackwater.inspection.answer_tables import Column
from slackwater.readable import count_text, plain_text

if TYPE_CHECKING:
    import pyarrow as pa

    from slackwater.inspection.sql.locked_database import RowBatches
    from slackwater.inspection.sql.views import LineageViews

Form = Literal["table", "json", "csv"]


@click.command("sql")
@click.argument("pipeline")
@click.argument("statement", required=False)
@options.run("the views as of this ledger row")
@click.option("--branch", metavar="NAME", help="the views as of this branch")
@printing.kind_option("a table to read, JSON or CSV", "csv")
@printing.limit_option("JSON and CSV")
@click.option("--wide", is_flag=True, help="all columns, also those that the terminal has no room for")
@options.place
def command(
    pipeline: NamedPipeline,
    *,
    statement: str | None,
    seq: int | None,
    branch: str | None,
    kind: Form,
    limit: int | None,
    wide: bool,
) -> None:
    """Ask the tables of PIPELINE in SQL (DuckDB's): `published`, `panes_live`, `windows_now`, `late_live`,
    `runs` and more; SHOW TABLES lists them. `windows_at(4)` is the same view as of run 4.

    Statements only read, and read nothing but these tables. Without STATEMENT one is read from stdin; on a
    terminal there is a prompt, with history (arrow keys) and completion (Tab).

    Example: slackwater sql departures "SELECT origin, count(*) FROM late_live GROUP BY ALL" """
    from slackwater.inspection.sql.views import LineageViews
    from slackwater.tables.ledger.rows import MAIN

    if seq is not None and branch is not None:
        raise click.UsageError("give --run or --branch, not both")
    row_limit = printing.row_limit_of(kind, limit)
    inspection = pipeline.inspection()
    with LineageViews.over(inspection, inspection.at(str(seq or branch or MAIN))) as views:
        inspection.say_if_unfinished()
        if statement is None and sys.stdin.isatty():
            from slackwater.cli.sql_prompt import prompt

            prompt(views, lambda text: print_answer(views, text, kind, row_limit, is_wide=wide))
            return
        text = sys.stdin.read() if statement is None else statement
        if not text.strip():
            raise click.UsageError(
                f'no statement: give one, for example `slackwater sql {pipeline} "FROM windows_now"`'
            )
        print_answer(views, text, kind, row_limit, is_wide=wide)


def print_answer(
    views: "LineageViews", statement: str, form: Form, row_limit: int | None, *, is_wide: bool
) -> None:
    """Print the rows of a statement, at most `row_limit`, and how many more there are."""
    from slackwater.inspection.sql import sql_answers
    from slackwater.inspection.sql.locked_database import RowBatches

    if form != "table" and row_limit is None:
        with sql_answers.answer_in_batches(views, statement) as stream:
            _print_stream(stream, form)
        return
    answer = sql_answers.answer(views, statement, sys.maxsize if row_limit is None else row_limit)
    if form == "table":
        _print_table(answer.rows, is_wide=is_wide)
    else:
        _print_stream(RowBatches(answer.rows.schema, iter(answer.rows.to_batches())), form)
    if answer.others is None:
        printing.note("there are more rows; --limit 0 shows all")
    elif answer.others:
        printing.note(f"{count_text(answer.others, 'more row')}; --limit 0 shows all")


def _print_table(rows: "pa.Table", *, is_wide: bool) -> None:
    from slackwater.inspection.rows.row_exports import rows_of

    names = [f"{number} {name}" for number, name in enumerate(rows.schema.names)]  # names may be equal
    columns = [
        Column(name, "exact", heading=plain_text(heading))
        for name, heading in zip(names, rows.schema.names, strict=True)
    ]
    table_rows = [dict(zip(names, row, strict=True)) for row in rows_of(rows)]
    printing.show(table_rows, columns, Output("table", is_wide, None), empty="no rows")


def _print_stream(stream: "RowBatches", form: Form) -> None:
    from slackwater.inspection.rows.row_exports import csv_pieces, json_pieces

    if form == "csv":
        for content in csv_pieces(stream):
            click.echo(without_credentials(content.decode()), nl=False)
    else:
        for text in json_pieces(stream):
            click.echo(without_credentials(text), nl=False)
        click.echo()
