"""`slackwater publish`: makes staged runs or a branch live, without Spark."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from slackwater.jobs.commands import options

if TYPE_CHECKING:
    from slackwater.jobs.protocol.publishing.rebuild import Rebuild
    from slackwater.jobs.tables.ledger.rows import LedgerRow


@click.command("publish")
@click.argument("pipeline")
@click.argument("run_id", required=False, metavar="[RUN|BRANCH]")
@click.option(
    "--accept", metavar="REASON", help="publish in spite of a failed validation; the reason is recorded"
)
@click.option(
    "--rebuild",
    is_flag=True,
    help="make `published` and `corrections` right again, where a verb says that they are not",
)
@options.no_deliver
@options.warehouse
@options.pipelines
@options.log_format
def command(
    pipeline: str,
    *,
    run_id: str | None,
    accept: str | None,
    rebuild: bool,
    no_deliver: bool,
    warehouse: str | None,
    pipelines: str | None,
    log_format: str,
) -> None:
    """Commit every staged slice up to RUN (default: the newest staged run that continues main), in one commit
    or not at all.

    With BRANCH: make its runs live, and main's later runs behind them if the branch has converged with main.

    With --rebuild: remove doubled rows from the ledger, `corrections` and `published`, make `published` what
    its corrections say, and correct it where the panes of the live runs say otherwise.
    """
    from slackwater.jobs.protocol.opened_pipeline import OpenedPipeline

    if accept is not None and (run_id is None or not accept.strip()):
        raise click.UsageError(
            "--accept takes the run that is accepted and a reason: slackwater publish PIPELINE RUN --accept "
            "REASON"
        )
    if rebuild and run_id is not None:
        raise click.UsageError("--rebuild is of everything that is published; leave out the run or branch")
    options.log_to_stderr(log_format)
    opened_pipeline = OpenedPipeline(pipeline, warehouse, pipelines)
    with opened_pipeline.delivering(options.warn, delivers=not no_deliver):
        if rebuild:
            _rebuild(pipeline, opened_pipeline.rebuild())
        elif run_id is not None and opened_pipeline.tables.ledger.branch(run_id) is not None:
            if accept is not None:
                raise click.UsageError(
                    "--accept is for staged runs; what failed its validation never becomes part of a branch"
                )
            _tell_of_branch(pipeline, run_id, opened_pipeline.publish_branch(run_id))
        else:
            _tell_of_runs(pipeline, opened_pipeline.publisher().publish(run_id, accept))


def _tell_of_branch(pipeline: str, branch: str, row: "LedgerRow | None") -> None:
    outcome = (
        "nothing to publish; main has all its runs"
        if row is None
        else f"published by row {row.seq}, verdict {row.verdict}"
    )
    click.echo(f"{pipeline}: branch {branch}: {outcome}.")


def _tell_of_runs(pipeline: str, rows: "Sequence[LedgerRow]") -> None:
    if not rows:
        click.echo(f"{pipeline}: nothing to publish; no staged run continues what is live.")
    for row in rows:
        span = f"[{row.slice_start:%Y-%m-%dT%H:%M}, {row.slice_end:%Y-%m-%dT%H:%M})"
        click.echo(f"{pipeline}: published run {row.seq} {span}, verdict {row.verdict}.")


def _rebuild(pipeline: str, work: "Rebuild") -> None:
    repairs = work.run()
    for table, count in repairs.removed_copies.items():
        click.echo(f"{pipeline}: {count:,} rows of {table} stood there more than once, and stand there once.")
    if repairs.is_published_anew and "published" not in repairs.removed_copies:
        click.echo(f"{pipeline}: `published` was not what its corrections make it, and is now.")
    if repairs.row is not None:
        click.echo(
            f"{pipeline}: the panes of the live runs said otherwise than `published`; corrected by row "
            f"{repairs.row.seq}."
        )
    if not repairs.removed_copies and not repairs.is_published_anew and repairs.row is None:
        click.echo(
            f"{pipeline}: nothing to do; every row stands once and says what the panes of the live runs say."
        )
