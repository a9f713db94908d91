"""`slackwater backfill`: restates a range on a branch, and makes the branch live."""

from typing import TYPE_CHECKING

import click

from slackwater.cli import changed_rows, options, printing
from slackwater.cli.options import ArrivalTime, Length, NamedPipeline
from slackwater.cli.plan import print_plan
from slackwater.cli.printing import Output

if TYPE_CHECKING:
    from slackwater.engine.transport.placement import On
    from slackwater.runs.opened_pipeline import OpenedPipeline
    from slackwater.runs.restating.backfill import BackfillRequest


@click.command("backfill")
@click.argument("pipeline")
@click.option(
    "--from", "from_ms", type=ArrivalTime(), required=True, metavar="A", help="first arrival to restate"
)
@click.option(
    "--to",
    "to_ms",
    type=ArrivalTime(),
    required=True,
    metavar="B",
    help="end of the arrivals to restate (exclusive)",
)
@click.option("--dry-run", is_flag=True, help="say what it would read, touch and take, and do nothing")
@click.option(
    "--until-converged/--until-same-code",
    default=False,
    help="stop when the open windows are the same, whatever code made main's later runs; or only where it "
    "was the same (default)",
)
@click.option(
    "--preview/--publish",
    "--no-publish",
    "preview",
    default=False,
    help="leave the branch when it could be published, so that `diff` shows to the row what publishing it "
    "changes; or publish it (default)",
)
@click.option(
    "--slice",
    "slice_ms",
    type=Length(),
    metavar="D",
    help="length of the branch's slices, e.g. 6h (default: main's own cuts)",
)
@click.option("--reason", metavar="TEXT", help="recorded with the publication")
@options.no_deliver
@options.replaying
@options.place
@printing.output
@options.log_format
def command(
    pipeline: NamedPipeline,
    *,
    from_ms: int,
    to_ms: int,
    dry_run: bool,
    until_converged: bool,
    preview: bool,
    slice_ms: int | None,
    reason: str | None,
    no_deliver: bool,
    on: "On | None",
    engine: str | None,
    partitions: int | None,
    manifest: str | None,
    output: Output,
) -> None:
    """Replay [A, B) from the snapshot before it, go on until the state is that of the live runs again, and
    publish the whole range at once.

    After a kill, the same command goes on at the last finished slice. Exit codes: 0 done, 2 usage, 3 try
    again, 4 rejected by validation, 5 another run was first.

    \b
    Example: slackwater backfill departures --from 2013-01-02 --to 2013-01-03 --dry-run
    """
    from slackwater.runs.restating.backfill import BackfillRequest

    opened_pipeline = pipeline.open(on)
    zone = opened_pipeline.pipeline.zone
    from_ms, to_ms = options.in_zone(from_ms, zone), options.in_zone(to_ms, zone)
    if dry_run:
        print_plan(opened_pipeline.planner().plan(from_ms, to_ms, slice_ms), output)
        return
    request = BackfillRequest(
        pipeline=pipeline.name,
        from_ms=from_ms,
        to_ms=to_ms,
        whatever_the_code=until_converged,
        publish=not preview,
        slice_ms=slice_ms,
        reason=reason or None,
        engine=engine,
        ranges=partitions,
    )
    _restate(opened_pipeline, request, manifest, output, delivers=not no_deliver)


def _restate(
    opened_pipeline: "OpenedPipeline",
    request: "BackfillRequest",
    manifest: str | None,
    output: Output,
    *,
    delivers: bool,
) -> None:
    from slackwater.openlineage.reporting import run_events
    from slackwater.openlineage.results import VerbResults
    from slackwater.runs.outcome import report_to

    work = opened_pipeline.backfill(request, output.say_meanwhile)

    def results() -> VerbResults:
        return VerbResults.from_slices(work.staged_slices, work.publications)

    with (
        opened_pipeline.delivering(options.warn, delivers=delivers),
        report_to(manifest, work),
        run_events("backfill", opened_pipeline, results, options.warn, publishes=request.publish),
    ):
        work.run()
    if output.is_json:
        rows = [*work.branch_rows, *work.publications]
        printing.show_result([row.values() for row in rows], [], output)
    elif work.publication is not None:
        printing.show_result([], changed_rows.first_lines(opened_pipeline, work.publication), output)
