"""`slackwater examples`: the examples that we ship, and their data."""

from dataclasses import asdict
from datetime import UTC

import click

from slackwater.cli import options, printing
from slackwater.cli.options import Time
from slackwater.cli.printing import Output
from slackwater.inspection.answer_tables import Column
from slackwater.readable import count_text


@click.group("examples")
def command() -> None:
    """The examples that we ship, and their data."""


@command.command("list")
@printing.output
def list_examples(output: Output) -> None:
    """Every example, and the pipeline that reads it.

    \b
    Example: slackwater examples list
    """
    from slackwater.examples import EXAMPLES

    rows = [
        {"name": item.name, "pipeline": item.pipeline, "source": item.source, "description": item.description}
        for item in EXAMPLES.values()
    ]
    columns = [Column("name"), Column("description", "text"), Column("pipeline", is_wide=True)]
    printing.show(rows, columns, output, empty="there are no examples")


@command.command("load")
@click.argument("name")
@click.option("--from", "from_ms", type=Time(), required=True, metavar="A", help="first arrival")
@click.option("--to", "to_ms", type=Time(), required=True, metavar="B", help="end of arrivals (exclusive)")
@options.warehouse
@printing.json_or_text
def load(name: str, from_ms: int, to_ms: int, warehouse: str | None, output: Output) -> None:
    """Write what arrived in [A, B) to the example's source. Rows that it has already are left alone.

    \b
    Example: slackwater examples load departures --from 2013-01-01 --to 2013-02-01
    """
    from slackwater.examples import find_example
    from slackwater.tables.warehouse import Warehouse
    from slackwater.windowing.times import to_datetime

    root = Warehouse.at(warehouse).root
    load_report = find_example(name).load(
        root, to_datetime(from_ms).astimezone(UTC), to_datetime(to_ms).astimezone(UTC)
    )
    sentence = (
        f"{load_report.path}: {count_text(load_report.rows_written, 'row')} written, "
        f"{load_report.rows_present:,} were there (version {load_report.version})."
    )
    printing.show_result([asdict(load_report)], [sentence], output)
