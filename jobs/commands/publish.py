"""`slackwater publish`: makes staged runs live, without Spark."""

import click

from jobs.commands import options


@click.command("publish")
@click.argument("pipeline")
@click.argument("run_id", required=False, metavar="[RUN]")
@click.option("--accept", metavar="REASON", help="publish in spite of a failed validation; the reason is recorded")
@options.warehouse
@options.pipelines
@options.log_format
def command(pipeline: str, run_id: str | None, accept: str | None, warehouse: str | None, pipelines: str | None, log_format: str) -> None:
    """Commit every staged slice up to RUN (default: the newest staged run that continues main), in one commit or not at all."""
    from jobs.protocol.catch_up import publisher

    if accept is not None and (run_id is None or not accept.strip()):
        raise click.UsageError("--accept takes the run that is accepted and a reason: slackwater publish PIPELINE RUN --accept REASON")
    options.log_to_stderr(log_format)
    rows = publisher(pipeline, warehouse, pipelines).publish(run_id, accept)
    if not rows:
        click.echo(f"{pipeline}: nothing to publish; no staged run continues what is live.")
    for row in rows:
        span = f"[{row.slice_start:%Y-%m-%dT%H:%M}, {row.slice_end:%Y-%m-%dT%H:%M})"
        click.echo(f"{pipeline}: published run {row.seq} {span}, verdict {row.verdict}.")
