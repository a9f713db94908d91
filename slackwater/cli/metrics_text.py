"""Writes the health of pipelines in Prometheus' text exposition format: a HELP and a TYPE line for each
metric, then a sample for each pipeline. Pure functions.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from slackwater.errors import without_credentials
from slackwater.inspection.health import runs, series, source, stored, stragglers
from slackwater.inspection.health.report import PipelineHealth
from slackwater.inspection.runs.run_series import RunFigures

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "slackwater_"
Labels = tuple[tuple[str, str], ...]
Sample = tuple[Labels, float]


@dataclass(frozen=True)
class _Gauge:
    """A metric: its name without our prefix, what it is, and its samples of one pipeline."""

    name: str
    help: str
    samples: Callable[[PipelineHealth], Iterable[Sample]]


def metrics_text(healths: Sequence[PipelineHealth]) -> str:
    """The metrics of some pipelines. One of which nothing is known has no sample."""
    lines = []
    for gauge in _GAUGES:
        name = _PREFIX + gauge.name
        samples = [(labels, value) for health in healths for labels, value in gauge.samples(health)]
        if not samples:
            continue
        lines += [f"# HELP {name} {_escape(gauge.help)}", f"# TYPE {name} gauge"]
        lines += [f"{name}{{{_labels(labels)}}} {_number(value)}" for labels, value in samples]
    return without_credentials("".join(f"{line}\n" for line in lines))


def _labels(labels: Labels) -> str:
    return ",".join(f'{name}="{_escape(value, quote=True)}"' for name, value in labels)


def _escape(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quote else text


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _of_pipeline(health: PipelineHealth) -> Labels:
    return (("pipeline", health.pipeline),)


def _colours(health: PipelineHealth) -> Iterable[Sample]:
    yield _of_pipeline(health), health.colour.rank


def _findings(health: PipelineHealth) -> Iterable[Sample]:
    for finding in health.findings:
        if finding.colour is not None:
            yield (*_of_pipeline(health), ("question", finding.question)), finding.colour.rank


def _of_newest_run(
    value: Callable[[RunFigures], float | None],
) -> Callable[[PipelineHealth], Iterable[Sample]]:
    def samples(health: PipelineHealth) -> Iterable[Sample]:
        number = None if health.newest_run is None else value(health.newest_run)
        if number is not None:
            yield _of_pipeline(health), number

    return samples


def _of_finding(question: str) -> Callable[[PipelineHealth], Iterable[Sample]]:
    def samples(health: PipelineHealth) -> Iterable[Sample]:
        for finding in health.findings:
            if finding.question == question and finding.value is not None:
                yield _of_pipeline(health), finding.value

    return samples


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


_GAUGES = (
    _Gauge("health", "How the pipeline is: 0 green, 1 yellow, 2 red.", _colours),
    _Gauge("health_finding", "The answer to one question: 0 green, 1 yellow, 2 red.", _findings),
    _Gauge(
        "head_timestamp_seconds",
        "Where the lineage ends, in arrival time.",
        _of_newest_run(lambda run: _seconds(run.slice_end)),
    ),
    _Gauge(
        "committed_timestamp_seconds",
        "When the last run was committed.",
        _of_newest_run(lambda run: _seconds(run.committed_at)),
    ),
    _Gauge(
        "watermark_timestamp_seconds",
        "The watermark at the end of the last run.",
        _of_newest_run(lambda run: _seconds(run.watermark)),
    ),
    _Gauge(
        "watermark_lag_seconds",
        "How far the watermark is behind the end of the last slice.",
        _of_newest_run(lambda run: None if run.watermark_lag is None else run.watermark_lag.total_seconds()),
    ),
    _Gauge("overdue_seconds", "How long a run has been overdue.", _of_finding(runs.SCHEDULE)),
    _Gauge("runs_unfinished", "Runs rejected, failed, killed or not published.", _of_finding(runs.ATTEMPTS)),
    _Gauge("rows_read", "Rows that the last run has read.", _of_newest_run(lambda run: run.rows_read)),
    _Gauge(
        "rows_late", "Rows of the last run that came too late.", _of_newest_run(lambda run: run.rows_late)
    ),
    _Gauge(
        "rows_quarantined",
        "Rows that the last run has put into quarantine.",
        _of_newest_run(lambda run: run.rows_quarantined),
    ),
    _Gauge("windows_open", "Windows parked by the last run.", _of_newest_run(lambda run: run.windows_open)),
    _Gauge(
        "timers_pending", "Timers parked by the last run.", _of_newest_run(lambda run: run.timers_pending)
    ),
    _Gauge(
        "state_bytes",
        "Size of the last run's snapshot in storage.",
        _of_newest_run(lambda run: run.state_bytes),
    ),
    _Gauge("state_growth", "Factor by which state grows beyond the rows read.", _of_finding(series.STATE)),
    _Gauge(
        "run_seconds",
        "How long the last run took, without the start of Spark.",
        _of_newest_run(lambda run: run.seconds),
    ),
    _Gauge(
        "source_silence_seconds",
        "How long ago the newest row of the source arrived, of a lineage that follows the clock.",
        _of_finding(source.SOURCE),
    ),
    _Gauge(
        "source_partitions_silent",
        "Source partitions that have no rows any more.",
        _of_finding(source.PARTITIONS),
    ),
    _Gauge(
        "published_lag_rows", "Ledger rows that published does not show yet.", _of_finding(stored.PUBLISHED)
    ),
    _Gauge("sink_backlog_rows", "Corrections that wait for sinks.", _of_finding(stored.SINKS)),
    _Gauge(
        "straggler_rows",
        "Rows, at most, that appeared in slices that were run before.",
        _of_finding(stragglers.STRAGGLERS),
    ),
    _Gauge("snapshots_due", "Snapshots that upkeep would drop, about.", _of_finding(stored.SNAPSHOTS)),
)
