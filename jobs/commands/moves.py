"""`slackwater state fork`, `state restore`, `state close`: verbs that move a lineage. Only `close` runs windows, on Spark."""

import click

from jobs.commands import options


@click.command("fork")
@click.argument("pipeline")
@click.argument("branch")
@click.option("--run", "seq", type=int, metavar="SEQ", help="fork behind this run (default: main's head)")
@options.warehouse
@options.pipelines
@options.log_format
def fork(pipeline: str, branch: str, seq: int | None, warehouse: str | None, pipelines: str | None, log_format: str) -> None:
    """Make BRANCH, which begins with the runs that are live up to SEQ and the state that they left. Main stays as it is."""
    from jobs.protocol.catch_up import moves

    options.log_to_stderr(log_format)
    row = moves(pipeline, warehouse, pipelines).fork(branch, seq)
    behind = "at the start of the lineage" if not row.live else f"behind run {row.live[-1].last_seq}"
    moved = "" if seq is None or not row.live or row.live[-1].last_seq == seq else f", the nearest whose snapshot is kept before {seq}"
    click.echo(f"{pipeline}: the branch {branch} begins {behind}{moved}, at {options.cell(row.slice_end)}.")


@click.command("restore")
@click.argument("pipeline")
@click.argument("seq", type=int)
@options.warehouse
@options.pipelines
@options.log_format
def restore(pipeline: str, seq: int, warehouse: str | None, pipelines: str | None, log_format: str) -> None:
    """Make main again what it was after SEQ: its runs, its state, and what it had published. Later runs stay in the ledger, and can be
    restored in turn."""
    from jobs.protocol.catch_up import moves

    options.log_to_stderr(log_format)
    row = moves(pipeline, warehouse, pipelines).restore(seq)
    if row is None:
        click.echo(f"{pipeline}: nothing to do; what was live after {seq} is live now.")
    else:
        click.echo(f"{pipeline}: main is what it was after {seq}, by row {row.seq}; it ends at {options.cell(row.slice_end)}.")


@click.command("close")
@click.argument("pipeline")
@options.warehouse
@options.pipelines
@options.log_format
def close(pipeline: str, warehouse: str | None, pipelines: str | None, log_format: str) -> None:
    """End the lineage with the final watermark: every open window fires that a watermark makes fire. Timers of processing time do not; they
    stay pending. Nothing can be run afterwards until `state restore` takes the close back. As in Flink, a function that registers a timer
    of event time whenever one fires is never done.
    """
    from jobs.protocol.catch_up import close_on_spark

    options.log_to_stderr(log_format)
    row = close_on_spark(pipeline, warehouse, pipelines, lines=click.echo)
    if row is None:
        click.echo(f"{pipeline}: nothing to do; the lineage is closed.")
        return
    click.echo(
        f"{pipeline}: closed at {options.cell(row.slice_end)} by row {row.seq}; {row.windows_open:,} windows stay open, "
        f"{row.timers_pending:,} timers stay pending. `slackwater state restore {pipeline} {row.parent_seq}` reopens it."
    )
