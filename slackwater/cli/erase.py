"""`slackwater erase`: takes somebody's rows out of a pipeline's tables for good. Starts no JVM."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from slackwater.cli import options, printing
from slackwater.cli.options import NamedPipeline
from slackwater.cli.printing import Output

if TYPE_CHECKING:
    from slackwater.runs.lineage.erasure import Person


@click.command("erase")
@click.argument("pipeline")
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="K",
    help="a key, as in `state windows --key`; give it again for more",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=VALUE",
    help="erase late and quarantined rows where source column NAME equals VALUE, for a person who is not a "
    "key; repeatable",
)
@click.option("--reason", metavar="TEXT", help="why, for the record; name nobody in it")
@click.option("--dry-run", is_flag=True, help="say how many rows would go, and change nothing")
@options.place
@printing.output
@options.log_format
def command(
    pipeline: NamedPipeline,
    *,
    keys: tuple[str, ...],
    columns: tuple[str, ...],
    reason: str | None,
    dry_run: bool,
    output: Output,
) -> None:
    """Take everything of the keys out of every table of PIPELINE, parked state and its older snapshots
    included, record that it was done, and delete the files. Delete the rows in the source first; runs then go
    on with it.

    Exit codes: 0 done or nothing to do, 2 the source still has such rows, 3 a run is at work, 5 somebody else
    was first.

    \b
    Example: slackwater erase visits --key 4711 --reason 'request 12' --dry-run
    """
    from slackwater.runs.lineage.erasure import describe_erasure

    if not keys and not columns:
        raise click.UsageError("say whose rows: --key K, or --column NAME=VALUE")
    if reason is None and not dry_run:
        raise click.UsageError("say why, for the record: --reason TEXT (without naming anybody)")
    persons = _persons(pipeline, keys, columns)
    work = pipeline.open().erasure()
    rows_by_table = [{"table": table, "rows": rows} for table, rows in work.plan(persons).items()]
    row = None if dry_run or reason is None else work.run(persons, reason)
    printing.show(
        rows_by_table, ["table", "rows"], output, empty=f"{pipeline}: none of its tables has such rows."
    )
    if dry_run and rows_by_table:
        printing.say(
            f"{pipeline}: nothing was changed; these rows would be erased. Rows of attempts and validations "
            "stay, and lose a text.",
            err=True,
        )
    if row is not None:
        printing.say(f"{pipeline}: {describe_erasure(row)}.", err=True)


def _persons(pipeline: NamedPipeline, keys: Sequence[str], columns: Sequence[str]) -> "list[Person]":
    """Whose rows are to be erased: each is a key, or a value of a source column."""
    from slackwater.runs.lineage.erasure import Person, person_of_key

    persons = [person_of_key(pipeline.declaration(), key) for key in keys]
    for column in columns:
        name, equals, value = column.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--column {column!r}: write it as NAME=VALUE")
        persons.append(Person(((name, value),)))
    return persons
