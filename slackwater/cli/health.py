"""`slackwater health`: green, yellow or red for each pipeline, with the reasons. Starts no JVM."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from slackwater.cli import options, printing
from slackwater.cli.printing import Output
from slackwater.errors import without_credentials
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
@printing.kind_option("a table to read, JSON, or Prometheus' text format", "prometheus")
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
        names = sorted({*names_in(place), *own_names})
        healths = list(warehouse_health(declarations, place, now, names))
    if kind == "prometheus":
        click.echo(metrics_text(healths), nl=False)
    else:
        output = Output("json" if kind == "json" else "table", wide, row_limit=None)
        empty = f"no pipeline has run in the warehouse {place.root} yet"
        printing.show(list(map(_facts, healths)), COLUMNS, output, empty=empty)
        if pipeline and not output.is_json:
            _show_findings(healths[0], output)
    return _UNHEALTHY if any(health.colour == "red" for health in healths) else 0


def _show_findings(health: "PipelineHealth", output: Output) -> None:
    from slackwater.inspection.health.report import QUESTIONS

    rows = [
        {
            "question": QUESTIONS[question],
            "colour": finding.colour or "not judged",
            "text": finding.text if finding.command is None else f"{finding.text}; see `{finding.command}`",
        }
        for question, finding in health.findings.items()
    ]
    printing.show(rows, FINDINGS, output, empty="", title="\nwhat was asked")


def _facts(health: "PipelineHealth") -> Mapping[str, Any]:
    """A pipeline as a row of the table, and as an object of JSON."""
    run, lag = health.newest_run, health.watermark_lag
    reasons = [finding.text for finding in health.reasons]
    return {
        "pipeline": health.pipeline,
        "health": str(health.colour),
        "reasons": reasons,
        "reasons_text": "; ".join(reasons) or "–",
        "is_registered": health.is_registered,
        "head": health.head,
        "watermark": None if run is None else run.watermark,
        "watermark_lag_ms": None if lag is None else lag.total_seconds() * 1000,
        **{name: getattr(run, name, None) for name in ("windows_open", "state_bytes", "committed_at")},
        "findings": [
            {"question": question, **vars(finding)} for question, finding in health.findings.items()
        ],
    }


Labels = tuple[tuple[str, str], ...]
Value = Callable[["PipelineHealth"], Any]


def metrics_text(healths: "Sequence[PipelineHealth]") -> str:
    """The health of pipelines in Prometheus' text format: a HELP and a TYPE line for each metric, then a
    sample for each pipeline of which it is known.
    """
    lines = []
    for name, description, value in _GAUGES:
        samples = [((("pipeline", health.pipeline),), value(health)) for health in healths]
        lines += _metric_lines(name, description, samples)
        if name == "health":
            lines += _metric_lines(
                "health_finding",
                "The answer to one question: 0 green, 1 yellow, 2 red.",
                [
                    ((("pipeline", health.pipeline), ("question", question)), finding.colour.rank)
                    for health in healths
                    for question, finding in health.findings.items()
                    if finding.colour is not None
                ],
            )
    return without_credentials("".join(f"{line}\n" for line in lines))


def _metric_lines(name: str, description: str, samples: Sequence[tuple[Labels, Any]]) -> list[str]:
    lines = [
        f"slackwater_{name}{{{_labels(labels)}}} {_number(value)}"
        for labels, value in samples
        if value is not None
    ]
    heading = [f"# HELP slackwater_{name} {description}", f"# TYPE slackwater_{name} gauge"]
    return [*heading, *lines] if lines else []


def _labels(labels: Labels) -> str:
    return ",".join(f'{name}="{_escape(value)}"' for name, value in labels)


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float | datetime | timedelta) -> str:
    """A number; of a time its seconds since 1970, of a duration its seconds."""
    if isinstance(value, datetime):
        value = value.timestamp()
    number = float(value.total_seconds() if isinstance(value, timedelta) else value)
    return str(int(number)) if number.is_integer() else repr(number)


def _newest_run(name: str) -> Value:
    return lambda health: getattr(health.newest_run, name, None)


def _finding(question: str) -> Value:
    return lambda health: getattr(health.findings.get(question), "value", None)


# Name, description and value of each metric but `health_finding`.
_GAUGES: tuple[tuple[str, str, Value], ...] = (
    ("health", "How the pipeline is: 0 green, 1 yellow, 2 red.", lambda health: health.colour.rank),
    ("head_timestamp_seconds", "Where the lineage ends, in arrival time.", _newest_run("slice_end")),
    ("committed_timestamp_seconds", "When the last run was committed.", _newest_run("committed_at")),
    ("watermark_timestamp_seconds", "The watermark at the end of the last run.", _newest_run("watermark")),
    (
        "watermark_lag_seconds",
        "How far the watermark is behind the end of the last slice.",
        _newest_run("watermark_lag"),
    ),
    ("overdue_seconds", "How long a run has been overdue.", _finding("schedule")),
    ("runs_unfinished", "Runs rejected, failed, killed or not published.", _finding("runs")),
    ("rows_read", "Rows that the last run has read.", _newest_run("rows_read")),
    ("rows_late", "Rows of the last run that came too late.", _newest_run("rows_late")),
    ("rows_quarantined", "Rows that the last run has put into quarantine.", _newest_run("rows_quarantined")),
    ("windows_open", "Windows parked by the last run.", _newest_run("windows_open")),
    ("timers_pending", "Timers parked by the last run.", _newest_run("timers_pending")),
    ("state_bytes", "Size of the last run's snapshot in storage.", _newest_run("state_bytes")),
    ("state_growth", "Factor by which state grows beyond the rows read.", _finding("state")),
    ("run_seconds", "How long the last run took, without the start of Spark.", _newest_run("seconds")),
    (
        "source_silence_seconds",
        "How long ago the newest row of the source arrived, of a lineage that follows the clock.",
        _finding("source"),
    ),
    (
        "source_partitions_silent",
        "Source partitions that have no rows any more.",
        _finding("source_partitions"),
    ),
    ("published_lag_rows", "Ledger rows that published does not show yet.", _finding("published")),
    ("sink_backlog_rows", "Corrections that wait for sinks.", _finding("sinks")),
    (
        "straggler_rows",
        "Rows, at most, that appeared in slices that were run before.",
        _finding("stragglers"),
    ),
    ("snapshots_due", "Snapshots that upkeep would drop, about.", _finding("snapshots")),
)
