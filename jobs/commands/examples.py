"""`slackwater examples`: the examples that we ship, and their data."""

from datetime import UTC

import click

from slackwater.jobs.commands import options
from slackwater.jobs.commands.options import Time


@click.group("examples")
def command() -> None:
    """The examples that we ship, and their data."""


@command.command("list")
@options.output
def list_examples(output: str) -> None:
    """What there is, and the pipeline that reads it."""
    from slackwater.jobs.examples import EXAMPLES

    rows = [
        {"name": item.name, "pipeline": item.pipeline, "source": item.source, "description": item.description}
        for item in EXAMPLES.values()
    ]
    options.show(rows, ["name", "pipeline", "description"], output, empty="there are no examples")


@command.command("load")
@click.argument("name")
@click.option("--from", "from_ms", type=Time(), required=True, metavar="A", help="first arrival")
@click.option("--to", "to_ms", type=Time(), required=True, metavar="B", help="end of arrivals (exclusive)")
@options.warehouse
def load(name: str, from_ms: int, to_ms: int, warehouse: str | None) -> None:
    """Write what arrived in [A, B) to the example's source. What is there already is left alone."""
    from slackwater.jobs.examples import find_example
    from slackwater.jobs.tables.warehouse import Warehouse
    from slackwater.windowing.times import to_datetime

    root = Warehouse.at(warehouse).root
    loaded = find_example(name).load(
        root, to_datetime(from_ms).astimezone(UTC), to_datetime(to_ms).astimezone(UTC)
    )
    click.echo(
        f"{loaded.path}: {loaded.rows_written:,} rows written, {loaded.rows_present:,} were there (version "
        f"{loaded.version})."
    )
