"""`slackwater publish`: makes staged runs or a branch live, without Spark."""

import click

from jobs.commands import options


@click.command("publish")
@click.argument("pipeline")
@click.argument("run_id", required=False, metavar="[RUN|BRANCH]")
@click.option("--accept", metavar="REASON", help="publish in spite of a failed validation; the reason is recorded")
@options.warehouse
@options.pipelines
@options.log_format
def command(pipeline: str, run_id: str | None, accept: str | None, warehouse: str | None, pipelines: str | None, log_format: str) -> None:
    """Commit every staged slice up to RUN (default: the newest staged run that continues main), in one commit or not at all.

    With BRANCH: make its runs live, and main's later runs behind them if the branch has converged with main.
    """
    from jobs.protocol.catch_up import publish_branch, publisher

    if accept is not None and (run_id is None or not accept.strip()):
        raise click.UsageError("--accept takes the run that is accepted and a reason: slackwater publish PIPELINE RUN --accept REASON")
    options.log_to_stderr(log_format)
    made = publisher(pipeline, warehouse, pipelines)
    if run_id is not None and made.tables.ledger.branch(run_id) is not None:
        if accept is not None:
            raise click.UsageError("--accept is for staged runs; what failed its validation never becomes part of a branch")
        row = publish_branch(pipeline, run_id, warehouse, pipelines)
        told = "nothing to publish; main has all its runs" if row is None else f"published by row {row.seq}, verdict {row.verdict}"
        click.echo(f"{pipeline}: branch {run_id}: {told}.")
        return
    rows = made.publish(run_id, accept)
    if not rows:
        click.echo(f"{pipeline}: nothing to publish; no staged run continues what is live.")
    for row in rows:
        span = f"[{row.slice_start:%Y-%m-%dT%H:%M}, {row.slice_end:%Y-%m-%dT%H:%M})"
        click.echo(f"{pipeline}: published run {row.seq} {span}, verdict {row.verdict}.")
