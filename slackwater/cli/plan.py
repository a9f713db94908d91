"""`slackwater plan`: what a run or a restatement would read, touch and take. Starts no JVM."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from slackwater.cli import options, printing
from slackwater.cli.options import ArrivalTime
from slackwater.cli.printing import Output
from slackwater.inspection.answer_tables import Column
from slackwater.readable import count_text, duration_text, range_text, size_text
from slackwater.windowing.times import to_datetime

if TYPE_CHECKING:
    from slackwater.engine.transport.placement import On
    from slackwater.runs.planning.plan import Plan

COLUMNS = [
    Column("slice", "range"),
    Column("files"),
    Column("bytes", "size", heading="size"),
    Column("rows_read"),
    Column("rows_used"),
    Column("takes", "duration"),
    Column("place", is_wide=True),
]


@click.command("plan")
@click.argument("pipeline")
@click.option(
    "--from",
    "from_ms",
    type=ArrivalTime(),
    metavar="A",
    help="first arrival (default: where the lineage ends)",
)
@click.option(
    "--to",
    "to_ms",
    type=ArrivalTime(),
    metavar="B",
    help="end of the arrivals, exclusive (default: one slice on, or where it ends)",
)
@options.on
@options.warehouse
@options.pipelines
@printing.output
def command(
    pipeline: str,
    *,
    from_ms: int | None,
    to_ms: int | None,
    on: "On | None",
    warehouse: str | None,
    pipelines: str | None,
    output: Output,
) -> None:
    """What `run` would do, or `backfill` for a range that was run already: slices, rows, windows, stragglers,
    engine, seconds, memory.

    \b
    Examples: slackwater plan departures --to 2013-01-15
              slackwater plan departures --from 2013-01-02 --to 2013-01-03
    """
    from slackwater.runs.opened_pipeline import OpenedPipeline

    opened_pipeline = OpenedPipeline(pipeline, warehouse, pipelines, on)
    bounds = (
        None if bound is None else options.in_zone(bound, opened_pipeline.pipeline.zone)
        for bound in (from_ms, to_ms)
    )
    print_plan(opened_pipeline.planner().plan(*bounds), output)


def print_plan(forecast: "Plan", output: Output) -> None:
    """Print a plan; `backfill --dry-run` does too."""
    from slackwater.runs.planning.plan import as_rows

    rows = as_rows(forecast)
    if output.is_json:
        printing.show([{**_facts(forecast), "slices": rows}], [], output, empty="")
        return
    slices = [
        {
            **row,
            "slice_start": to_datetime(item.slice.from_ms),
            "slice_end": to_datetime(item.slice.to_ms),
            "takes": None if row["seconds"] is None else row["seconds"] * 1000,
        }
        for row, item in zip(rows, forecast.slices, strict=True)
    ]
    printing.show(
        slices,
        COLUMNS,
        output,
        empty=f"{forecast.pipeline}: nothing to do; the lineage covers everything up to there.",
    )
    printing.show_facts(list(_sentences(forecast)), output, title="\nin all" if slices else None)


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
        "memory_overhead_mb": forecast.overhead_mb,
        "changes": list(forecast.changes),
        "said": list(forecast.warnings),
    }


def _straggler(item: Any) -> dict[str, Any]:
    from slackwater.runs.staging.slices import iso

    return {"from": iso(item.slice.from_ms), "to": iso(item.slice.to_ms), "rows": item.rows}


def _sentences(forecast: "Plan") -> Iterator[tuple[str, str]]:
    """What the plan says beside its slices: each sentence with what it is about."""
    if forecast.slices:
        yield from _cost(forecast)
    yield from (("changed", sentence) for sentence in forecast.changes)
    yield from (("warning", sentence) for sentence in forecast.warnings)


def _cost(forecast: "Plan") -> Iterator[tuple[str, str]]:
    """What the slices read, touch and take."""
    begins = (
        "begins the lineage"
        if forecast.continues is None
        else f"continues the snapshot of run {forecast.continues}"
    )
    count = count_text(len(forecast.slices), "slice") + (
        f", at most {forecast.at_most}" if forecast.restates else ""
    )
    yield ("restates" if forecast.restates else "runs", f"{count}; {begins}")
    yield ("engine", f"{forecast.engine}, {forecast.why}")
    yield from (("replayed by", sentence) for sentence in _places(forecast))
    yield (
        "windows",
        f"{forecast.touched_parked_windows:,} of {forecast.parked_windows:,} parked and "
        f"{forecast.touched_published_windows:,} published ones are touched",
    )
    if forecast.emitted_rows is not None:
        yield ("emitted", _emitted_rows(forecast))
    yield ("stragglers", _stragglers_by_slice(forecast))
    if forecast.prediction is None:
        yield ("time", "not predicted: no run of this engine is recorded yet")
    elif forecast.seconds is None:
        yield ("time", "not predicted, the rows are not known")
    else:
        yield ("time", f"{duration_text(forecast.seconds * 1000)}, from {forecast.prediction.basis}")
    memory = size_text(forecast.memory_mb * 1_000_000)
    yield ("memory", f"{memory} in the largest task; {forecast.memory_basis}")
    yield (
        "executors",
        f"spark.executor.memoryOverhead={forecast.overhead_mb}m for one core, {forecast.memory_mb}m more for "
        "each further one",
    )


def _places(forecast: "Plan") -> Iterator[str]:
    """For each place the slices that are replayed there, with the reason that the first of them has."""
    for place in dict.fromkeys(placement.place for placement in forecast.placements):
        reasons = [item.reason for item in forecast.placements if item.place == place]
        count = "" if len(reasons) == len(forecast.placements) else f", {count_text(len(reasons), 'slice')}"
        yield f"{place}{count}: {reasons[0]}"


def _emitted_rows(forecast: "Plan") -> str:
    counts = forecast.emitted_rows
    assert counts is not None
    which = "the runs that are restated" if forecast.restates else "the runs so far"
    return f"{counts.rows:,} rows and {counts.side_rows:,} rows of side outputs in {which} ({counts.runs:,})"


def _stragglers_by_slice(forecast: "Plan") -> str:
    if forecast.stragglers is None:
        return "not known; the source's log does not say which rows are new"
    if not forecast.stragglers:
        return "none"
    where = ", ".join(
        f"{item.rows:,} in {range_text(item.slice.from_ms, item.slice.to_ms)}" for item in forecast.stragglers
    )
    return (
        f"{sum(item.rows for item in forecast.stragglers):,} rows appeared after the slice of their arrival "
        f"was run: {where}"
    )
