"""`slackwater verify`: repeats a recorded run and compares hashes, or compares the tables with the ledger.
Starts Spark only to repeat a large slice."""

import logging
from typing import TYPE_CHECKING

import click

from slackwater.cli import options, printing
from slackwater.cli.options import NamedPipeline
from slackwater.cli.printing import Output
from slackwater.inspection.answer_tables import Column

if TYPE_CHECKING:
    from slackwater.engine.transport.placement import On
    from slackwater.runs.opened_pipeline import OpenedPipeline
_REPLAY_COLUMNS = [
    Column("what"),
    Column("equal"),
    Column("recorded", "text"),
    Column("replayed", "text"),
]
_TABLE_COLUMNS = [
    Column("table"),
    Column("seq"),
    Column("what"),
    Column("recorded", "text"),
    Column("stored", "text"),
]


@click.command("verify")
@click.argument("pipeline")
@click.argument("seq", type=options.SEQ, required=False)
@click.option(
    "--tables",
    "compares_tables",
    is_flag=True,
    help="compare the tables with the ledger, instead of a run",
)
@options.on
@options.place
@printing.output
def command(
    pipeline: NamedPipeline, *, seq: int | None, compares_tables: bool, on: "On | None", output: Output
) -> None:
    """Replay run SEQ from the versions and the snapshot that it was pinned to, and compare hashes and counts.
    Changes nothing.

    With --tables instead of SEQ: compare panes, late rows, quarantine and parked state of each live run with
    the hashes and counts of the ledger, and `published` with its corrections and the panes. Rows that
    somebody has deleted or edited are noticed, and damaged files.

    Exit codes: 0 equal, 1 different, 2 can't be repeated (what the run read is gone, or the pipeline
    was declared otherwise).

    \b
    Example: slackwater verify departures 3
    """
    if (seq is None) != compares_tables:
        raise click.UsageError(
            "give the SEQ of a run (`slackwater runs` lists them), or --tables, and not both"
        )
    options.log_to_stderr(None, logging.WARNING)
    opened_pipeline = pipeline.open(on)
    is_equal = (
        _verify_tables(opened_pipeline, output) if seq is None else _verify_run(opened_pipeline, seq, output)
    )
    if not is_equal:
        raise click.exceptions.Exit(1)


def _verify_run(opened_pipeline: "OpenedPipeline", seq: int, output: Output) -> bool:
    comparison = opened_pipeline.verifier().verify(seq)
    rows = [
        {"what": fact.what, "recorded": fact.recorded, "replayed": fact.replayed, "equal": fact.is_equal}
        for fact in comparison.facts
    ]
    printing.show(rows, _REPLAY_COLUMNS, output, empty="")
    for note in comparison.notes:
        printing.say(f"{opened_pipeline.name}: {note}.", err=True)
    for table in comparison.tables:
        printing.say(
            f"{table.table}: {table.only_recorded} rows only as recorded, {table.only_replayed} only as "
            "replayed, e.g. " + ", ".join(f"{name}={value}" for name, value in table.example.items()),
            err=True,
        )
    verdict = (
        "repeats to the same hashes and counts"
        if comparison.is_equal
        else "does NOT repeat: what differs is above"
    )
    printing.say(f"{opened_pipeline.name}: run {seq} {verdict}.", err=True)
    return comparison.is_equal


def _verify_tables(opened_pipeline: "OpenedPipeline", output: Output) -> bool:
    checks = opened_pipeline.table_checks()
    facts = list(checks.facts())
    rows = [{**vars(fact), "equal": fact.is_equal} for fact in facts]
    differing = [row for row in rows if not row["equal"]]
    if output.is_json or differing:
        printing.show(rows if output.is_json else differing, _TABLE_COLUMNS, output, empty="")
    for row in differing:
        run = "" if row["seq"] is None else f" of run {row['seq']}"
        printing.say(f"{row['table']}{run}: {row['what']} differ. {row['step']}", err=True)
    for note in checks.notes():
        printing.say(f"{opened_pipeline.name}: {note}.", err=True)
    verdict = (
        f"{len(differing)} of them differ: what, and how to go on, is above"
        if differing
        else "all are as recorded"
    )
    printing.say(
        f"{opened_pipeline.name}: {len(rows)} facts of the tables were compared, {verdict}.", err=True
    )
    return not differing
