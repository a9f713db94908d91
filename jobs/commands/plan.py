"""`slackwater plan`: what a run or a restatement would read, touch and take. Starts no JVM."""

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from slackwater.jobs.commands import options
from slackwater.jobs.commands.options import Time

if TYPE_CHECKING:
    from slackwater.jobs.protocol.planning.plan import Plan

COLUMNS = ["from", "to", "files", "bytes", "rows_read", "rows_used", "seconds"]


@click.command("plan")
@click.argument("pipeline")
@click.option(
    "--from", "from_ms", type=Time(), metavar="A", help="first arrival (default: where the lineage ends)"
)
@click.option(
    "--to",
    "to_ms",
    type=Time(),
    metavar="B",
    help="end of the arrivals, exclusive (default: one slice on, or where it ends)",
)
@click.option(
    "--calibrate",
    is_flag=True,
    help="time the first rows of the range on this machine, with Spark, and predict from that",
)
@options.warehouse
@options.pipelines
@options.output
def command(
    pipeline: str,
    from_ms: int | None,
    to_ms: int | None,
    calibrate: bool,
    warehouse: str | None,
    pipelines: str | None,
    output: str,
) -> None:
    """What `run` would do, or `backfill` for a range that was run already: slices, rows, windows, stragglers,
    engine, seconds, memory.
    """
    show(pipeline, from_ms, to_ms, warehouse, pipelines, None, output, calibrate=calibrate)


def show(
    pipeline: str,
    from_ms: int | None,
    to_ms: int | None,
    warehouse: str | None,
    pipelines: str | None,
    slice_ms: int | None,
    output: str,
    *,
    calibrate: bool = False,
) -> None:
    """Print the plan; `backfill --dry-run` prints it too."""
    from slackwater.jobs.protocol.planning.plan import as_rows, plan

    found = plan(
        pipeline, from_ms, to_ms, warehouse, pipelines, slice_ms, _measuring(pipeline) if calibrate else None
    )
    rows = as_rows(found)
    if output == "json":
        options.show([{**_facts(found), "slices": rows}], [], output, empty="")
        return
    options.show(
        rows, COLUMNS, output, empty=f"{pipeline}: nothing to do; the lineage covers everything up to there."
    )
    for line in _lines(found):
        click.echo(line)


def _measuring(pipeline: str) -> Any:
    """What replays and times rows; it needs Spark."""
    from slackwater.jobs.protocol.opened_pipeline import spark_transport
    from slackwater.jobs.protocol.planning.trial import calibrate

    transport = spark_transport(f"calibrate {pipeline}")
    return partial(calibrate, transport=transport, lines=partial(click.echo, err=True))


def _facts(found: "Plan") -> dict[str, Any]:
    prediction = (
        None if found.prediction is None else {**asdict(found.prediction), "basis": found.prediction.basis}
    )
    return {
        "pipeline": found.pipeline,
        "command": "backfill" if found.restates else "run",
        "continues": found.continues,
        "slices_at_most": found.at_most,
        "engine": found.engine,
        "why": found.why,
        "windows_parked": found.parked,
        "windows_parked_touched": found.parked_touched,
        "windows_published_touched": found.published_touched,
        "stragglers": None if found.stragglers is None else [_straggler(item) for item in found.stragglers],
        "seconds": found.seconds,
        "prediction": prediction,
        "memory_mb": found.memory_mb,
        "memory_basis": found.memory_basis,
        "said": list(found.said),
    }


def _straggler(item: Any) -> dict[str, Any]:
    from slackwater.jobs.protocol.staging.slices import iso

    return {"from": iso(item.slice.from_ms), "to": iso(item.slice.to_ms), "rows": item.rows}


def _lines(found: "Plan") -> list[str]:
    begins = (
        "begins the lineage"
        if found.continues is None
        else f"continues the snapshot of run {found.continues}"
    )
    slices = len(found.slices)
    count = f"{slices} slice{'' if slices == 1 else 's'}" + (
        f", at most {found.at_most}" if found.restates else ""
    )
    lines = [
        f"{'restates' if found.restates else 'runs'} {count}; {begins}",
        f"engine: {found.engine}, {found.why}",
        f"windows: {found.parked_touched:,} of {found.parked:,} parked and {found.published_touched:,} "
        "published ones are touched",
        f"stragglers: {_stragglers(found)}",
    ]
    if found.prediction is None:
        lines.append(
            "seconds: not predicted, no run of this engine is recorded; --calibrate measures some rows"
        )
    elif found.seconds is None:
        lines.append("seconds: not predicted, the rows are not known")
    else:
        lines.append(f"seconds: {found.seconds:.1f}, from {found.prediction.basis}")
    lines.append(f"memory: {found.memory_mb:,} MB in the largest task; {found.memory_basis}")
    return [*lines, *(f"warning: {sentence}" for sentence in found.said)]


def _stragglers(found: "Plan") -> str:
    if found.stragglers is None:
        return "not known; the source's log does not say which rows are new"
    if not found.stragglers:
        return "none"
    where = ", ".join(f"{item.rows:,} in {item.slice}" for item in found.stragglers)
    return (
        f"{sum(item.rows for item in found.stragglers):,} rows appeared after the slice of their arrival "
        f"was run: {where}"
    )
