"""`slackwater verify`: repeats a recorded run and compares hashes. Starts Spark only for a large slice."""

import click

from jobs.commands import options


@click.command("verify")
@click.argument("pipeline")
@click.argument("seq", type=options.SEQ)
@options.warehouse
@options.pipelines
@options.output
def command(pipeline: str, seq: int, warehouse: str | None, pipelines: str | None, output: str) -> None:
    """Replay run SEQ from the versions and the snapshot that it was pinned to, and compare hashes and counts. Changes nothing.

    Exit codes: 0 equal, 1 different, 2 can't be repeated (what it read is gone, or it was declared otherwise).
    """
    from jobs.protocol.catch_up import verifier

    found = verifier(pipeline, warehouse, pipelines).verify(seq)
    rows = [{"what": fact.what, "recorded": fact.recorded, "replayed": fact.replayed, "equal": fact.is_equal} for fact in found.facts]
    options.show(rows, ["what", "recorded", "replayed", "equal"], output, empty="")
    for note in found.notes:
        click.echo(f"{pipeline}: {note}.", err=True)
    for table in found.tables:
        click.echo(
            f"{table.table}: {table.only_recorded} rows only as recorded, {table.only_replayed} only as replayed, e.g. "
            + ", ".join(f"{name}={value}" for name, value in table.example.items()),
            err=True,
        )
    told = "repeats to the same hashes and counts" if found.is_equal else "does NOT repeat: what differs is above"
    click.echo(f"{pipeline}: run {seq} {told}.", err=True)
    if not found.is_equal:
        raise click.exceptions.Exit(1)
