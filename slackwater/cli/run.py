"""`slackwater run`: one slice, or slice after slice up to a time, in one Spark session."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from slackwater.cli import options, printing
from slackwater.cli.options import ArrivalTime, NamedPipeline
from slackwater.cli.printing import Output
from slackwater.inspection.answer_tables import Column

if TYPE_CHECKING:
    from slackwater.engine.transport.placement import On
    from slackwater.runs.lineage.catch_up import CatchUp, CatchUpRequest
    from slackwater.runs.opened_pipeline import OpenedPipeline


@click.command("run")
@click.argument("pipeline", required=False)
@click.option(
    "--all-pipelines",
    is_flag=True,
    help="every pipeline of --pipelines, one after the other; one that fails stops only itself",
)
@click.option(
    "--from",
    "from_ms",
    type=ArrivalTime(),
    metavar="A",
    help="run the one slice [A, B); without it: catch up from the head",
)
@click.option(
    "--to",
    "to_ms",
    type=ArrivalTime(),
    required=True,
    metavar="B",
    help="where the last slice ends (exclusive)",
)
@click.option(
    "--start",
    "start_ms",
    type=ArrivalTime(),
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
    all_pipelines: bool,
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
) -> int:
    """Replay the arrivals of [A, B), or of everything from the head to B, and publish slice after slice.

    Exit codes: 0 done or nothing to do, 2 usage, 3 try again, 4 rejected by validation, 5 another run was
    first; of several pipelines the first that is not 0.

    \b
    Examples: slackwater run departures --to 2013-01-04
              slackwater run departures --to 2013-01-04 --branch trial
              slackwater run --all-pipelines --to 2013-01-04 --pipelines pipelines/
    """
    from slackwater.runs.lineage.catch_up import CatchUpRequest

    if all_pipelines is (pipeline.name is not None):
        raise click.UsageError("name one PIPELINE, or give --all-pipelines")
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
    delivers = not no_deliver
    if not all_pipelines:
        work = _catch_up(pipeline.open(on), request, manifest, output, delivers=delivers)
        if output.is_json:
            printing.show_result(_values(work), [], output)
        return 0
    if manifest is not None:
        raise click.UsageError("--manifest is for one pipeline; leave it out with --all-pipelines")
    return _catch_up_all(pipeline, on, request, output, delivers=delivers)


def _catch_up_all(
    place: NamedPipeline, on: "On | None", request: "CatchUpRequest", output: Output, *, delivers: bool
) -> int:
    """Run every pipeline of the user's, and show what became of each. Returns the first exit code but 0."""
    from slackwater.errors import SlackwaterError
    from slackwater.pipelines import registry

    pipelines = registry.load(place.files, examples=False)
    if not pipelines:
        raise click.UsageError("--all-pipelines runs what --pipelines declares; name files or a folder there")
    rows, exit_codes = [], []
    for name in pipelines:
        row: dict[str, Any] = {"pipeline": name, "slices": 0, "rows": 0, "error": None}
        began = time.monotonic()
        output.say_meanwhile(name)
        try:
            opened_pipeline = replace(place, name=name).open(on)
            work = _catch_up(
                opened_pipeline, replace(request, pipeline=name), None, output, delivers=delivers
            )
        except SlackwaterError as error:
            row["error"] = error.message
            exit_codes.append(error.exit_code)
        else:
            slices = work.staged_slices
            row |= {"slices": len(slices), "rows": sum(item.row.rows_read or 0 for item in slices)}
        rows.append({**row, "seconds": round(time.monotonic() - began, 3)})
    exit_codes += [fault.exit_code for fault in pipelines.faults.values()]
    columns = [
        *(Column("pipeline", "key"), Column("slices"), Column("rows"), Column("seconds")),
        Column("error", "text"),
    ]
    printing.show(rows, columns, output, empty="no pipeline")
    for fault in pipelines.faults.values():
        options.warn(f"not loaded: {fault}")
    return next((code for code in exit_codes if code), 0)


def _values(work: "CatchUp") -> list[dict[str, Any]]:
    """The committed rows, or the staged ones, which have no seq yet."""
    if work.request.publish:
        return [row.values() for row in work.committed_rows]
    return [{**item.row.values(), "seq": None} for item in work.staged_slices]


def _catch_up(
    opened_pipeline: "OpenedPipeline",
    request: "CatchUpRequest",
    manifest: str | None,
    output: Output,
    *,
    delivers: bool,
) -> "CatchUp":
    from slackwater.openlineage.reporting import run_events
    from slackwater.openlineage.results import VerbResults
    from slackwater.runs.outcome import report_to
    from slackwater.tables.ledger.rows import MAIN

    zone = opened_pipeline.pipeline.zone
    request = replace(
        request,
        to_ms=options.in_zone(request.to_ms, zone),
        from_ms=None if request.from_ms is None else options.in_zone(request.from_ms, zone),
        start_ms=None if request.start_ms is None else options.in_zone(request.start_ms, zone),
    )
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
    return work
