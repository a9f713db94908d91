"""`slackwater late advise`: what another allowed lateness or another bound would have saved and cost, and
which one is worth its price. Starts no JVM.
"""

from dataclasses import asdict
from typing import Any

import click

from slackwater.cli import options, printing
from slackwater.cli.printing import Output
from slackwater.cli.table_layout import Column

_LATENESS_COLUMNS = (
    Column("lateness_ms", "exact_duration", heading="allowed lateness"),
    Column("note", heading=""),
    Column("late_rows"),
    Column("rows_saved"),
    Column("rows_lost", is_optional=True),
    Column("windows_refired"),
    Column("windows_open", heading="open windows"),
    Column("state_bytes", "size", heading="state"),
    Column("refires"),
)
_BOUND_COLUMNS = (
    Column("bound_ms", "exact_duration", heading="bound"),
    Column("note", heading=""),
    Column("delay_ms", "exact_duration", heading="fires later by"),
    Column("complete_share", "share", heading="complete windows"),
    Column("row_share", "share", heading="rows at first firing"),
    Column("least_complete", "share", heading="least complete 5 %"),
    Column("late_rows"),
)


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
@options.warehouse
@options.pipelines
@printing.output
def advise(
    pipeline: str,
    *,
    lateness: int | None,
    bound: int | None,
    last: int | None,
    elements: bool,
    warehouse: str | None,
    pipelines: str | None,
    output: Output,
) -> None:
    """What another allowed lateness would have saved and cost, how complete windows were when they first
    fired under this and longer bounds of the watermark, and which settings are worth their price.

    All of it comes from what runs have recorded of rows that came late; the source is read only with
    --elements.

    \b
    Example: slackwater late advise departures --lateness 7h
    """
    from slackwater.inspection.inspection import Inspection
    from slackwater.inspection.late_rows import lateness_sentences
    from slackwater.inspection.late_rows.lateness_and_bound import advice_of

    reading = None
    if elements:
        from slackwater.pipelines import registry
        from slackwater.tables.warehouse import Warehouse

        reading = (registry.load(pipelines)[pipeline], Warehouse.at(warehouse))
    late_rows = advice_of(
        Inspection.of(pipeline, warehouse),
        lateness_ms=lateness,
        bound_ms=bound,
        last_runs=last,
        reading=reading,
    )
    advice, bound_advice = late_rows.lateness, late_rows.bound
    latenesses = [
        {**asdict(price), "note": _note(price, advice.current, advice.suggestion)} for price in advice.prices
    ]
    bounds = (
        []
        if bound_advice is None or not bound_advice.current.windows
        else [
            {**_bound_values(price), "note": _note(price, bound_advice.current, bound_advice.suggestion)}
            for price in bound_advice.prices
        ]
    )
    sentences = [lateness_sentences.lateness_suggestion(advice)]
    if bound_advice is not None:
        sentences.append(lateness_sentences.bound_suggestion(bound_advice))
    notes = lateness_sentences.exactness(advice, bound_advice)
    if output.is_json:
        printing.show_object(
            {
                "pipeline": pipeline,
                "allowed_lateness_ms": advice.settings.lateness_ms,
                "bound_ms": advice.settings.bound_ms,
                "rows_read": advice.rows_read,
                "rows_late": advice.rows_late,
                "lateness": latenesses,
                "bound": bounds,
                "suggested_lateness_ms": advice.suggestion.lateness_ms,
                "suggested_bound_ms": None if bound_advice is None else bound_advice.suggestion.bound_ms,
                "suggestion": " ".join(sentences),
                "notes": notes,
                "is_sample": advice.is_sample,
            }
        )
        return
    printing.say(f"{pipeline}: {lateness_sentences.summary(advice)}")
    click.echo()
    printing.show(latenesses, _LATENESS_COLUMNS, output, empty="")
    if bounds:
        click.echo()
        printing.show(bounds, _BOUND_COLUMNS, output, empty="")
    click.echo()
    for sentence in (*sentences, " ".join(notes)):
        printing.say(sentence)


def _note(price: Any, current: Any, suggestion: Any) -> str:
    """What a row of a table is beside its numbers."""
    if price == suggestion and price != current:
        return "suggested"
    return "declared" if price == current else ""


def _bound_values(price: Any) -> dict[str, Any]:
    from slackwater.inspection.late_rows.completeness import BARS

    return {
        **asdict(price),
        "complete_share": price.complete_share,
        "row_share": price.row_share,
        "least_complete": price.quantiles.get(0.05),
        "bars": {str(least): windows for least, windows in zip(BARS, price.bars, strict=True)},
    }
