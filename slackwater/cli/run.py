"""`slackwater run`: one slice, or slice after slice up to a time, in one Spark session."""

from typing import TYPE_CHECKING

import click

from slackwater.cli import options, printing
from slackwater.cli.options import Time
from slackwater.cli.printing import Output

if TYPE_CHECKING:
    from slackwater.engine.transport.placement import On


@click.command("run")
@click.argument("pipeline")
@click.option(
    "--from",
    "from_ms",
    type=Time(),
    metavar="A",
    help="run the one slice [A, B); without it: catch up from the head",
)
@click.option(
    "--to", "to_ms", type=Time(), required=True, metavar="B", help="where the last slice ends (exclusive)"
)
@click.option(
    "--start",
    "start_ms",
    type=Time(),
    metavar="A",
    help="where an empty lineage begins, instead of Pipeline.start",
)
@click.option(
    "--no-publish", is_flag=True, help="stage and validate only; `slackwater publish` makes it live"
)
@click.option(
    "--accept",
    metavar="REASON",
    help="publish the first slice that validation rejects all the same; the reason is recorded",
)
@click.option(
    "--branch", default="main", metavar="NAME", help="run on a branch that `state fork` made, instead of main"
)
@click.option(
    "--all", "everything", is_flag=True, help="catch up over more slices than Pipeline.max_catch_up"
)
@options.no_deliver
@options.replaying
@options.warehouse
@options.pipelines
@printing.json_or_text
@options.log_format
def command(
    pipeline: str,
    *,
    from_ms: int | None,
    to_ms: int,
    start_ms: int | None,
    no_publish: bool,
    accept: str | None,
    branch: str,
    everything: bool,
    no_deliver: bool,
    on: "On | None",
    engine: str | None,
    partitions: int | None,
    manifest: str | None,
    warehouse: str | None,
    pipelines: str | None,
    output: Output,
    log_format: str | None,
) -> None:
    """Replay the arrivals of [A, B), or of everything from the head to B, and publish slice after slice.

    Exit codes: 0 done or nothing to do, 2 usage, 3 try again, 4 rejected by validation, 5 another run was
    first.

    \b
    Examples: slackwater run departures --to 2013-01-04
              slackwater run departures --to 2013-01-04 --branch trial
    """
    from slackwater.openlineage.reporting import run_events
    from slackwater.openlineage.results import VerbResults
    from slackwater.runs.lineage.catch_up import CatchUpRequest
    from slackwater.runs.opened_pipeline import OpenedPipeline
    from slackwater.runs.outcome import report_to
    from slackwater.tables.ledger.rows import MAIN

    options.log_to_stderr(log_format)
    request = CatchUpRequest(
        pipeline=pipeline,
        to_ms=to_ms,
        from_ms=from_ms,
        start_ms=start_ms,
        publish=not no_publish,
        accept=(accept or "").strip() or None,
        everything=everything,
        engine=engine,
        ranges=partitions,
        branch=branch,
    )
    opened_pipeline = OpenedPipeline(pipeline, warehouse, pipelines, on)
    work = opened_pipeline.catch_up(request, output.say_meanwhile)
    publishes = request.publish and branch == MAIN

    def results() -> VerbResults:
        return VerbResults.of_slices(work.staged_slices, work.committed_rows if publishes else ())

    with (
        opened_pipeline.delivering(options.warn, delivers=request.publish and not no_deliver),
        report_to(manifest, work),
        run_events("run", opened_pipeline, results, options.warn, publishes=publishes),
    ):
        work.run()
    if output.is_json:
        rows = [row.values() for row in work.committed_rows]
        if no_publish:  # a staged run has no seq yet
            rows = [{**item.row.values(), "seq": None} for item in work.staged_slices]
        printing.show_result(rows, [], output)
