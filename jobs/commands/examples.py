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
    """Every example, and the pipeline that reads it."""
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
    """Write what arrived in [A, B) to the example's source. Rows that it has already are left alone."""
    from slackwater.jobs.examples import find_example
    from slackwater.jobs.tables.warehouse import Warehouse
    from slackwater.windowing.times import to_datetime

    root = Warehouse.at(warehouse).root
    load_report = find_example(name).load(
        root, to_datetime(from_ms).astimezone(UTC), to_datetime(to_ms).astimezone(UTC)
    )
    click.echo(
        f"{load_report.path}: {load_report.rows_written:,} rows written, {load_report.rows_present:,} were "
        f"there (version {load_report.version})."
    )
