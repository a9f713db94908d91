"""`slackwater quarantine list`: the rows that can't be used, and why. Starts no JVM."""

import click

from slackwater.cli import options, printing
from slackwater.cli.options import NamedPipeline
from slackwater.cli.printing import Output
from slackwater.inspection.answer_tables import Column
from slackwater.readable import count_text


@click.group("quarantine")
def command() -> None:
    """Rows that can't be used: without a key or an event time, far ahead of their arrival, or refused by a
    function of yours.
    """


@command.command("list")
@click.argument("pipeline")
@click.option("--reason", metavar="CODE", help="only rows with this reason, e.g. null_event_time")
@options.run("only rows of this run")
@options.place
@printing.output
def list_rows(pipeline: NamedPipeline, reason: str | None, seq: int | None, output: Output) -> None:
    """The rows of the live runs in quarantine, the newest first, and how many there are for each reason.

    As JSON an object: `reasons` with the counts, and `rows`.

    \b
    Example: slackwater quarantine list departures --reason null_event_time
    """
    from slackwater.inspection.rows.quarantined_rows import quarantined_rows, row_text
    from slackwater.inspection.sql.views import LineageViews

    inspection = pipeline.inspection()
    with LineageViews.over(inspection, inspection.run(None)) as views:
        quarantine = quarantined_rows(views, reason, seq, limit=output.row_limit)
    reasons = quarantine.reasons
    if output.is_json:
        printing.show_object({"reasons": reasons, "rows": quarantine.rows})
        return
    empty = f"{pipeline}: no row is in quarantine{'' if seq is None else f' by run {seq}'}."
    columns = [
        Column("run_seq", "id", heading="seq"),
        Column("arrival_time"),
        Column("reason", "text"),
        Column("row", "text"),
        *printing.wide("reason_code", "column_name", "source_version", "source_file"),
    ]
    rows = [row | {"row": row_text(row["row_json"])} for row in quarantine.rows]
    printing.show(rows, columns, output, empty=empty, total=quarantine.total)
    if reasons:
        counts = ", ".join(f"{one['reason_code']} {one['rows']:,}" for one in reasons)
        total = sum(one["rows"] for one in reasons)
        printing.note(f"{count_text(total, 'row')} in quarantine, by reason: {counts}.")
