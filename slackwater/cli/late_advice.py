"""`slackwater late advise`: what another allowed lateness or another bound would have saved and cost, and
which one is worth its price. Starts no JVM.
"""

from typing import TYPE_CHECKING

import click

from slackwater.cli import options, printing
from slackwater.cli.options import NamedPipeline
from slackwater.cli.printing import Output

if TYPE_CHECKING:
    from slackwater.inspection.late_rows.lateness_and_bound import LateRowAdvice


@click.command("advise")
@click.argument("pipeline")
@click.option("--lateness", type=options.Length(), metavar="LENGTH", help="show this allowed lateness, too")
@click.option("--bound", type=options.Length(), metavar="LENGTH", help="show this bound, too")
@click.option(
    "--last",
    type=click.IntRange(1),
    metavar="N",
    help="look at the newest N runs (default: all that can be read in a moment)",
)
@click.option(
    "--elements",
    is_flag=True,
    help="read the rows from the source, too: shorter bounds have a price then; --last bounds them",
)
@options.place
@printing.output
def advise(
    pipeline: NamedPipeline,
    *,
    lateness: int | None,
    bound: int | None,
    last: int | None,
    elements: bool,
    output: Output,
) -> None:
    """What another allowed lateness would have saved and cost, how complete windows were when they first
    fired under this and longer bounds of the watermark, and which settings are worth their price.

    All of it comes from what runs have recorded of rows that came late; the source is read only with
    --elements.

    \b
    Example: slackwater late advise departures --lateness 7h
    """
    from slackwater.inspection.late_rows.lateness_and_bound import advice_of
    from slackwater.tables.warehouse import Warehouse

    reading = (pipeline.declaration(), Warehouse.at(pipeline.warehouse)) if elements else None
    advice = advice_of(
        pipeline.inspection(), lateness_ms=lateness, bound_ms=bound, last_runs=last, reading=reading
    )
    _show(pipeline, advice, output)


def _show(pipeline: NamedPipeline, advice: "LateRowAdvice", output: Output) -> None:
    from slackwater.inspection.late_rows.lateness_tables import bound_table, lateness_table

    latenesses, bounds = lateness_table(advice.lateness), bound_table(advice.bound)
    if output.is_json:
        settings, bound = advice.settings, advice.bound
        printing.show_object(
            {
                "pipeline": pipeline.name,
                "allowed_lateness_ms": settings.lateness_ms,
                "bound_ms": settings.bound_ms,
                "rows_read": advice.lateness.rows_read,
                "rows_late": advice.lateness.rows_late,
                "lateness": latenesses.rows,
                "bound": [] if bounds is None else bounds.rows,
                "suggested_lateness_ms": advice.lateness.suggestion.lateness_ms,
                "suggested_bound_ms": None if bound is None else bound.suggestion.bound_ms,
                "suggestion": " ".join(advice.suggestions),
                "notes": advice.notes,
                "is_sample": advice.lateness.is_sample,
            }
        )
        return
    printing.say(f"{pipeline}: {advice.summary}")
    for table in (latenesses, bounds):
        if table is not None:
            click.echo()
            printing.show(table.rows, table.columns, output, empty="")
    click.echo()
    for sentence in (*advice.suggestions, " ".join(advice.notes)):
        printing.say(sentence)
