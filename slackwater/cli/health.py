"""`slackwater health`: green, yellow or red for each pipeline, with the reasons. Starts no JVM."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from slackwater.cli import options, printing
from slackwater.cli.printing import Output
from slackwater.inspection.answer_tables import Column

if TYPE_CHECKING:
    from slackwater.inspection.health.report import PipelineHealth

_COLOURS = {colour: colour for colour in ("green", "yellow", "red")}
COLUMNS = [
    Column("pipeline", "text"),
    Column("health", "text", colours=_COLOURS),
    Column("reasons_text", "text", heading="reasons"),
    Column("head"),
    Column("watermark_lag_ms", "duration", heading="lag"),
    Column("windows_open", heading="open", is_wide=True),
    Column("state_bytes", "size", heading="state", is_wide=True),
    Column("committed_at", is_wide=True),
]
FINDINGS = [
    Column("question", "text"),
    Column("colour", "text", colours=_COLOURS),
    Column("text", "text", heading="finding"),
]
_UNHEALTHY = 1


@click.command("health")
@click.argument("pipeline", required=False, metavar="[PIPELINE]")
@options.warehouse
@options.pipelines
@click.option(
    "--output",
    "kind",
    type=click.Choice(["table", "json", "prometheus"]),
    default="table",
    help="a table to read, JSON, or Prometheus' text format",
)
@click.option("--wide", is_flag=True, help="all columns")
def command(
    pipeline: str | None, *, warehouse: str | None, pipelines: str | None, kind: str, wide: bool
) -> int:
    """Green, yellow or red for each pipeline in the warehouse, with the reasons; with PIPELINE the answer to
    every question. Thresholds are declared in the pipeline, `health=Health(…)`.

    \b
    Examples: slackwater health
              slackwater health departures
              slackwater health --output prometheus > /var/lib/node_exporter/slackwater.prom

    Exit codes: 0 green or yellow, 1 red.
    """
    from slackwater.cli.metrics_text import metrics_text
    from slackwater.inspection.health.report import (
        names_in,
        pipeline_health,
        refuse_missing,
        warehouse_health,
    )
    from slackwater.pipelines import registry
    from slackwater.tables.warehouse import Warehouse

    place, declarations = Warehouse.at(warehouse), registry.load(pipelines)
    own_names = registry.load(pipelines, examples=False)
    now = datetime.now(UTC)
    refuse_missing(place)
    if pipeline:
        healths = [pipeline_health(pipeline, declarations.get(pipeline), place, now)]
    else:
        healths = warehouse_health(declarations, place, now, sorted({*names_in(place), *own_names}))
    if kind == "prometheus":
        click.echo(metrics_text(healths), nl=False)
    else:
        output = Output("json" if kind == "json" else "table", wide, row_limit=None)
        _show(healths, output, empty=f"no pipeline has run in the warehouse {place.root} yet")
        if pipeline and not output.is_json:
            _show_findings(healths[0], output)
    return _UNHEALTHY if any(health.colour == "red" for health in healths) else 0


def _show(healths: "Sequence[PipelineHealth]", output: Output, empty: str) -> None:
    printing.show([_facts(health) for health in healths], COLUMNS, output, empty=empty)


def _show_findings(health: "PipelineHealth", output: Output) -> None:
    from slackwater.inspection.health.report import QUESTIONS

    rows = [
        {
            "question": QUESTIONS[finding.question],
            "colour": finding.colour or "not judged",
            "text": finding.text if finding.command is None else f"{finding.text}; see `{finding.command}`",
        }
        for finding in health.findings
    ]
    printing.show(rows, FINDINGS, output, empty="", title="\nwhat was asked")


def _facts(health: "PipelineHealth") -> Mapping[str, Any]:
    """A pipeline as a row of the table, and as an object of JSON."""
    run, lag = health.newest_run, health.watermark_lag
    return {
        "pipeline": health.pipeline,
        "health": str(health.colour),
        "reasons": [finding.text for finding in health.reasons],
        "reasons_text": "; ".join(finding.text for finding in health.reasons) or "–",
        "is_registered": health.is_registered,
        "head": health.head,
        "watermark": None if run is None else run.watermark,
        "watermark_lag_ms": None if lag is None else lag.total_seconds() * 1000,
        "windows_open": None if run is None else run.windows_open,
        "state_bytes": None if run is None else run.state_bytes,
        "committed_at": None if run is None else run.committed_at,
        "findings": [
            {
                "question": finding.question,
                "colour": finding.colour,
                "text": finding.text,
                "command": finding.command,
                "value": finding.value,
            }
            for finding in health.findings
        ],
    }
