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
    *,
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
    from slackwater.jobs.protocol.opened_pipeline import OpenedPipeline

    opened_pipeline = OpenedPipeline(pipeline, warehouse, pipelines)
    planner = (
        opened_pipeline.calibrating_planner(partial(click.echo, err=True))
        if calibrate
        else opened_pipeline.planner()
    )
    print_plan(planner.plan(from_ms, to_ms), output)


def print_plan(forecast: "Plan", output: str) -> None:
    """Print a plan; `backfill --dry-run` does too."""
    from slackwater.jobs.protocol.planning.plan import as_rows

    rows = as_rows(forecast)
    if output == "json":
        options.show([{**_facts(forecast), "slices": rows}], [], output, empty="")
        return
    options.show(
        rows,
        COLUMNS,
        output,
        empty=f"{forecast.pipeline}: nothing to do; the lineage covers everything up to there.",
    )
    for line in _sentences(forecast):
        click.echo(line)


def _facts(forecast: "Plan") -> dict[str, Any]:
    prediction = (
        None
        if forecast.prediction is None
        else {**asdict(forecast.prediction), "basis": forecast.prediction.basis}
    )
    return {
        "pipeline": forecast.pipeline,
        "command": "backfill" if forecast.restates else "run",
        "continues": forecast.continues,
        "slices_at_most": forecast.at_most,
        "engine": forecast.engine,
        "why": forecast.why,
        "windows_parked": forecast.parked_windows,
        "windows_parked_touched": forecast.touched_parked_windows,
        "windows_published_touched": forecast.touched_published_windows,
        "stragglers": None
        if forecast.stragglers is None
        else [_straggler(item) for item in forecast.stragglers],
        "emitted": None if forecast.emitted_rows is None else asdict(forecast.emitted_rows),
        "seconds": forecast.seconds,
        "prediction": prediction,
        "memory_mb": forecast.memory_mb,
        "memory_basis": forecast.memory_basis,
        "changes": list(forecast.changes),
        "said": list(forecast.warnings),
    }


def _straggler(item: Any) -> dict[str, Any]:
    from slackwater.jobs.protocol.staging.slices import iso

    return {"from": iso(item.slice.from_ms), "to": iso(item.slice.to_ms), "rows": item.rows}


def _sentences(forecast: "Plan") -> list[str]:
    begins = (
        "begins the lineage"
        if forecast.continues is None
        else f"continues the snapshot of run {forecast.continues}"
    )
    slices = len(forecast.slices)
    count = f"{slices} slice{'' if slices == 1 else 's'}" + (
        f", at most {forecast.at_most}" if forecast.restates else ""
    )
    lines = [
        f"{'restates' if forecast.restates else 'runs'} {count}; {begins}",
        f"engine: {forecast.engine}, {forecast.why}",
        f"windows: {forecast.touched_parked_windows:,} of {forecast.parked_windows:,} parked and "
        f"{forecast.touched_published_windows:,} published ones are touched",
        *([] if forecast.emitted_rows is None else [f"emitted: {_emitted_rows(forecast)}"]),
        f"stragglers: {_stragglers_by_slice(forecast)}",
    ]
    if forecast.prediction is None:
        lines.append(
            "seconds: not predicted, no run of this engine is recorded; --calibrate measures some rows"
        )
    elif forecast.seconds is None:
        lines.append("seconds: not predicted, the rows are not known")
    else:
        lines.append(f"seconds: {forecast.seconds:.1f}, from {forecast.prediction.basis}")
    lines.append(f"memory: {forecast.memory_mb:,} MB in the largest task; {forecast.memory_basis}")
    lines += [f"changed: {sentence}" for sentence in forecast.changes]
    return [*lines, *(f"warning: {sentence}" for sentence in forecast.warnings)]


def _emitted_rows(forecast: "Plan") -> str:
    counts = forecast.emitted_rows
    assert counts is not None
    which = "the runs that are restated" if forecast.restates else "the runs so far"
    others = (
        f"; {counts.runs_without_counts} more of an earlier version did not count theirs"
        if counts.runs_without_counts
        else ""
    )
    return (
        f"{counts.rows:,} rows and {counts.side_rows:,} rows of side outputs in {which} "
        f"({counts.runs:,}{others})"
    )


def _stragglers_by_slice(forecast: "Plan") -> str:
    if forecast.stragglers is None:
        return "not known; the source's log does not say which rows are new"
    if not forecast.stragglers:
        return "none"
    where = ", ".join(f"{item.rows:,} in {item.slice}" for item in forecast.stragglers)
    return (
        f"{sum(item.rows for item in forecast.stragglers):,} rows appeared after the slice of their arrival "
        f"was run: {where}"
    )
