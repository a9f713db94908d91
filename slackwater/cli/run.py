"""`slackwater run`: one slice, or slice after slice up to a time, in one Spark session."""

from typing import TYPE_CHECKING

import click

from slackwater.cli import options, printing
from slackwater.cli.options import NamedPipeline, Time
from slackwater.cli.printing import Output

if TYPE_CHECKING:
    from slackwater.engine.transport.placement import On
    from slackwater.runs.lineage.catch_up import CatchUpRequest
    from slackwater.runs.opened_pipeline import OpenedPipeline


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
@options.place
@printing.json_or_text
@options.log_format
def command(
    pipeline: NamedPipeline,
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
    output: Output,
) -> None:
    """Replay the arrivals of [A, B), or of everything from the head to B, and publish slice after slice.

    Exit codes: 0 done or nothing to do, 2 usage, 3 try again, 4 rejected by validation, 5 another run was
    first.

    \b
    Examples: slackwater run departures --to 2013-01-04
              slackwater run departures --to 2013-01-04 --branch trial
    """
    from slackwater.runs.lineage.catch_up import CatchUpRequest

    request = CatchUpRequest(
        pipeline=pipeline.name,
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
    _catch_up(pipeline.open(on), request, manifest, output, delivers=not no_deliver)


def _catch_up(
    opened_pipeline: "OpenedPipeline",
    request: "CatchUpRequest",
    manifest: str | None,
    output: Output,
    *,
    delivers: bool,
) -> None:
    from slackwater.openlineage.reporting import run_events
    from slackwater.openlineage.results import VerbResults
    from slackwater.runs.outcome import report_to
    from slackwater.tables.ledger.rows import MAIN

    work = opened_pipeline.catch_up(request, output.say_meanwhile)
    publishes = request.publish and request.branch == MAIN

    def results() -> VerbResults:
        return VerbResults.from_slices(work.staged_slices, work.committed_rows if publishes else ())

    with (
        opened_pipeline.delivering(options.warn, delivers=request.publish and delivers),
        report_to(manifest, work),
        run_events("run", opened_pipeline, results, options.warn, publishes=publishes),
    ):
        work.run()
    if output.is_json:
        rows = [row.values() for row in work.committed_rows]
        if not request.publish:  # a staged run has no seq yet
            rows = [{**item.row.values(), "seq": None} for item in work.staged_slices]
        printing.show_result(rows, [], output)
